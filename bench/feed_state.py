"""A node with many jobs, made of events: for what is measured without a daemon. All of them do something all the
time."""

from random import Random

from gpud.engine.in_words import Levels
from gpud.engine.reducer import react
from gpud.engine.state import State
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, Generation, SessionId, Slot
from gpud.model.levels import Level
from gpud.model.units import MILLISECOND, SECOND
from gpud.testing.boards import board_from_texts

GIB = 1 << 30
POLICY = """gpol 1
policy "bench" {
  doc "Of a bench."
  class high { match label("tier") == "online" }
  class low { match any }
  arbitrate preempt { order = [high, low]  max_inflight = 16  resume_after = 1ms  max_pause = 2s }
}
apply "bench" to gpu *
"""


class Crowd:
    """`jobs` on so many devices, one process each; one in four is of the high class, and holds the others."""

    def __init__(self, jobs: int, devices: int) -> None:
        self.state = State(board=board_from_texts({"bench.gpol": POLICY}), lease_ns=3 * SECOND)
        self.now = 100 * SECOND
        uuids = [bytes([device]) * 16 for device in range(devices)]
        self._react(ev.DevicesFound(devices=tuple((uuid, "A100", 40 * GIB) for uuid in uuids)))
        for job in range(jobs):
            self._begin(job, uuids[job % devices])
        self._steps = 0
        self._random = Random(1)
        """Of amounts that nobody can foretell: others the journal would pack into next to nothing."""
        self._so_far: dict[ClientId, list[int]] = {}
        """Launches, time held, time spent."""

    def _react(self, event: ev.Event) -> None:
        react(self.state, event, self.now)

    def _begin(self, job: int, uuid: bytes) -> None:
        launcher = ev.Who(pid=10_000 + job, started=1, uid=1000 + job % 7, user=f"user{job % 7}", command="gpud run")
        above = ((launcher.pid, launcher.started),)
        who = ev.Who(pid=20_000 + job, started=1, uid=1000, user="user", command="python train.py", ancestors=above)
        asked = [("name", f"train-{job}"), ("command", f"python train.py --model {job} --batch 64 --epochs 90")]
        asked += [("label.tier", "online")] if job % 4 == 0 else []
        self._react(ev.LaunchAsked(session=SessionId(2 * job + 1), who=launcher, asked=tuple(asked)))
        self._react(
            ev.AttachAsked(
                session=SessionId(2 * job + 2), who=who, client=ClientId(0), generation=Generation(0), again=False
            )
        )
        client = ClientId(job + 1)
        self._react(ev.Mapped(client=client))
        self._react(ev.DevicesReported(client=client, devices=((uuid, 40 * GIB),)))

    def step(self, ns: int) -> tuple[dict[tuple[ClientId, Slot], Counters], Levels]:
        """Time passes: what pages and levels say then."""
        self.now += ns
        self._steps += 1
        random, milliseconds = self._random, ns // MILLISECOND
        sums: dict[tuple[ClientId, Slot], Counters] = {}
        levels: dict[tuple[int, Slot], Level] = {}
        for client in self.state.clients.values():
            for slot in client.slots():
                is_high = client.id % 4 == 1
                more = [random.randrange(most * milliseconds) for most in (2, MILLISECOND, 50_000)]
                so_far = self._so_far.setdefault(client.id, [0, 0, 0])
                so_far[:] = launches, held_ns, spent_ns = [was + new for was, new in zip(so_far, more, strict=True)]
                sums[client.id, slot] = Counters(
                    entered=launches,
                    held=self._steps * 3,
                    held_ns=held_ns,
                    used_bytes=GIB,
                    reserved_bytes=GIB,
                    spent_ns=spent_ns,
                    active=1,
                    holding=not is_high,
                    hold_reason=0 if is_high else 2,
                    hold_peer=0,
                    hold_since_ns=0 if is_high else self.now - random.randrange(2 * MILLISECOND),
                )
                job = self.state.clients[client.id].job
                levels[job, slot] = Level(
                    tenant=job,
                    slot=slot,
                    cap_ns=0,
                    cap_ppm=None,
                    lag_ns=self._steps,
                    share_ppm=40_000,
                    at_ns=self.now,
                    spent=(),
                    busy_ppm=random.randrange(100_000),
                )
        return sums, levels  # type: ignore[return-value]
