"""A node that somebody looks at: events and counters in, rows out."""

from collections.abc import Mapping, Sequence

from gpud.engine.board import Board
from gpud.engine.live import Facts, Live, Rows
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, Slot
from gpud.model.levels import Level
from gpud.model.live_views import JobRow
from gpud.model.policy_views import SetView
from gpud.model.units import SECOND
from tests.engine.conftest import World

S0 = Slot(0)
WALL = 1_700_000_000 * SECOND
RUNNING = SetView(number=1, digest="d", directory="/p", applied=None, since_ns=1, how="start", probation_ns=0)
OTHER = b"\xff" * 16
TURNS = """
  class job { match any }
  arbitrate exclusive { max_hold = 10s  min_hold = 1s  grace = 2s  idle_release = 500ms }
"""
SHARES = """
  class big { match label("tier") == "online"  share = fixed(50%)  per = tenant }
  class small { match any  share = equal  per = tenant }
  arbitrate share { period = 20ms }
"""


class Watched(World):
    """`counters`: what pages say of each client, on all of its devices."""

    def __init__(self, running: Board | None = None) -> None:
        super().__init__(running=running)
        self.live = Live(Facts(host="node1", version="9", pid=7))
        self.counters: dict[ClientId, Counters] = {}
        self.histograms: dict[ClientId, tuple[int, ...]] = {}
        self.levels: dict[tuple[int, Slot], Level] = {}
        self.offset = WALL
        self.set = RUNNING
        self.driver = "ok"

    def sums(self) -> dict[tuple[ClientId, Slot], Counters]:
        clients = self.state.clients.values()
        return {(c.id, slot): self.counters.get(c.id, Counters()) for c in clients for slot in c.slots()}

    def look(self, live: Live | None = None) -> Rows:
        """By another watcher than the first one: `live`."""
        live = live or self.live
        sums = self.sums()
        wanted = live.wanted(sums, self.now)
        return live.look(
            self.state,
            sums,
            self.levels,  # type: ignore[arg-type]
            self.now,
            offset=self.offset,
            driver=self.driver,
            policy_set=self.set,
            histograms={key: self.histograms.get(key[0], (0,) * 32) for key in wanted},
        )

    def row(self, client: ClientId) -> JobRow:
        """Of its job, now."""
        return self.look().jobs[self.state.clients[client].job]

    def holds(self, client: ClientId, reason: int, peer: ClientId | None = None, for_ns: int = 1000) -> None:
        """A thread of it is held from now on, as its page says."""
        present = self.state.clients[client].peers[peer].present if peer is not None else 0xFFFFFFFF
        self.counters[client] = Counters(
            holding=1, hold_reason=reason, hold_peer=present, hold_since_ns=self.now - for_ns
        )

    def level(self, client: ClientId, **words: int) -> None:
        """Of its job on the first device."""
        job = self.state.clients[client].job
        whole = {"cap_ns": 0, "cap_ppm": None, "lag_ns": 0, "share_ppm": 0, "at_ns": self.now} | words
        self.levels[job, S0] = Level(tenant=job, slot=S0, spent=(), **whole)  # type: ignore[arg-type]


def changed(before: Rows, after: Rows) -> Sequence[int]:
    """Jobs whose row is another object."""
    return [job for job, row in after.jobs.items() if row is not before.jobs.get(job)]


def same(one: Mapping[int, JobRow], other: Mapping[int, JobRow]) -> bool:
    return dict(one) == dict(other)
