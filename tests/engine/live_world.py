"""A node that somebody looks at: events and counters in, rows out."""

from collections.abc import Mapping, Sequence

from gpud.engine.board import Board
from gpud.engine.live import Facts, Live, Rows
from gpud.engine.publish import GATE_GRANT, GATE_PREEMPT, GATE_SHARE, GATE_WINDOW
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, Slot
from gpud.model.levels import Level
from gpud.model.live_views import JobRow
from gpud.model.policy_views import SetView
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import GIB, UUID, World, board

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


def act(world: Watched, action: int, number: int) -> None:
    """Something happens."""
    clients = list(world.state.clients)
    client = clients[number % len(clients)] if clients else None
    match action:
        case 0:
            world.ready(world.launch(name=f"job{number}")[0])
        case 1:
            world.ready(world.launch(label_tier="online")[0], devices=(UUID, OTHER)[: 1 + number % 2])
        case 2:
            world.launch()
        case 3 if client is not None:
            world.gone(client)
        case 4 if client is not None:
            before = world.counters.get(client, Counters())
            world.counters[client] = before._replace(
                entered=before.entered + number, spent_ns=before.spent_ns + number, active=number % 2, held=number
            )
        case 5 if client is not None:
            world.holds(client, (GATE_WINDOW, GATE_GRANT, GATE_PREEMPT, GATE_SHARE)[number % 4])
        case 6 if client is not None:
            slots = world.state.clients[client].slots()
            if slots:
                world.react(ev.LockAsked(client=client, request=number, slots=slots, explicit=True, wait_ns=None))
        case 7 if client is not None:
            slots = frozenset(world.state.locks.lines)
            world.react(
                ev.LockBack(
                    client=client,
                    slots=slots,
                    epoch=world.state.locks.last_epoch,
                    overrun=False,
                    never=False,
                )
            )
        case 8:
            world.later(number * 100 * MILLISECOND)
        case 9 if client is not None:
            world.react(ev.DevicesReported(client=client, devices=((OTHER, GIB),)))
        case 10:
            seen = ev.Seen(total_bytes=GIB, used_bytes=number, utilisation=0.5, processes=())
            world.react(ev.DriverTold(devices={UUID: seen}))
        case 11:
            world.offset += (number % 3 - 1) * SECOND
        case 12 if client is not None:
            world.level(client, share_ppm=number * 1000, cap_ppm=500_000, busy_ppm=number)


POLICIES = (None, board(("turns", TURNS)), board(("p", SHARES)))
