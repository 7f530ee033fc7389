"""A feed that is made up, step by step the same each time: for tests of `gpud top` and for measuring it."""

from collections.abc import Iterator

from attrs import evolve

from gpud.model.live_views import (
    ClassRow,
    Decision,
    DeviceRow,
    Feed,
    JobRow,
    NodeRow,
    ProcessRow,
    SwapRow,
    WhyRow,
)
from gpud.model.policy_views import RejectedView, SetView
from gpud.model.views import AppliedView, PolicyView

BEGIN_NS = 1_790_000_000 * 10**9
"""Unix time of the first step."""
STEP_NS = 500_000_000
GIB = 2**30
_KINDS = ("serve", "train", "batch", "sweep", "etl", "notebook", "render", "warmup")
_STATES = ("active", "held", "queued", "paused", "swapped", "idle", "active", "starting")
_USERS = ("alice", "bob", "carol", "dave")
_TURN = 6
"""Steps of a turn."""


class Script:
    """A node of some devices and jobs. `steps` plays it."""

    def __init__(self, jobs: int = 8, devices: int = 2) -> None:
        self.count = jobs
        self.devices = devices
        self._decided = self._told = 0

    def steps(self, count: int) -> Iterator[Feed]:
        """The first is full."""
        before: dict[int, JobRow] = {}
        seen: dict[str, DeviceRow] = {}
        for number in range(count):
            jobs = {row.id: row for row in self.jobs(number)}
            devices = {row.uuid: row for row in self.device_rows(number)}
            yield Feed(
                number=number + 1,
                at_ns=at_ns(number),
                full=number == 0,
                node=node_row() if number == 0 else None,
                devices=tuple(row for row in devices.values() if seen.get(row.uuid) != row),
                jobs=tuple(row for row in jobs.values() if before.get(row.id) != row),
                gone=tuple(before.keys() - jobs.keys()),
                classes=tuple(self.classes(number)),
                decisions=tuple(self.decisions(number)),
            )
            before, seen = jobs, devices

    def jobs(self, step: int) -> list[JobRow]:
        return [self._job(number, step) for number in range(1, self.count + 1)]

    def device_rows(self, step: int) -> list[DeviceRow]:
        return [self._device(slot, step) for slot in range(self.devices)]

    def holder(self, slot: int, step: int) -> int:
        """Which job has the device: they take turns."""
        mates = [number for number in range(1, self.count + 1) if (number - 1) // 2 % self.devices == slot]
        return mates[step // _TURN % len(mates)] if mates else 1

    def classes(self, step: int) -> Iterator[ClassRow]:
        for slot in range(self.devices):
            for rank, (name, part) in enumerate((("serving", 7), ("training", 3))):
                yield ClassRow(
                    device=slot, policy="preempt-mix", job_class=name, rank=rank, jobs=3, active=2 - rank, held=rank,
                    target=part / 10, spent_ns=STEP_NS * sum(part + (at + slot) % 3 - 1 for at in range(step)) // 10,
                    wait_p50_ns=1_200_000 * (rank + 1), wait_p95_ns=4_100_000 + 30_000_000 * rank,
                )  # fmt: skip

    def decisions(self, step: int) -> Iterator[Decision]:
        self._told = 0
        if step % _TURN == 0:
            for slot in range(self.devices):
                holder = self.holder(slot, step)
                if step:
                    yield self._decide(step, "back", f"gave device {slot} back, 3 ms after it was asked", slot,
                                       self.holder(slot, step - 1))  # fmt: skip
                yield self._decide(step, "grant", "its turn of 3 s begins: it waited longest", slot, holder)
        if step % 10 == 4:
            yield self._decide(step, "hold", "launches wait: serving has work", 0, 2)
        if step % 16 == 9:
            yield self._decide(step, "overrun", "was not back 250 ms after its turn", self.devices - 1, 5, "warning")

    def _decide(self, step: int, kind: str, text: str, slot: int, job: int, level: str = "info") -> Decision:
        self._decided += 1
        self._told += 1
        return Decision(number=self._decided, at_ns=at_ns(step) - 40_000_000 + self._told * 10**6, kind=kind,
                        text=text, device=slot, job=job, by="turns.gpol:12", level=level)  # fmt: skip

    def _device(self, slot: int, step: int) -> DeviceRow:
        swing = (step * 7 + slot * 13) % 24
        busy = 0.35 + (swing if swing < 12 else 24 - swing) / 20
        holder = self.holder(slot, step)
        return DeviceRow(
            slot=slot, uuid=f"GPU-{slot:08x}-0000-0000-0000-000000000000", name="NVIDIA A100-SXM4-40GB",
            total_bytes=40 * GIB, used_bytes=int((12 + 9 * slot % 30 + swing / 4) * GIB) % (40 * GIB),
            reserved_bytes=(18 + 9 * slot % 20) * GIB, utilisation=min(busy, 1.0), power_w=160.0 + 12 * swing,
            temperature_c=52.0 + swing + 6 * (slot % 3), holder=holder,
            holder_until_at_ns=at_ns(step - step % _TURN + _TURN), waiters=1 + slot % 3,
            unmanaged=1 if slot == 1 else 0, busy_ns=int(step * STEP_NS * 0.8), arbiter="preempt",
            policies=("preempt-mix", "turns"),
        )  # fmt: skip

    def _job(self, number: int, step: int) -> JobRow:
        kind = _KINDS[(number - 1) % len(_KINDS)]
        state = _STATES[(number - 1) % len(_STATES)]
        slot = (number - 1) // 2 % self.devices
        holder = self.holder(slot, step)
        high = kind in ("serve", "notebook", "render")
        busy = {"active": 0.35 + number % 5 / 10, "held": 0.08}.get(state, 0.0)
        wave = sum((at * number % 5) / 20 for at in range(step)) if busy else 0.0
        used = int((1.5 + number % 7 * 1.75) * GIB)
        row = JobRow(
            id=number, name=kind if number <= len(_KINDS) else f"{kind}-{number}", user=_USERS[number % len(_USERS)],
            uid=1000 + number % len(_USERS), job_class="serving" if high else "training", state=state,
            processes=tuple(
                ProcessRow(pid=4000 + 10 * number + at, command=f"python {kind}.py --rank {at}", devices=(slot,),
                           used_bytes=used // (1 + number % 2))
                for at in range(1 + number % 2)
            ),
            command=f"python {kind}.py --config conf/{kind}.yaml --seed {number}",
            labels=(("tier", "online" if high else "batch"),), devices=(slot,),
            began_at_ns=BEGIN_NS - number * 97 * 10**9, pinned=kind == "render",
            paused_by="alice (uid 1000)" if state == "paused" else "", used_bytes=used,
            limit_bytes=8 * GIB if number % 3 == 0 else None, resident_bytes=0 if state == "swapped" else used // 2,
            host_bytes=used if state == "swapped" else 0, spent_ns=int(STEP_NS * (step * busy / 2 + wave)),
            launches=int(step * 500 * busy) + number * 1000, held=step if state == "held" else 0,
            held_ns=step * 30_000_000 if state == "held" else 0, share=0.7 if high else 0.3,
            limit=0.5 if number % 4 == 0 else None, busy=busy, turn=holder == number,
            trace=f"{number:032x}",
        )  # fmt: skip
        return self._with_reason(row, slot, holder, step)

    def _with_reason(self, row: JobRow, slot: int, holder: int, step: int) -> JobRow:
        ends_ns = at_ns(step - step % _TURN + _TURN)
        if row.state == "held":
            why = WhyRow(code="preempt", text="a job of higher rank has work: launches wait until it has been idle "
                         "for 5 ms", holder=holder if holder != row.id else 1, since_at_ns=at_ns(step) - 1_400_000_000,
                         by="preempt-mix.gpol:9")  # fmt: skip
            return evolve(row, why=why)
        if row.state == "queued":
            why = WhyRow(code="turn", text="it waits for its turn on the device", holder=holder, place=1 + row.id % 3,
                         turn_ends_at_ns=ends_ns, starts_at_ns=ends_ns + 3 * 10**9, by="turns.gpol:12")  # fmt: skip
            return evolve(row, why=why)
        if row.state == "paused":
            return evolve(row, why=WhyRow(code="paused", text="alice paused it", since_at_ns=BEGIN_NS - 61 * 10**9))
        if row.state == "swapped":
            done = min(2 + step % 12, 10)
            swap = SwapRow(device=slot, direction="in", done_bytes=row.used_bytes * done // 10,
                           total_bytes=row.used_bytes, began_at_ns=at_ns(step) - 400_000_000 * done)  # fmt: skip
            return evolve(row, swap=swap)
        return row


def at_ns(step: int) -> int:
    """Unix time of a step."""
    return BEGIN_NS + step * STEP_NS


def node_row(rejected: bool = False) -> NodeRow:
    """Of a daemon that runs four sets' fourth; `rejected`: a change after it was refused."""
    applied = AppliedView(
        name="preempt-mix", arguments=(("quiet", "5ms"),), mode="preempt", classes=("serving", "training"),
        digest="5e884898da28", steps=41, ranks=(("serving",), ("training",)),
    )  # fmt: skip
    turns = AppliedView(
        name="turns", arguments=(("hold", "3s"),), mode="", classes=("any",), digest="6b86b273ff34", steps=12
    )
    text = (
        "error[GP204]: nothing is called `quit`\n"
        " --> preempt-mix.gpol:9:28\n"
        "  |\n"
        "9 |   arbitrate preempt { order = [serving, training]  quit = 5ms }\n"
        "  |                                                    ^^^^ did you mean `quiet`?\n"
    )
    refused = RejectedView(digest="9f86d081884c", at_ns=BEGIN_NS - 40 * 10**9, count=2,
                           summary="1 error in 1 file", text=text)  # fmt: skip
    return NodeRow(
        host="node7", version="0.1.0", pid=812, simulated=None, driver="ok", generation=4,
        policy_set=SetView(number=4, digest="d4735e3a265e16eee03f59718b9b5d03", directory="/etc/gpud/policies",
                           applied=None, since_ns=BEGIN_NS - 3700 * 10**9, how="files", probation_ns=0,
                           differs="the directory holds a set that was refused" if rejected else "",
                           rejected=refused if rejected else None),
        policies=(PolicyView(device=0, uuid="GPU-0", policies=(applied, turns)),
                  PolicyView(device=None, uuid="", policies=(applied,))),
    )  # fmt: skip
