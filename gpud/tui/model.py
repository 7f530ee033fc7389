"""What is known of the node: rows as the last steps of the feed left them, rates, histories, who had which device."""

from collections import deque
from collections.abc import Iterable, Sequence
from copy import deepcopy

from attrs import define, evolve, field, frozen

from gpud.model.live_views import ClassRow, Decision, DeviceRow, Feed, JobRow, NodeRow
from gpud.tui.holders import Holders
from gpud.tui.meters import Meter, Ring

ENDED_NS = 5_000_000_000
"""A job that ended is shown this long, so that one sees which one it was."""
DECISIONS = 5000
"""Of the journal, kept here; older ones are asked for."""


@frozen
class Ended:
    """A job that is no more."""

    row: JobRow
    at_ns: int


@define
class JobGauge:
    """Of one job."""

    spent: Meter = field(factory=Meter)
    launches: Meter = field(factory=Meter)
    history: Ring = field(factory=Ring)


@define
class DeviceGauge:
    """Of one device."""

    busy: Meter = field(factory=Meter)
    history: Ring = field(factory=Ring)


@define
class NodeModel:
    """One node. Only `apply` changes it."""

    node: NodeRow | None = None
    devices: dict[str, DeviceRow] = field(factory=dict)
    """By UUID."""
    jobs: dict[int, JobRow] = field(factory=dict)
    ended: dict[int, Ended] = field(factory=dict)
    """The last ones."""
    classes: tuple[ClassRow, ...] = ()
    decisions: deque[Decision] = field(factory=lambda: deque(maxlen=DECISIONS))
    """Oldest first."""
    at_ns: int = 0
    """Unix time of the last step: now, for all that is shown."""
    number: int = 0
    past: bool = False
    waits_for_full: bool = True
    """A step was missed: what comes is left aside until a full one."""
    holders: dict[int, Holders] = field(factory=dict)
    """By slot."""
    kept: set[int] = field(factory=set)
    """Jobs that stay in `ended` although it is long ago: the cursor is on them, or a tag."""
    job_gauges: dict[int, JobGauge] = field(factory=dict)
    device_gauges: dict[str, DeviceGauge] = field(factory=dict)
    class_meters: dict[tuple[int, str, str], Meter] = field(factory=dict)

    def apply(self, feed: Feed) -> bool:
        """One step. False: it was left aside."""
        if not feed.full and (self.waits_for_full or feed.number != self.number + 1):
            self.waits_for_full = True
            return False
        before_ns = self.at_ns
        if feed.at_ns < before_ns:
            self._forget_history()
            before_ns = feed.at_ns
        self.waits_for_full = False
        self.at_ns, self.number, self.past = feed.at_ns, feed.number, feed.past
        if feed.node is not None:
            self._take_node(feed.node)
        used = self._take_jobs(feed)
        self._take_devices(feed)
        self._take_decisions(feed.decisions)
        if feed.classes is not None:
            self._take_classes(feed.classes)
        self._measure()
        self._note_holders(used, before_ns or feed.at_ns)
        return True

    def full(self, most_decisions: int = 200) -> Feed:
        """All that is known, as one full step."""
        return Feed(
            number=self.number,
            at_ns=self.at_ns,
            full=True,
            past=self.past,
            node=self.node,
            devices=tuple(self.devices.values()),
            jobs=tuple(self.jobs.values()),
            classes=self.classes,
            decisions=tuple(self.decisions)[-most_decisions:],
        )

    def snapshot(self) -> "NodeModel":
        """As it is now; it stays so, whatever is applied to this one."""
        return evolve(
            self,
            devices=dict(self.devices),
            jobs=dict(self.jobs),
            ended=dict(self.ended),
            decisions=self.decisions.copy(),
            holders={slot: holders.snapshot() for slot, holders in self.holders.items()},
            kept=set(self.kept),
            job_gauges=deepcopy(self.job_gauges),
            device_gauges=deepcopy(self.device_gauges),
            class_meters=deepcopy(self.class_meters),
        )

    def take_older(self, decisions: Sequence[Decision]) -> None:
        """Entries of the journal from before those that are known, oldest first."""
        first = self.decisions[0].number if self.decisions else None
        older = [one for one in decisions if first is None or one.number < first]
        room = DECISIONS - len(self.decisions)
        self.decisions.extendleft(reversed(older[-room:] if room else []))
        known = self.holders
        self.holders = {}
        for one in older:
            self._hold(one)
        for slot, holders in known.items():
            self.holders.setdefault(slot, Holders()).append(holders)

    def job(self, number: int) -> JobRow | None:
        """One that runs, or that ended lately."""
        row = self.jobs.get(number)
        if row is None and number in self.ended:
            return self.ended[number].row
        return row

    def device(self, slot: int) -> DeviceRow | None:
        return next((row for row in self.devices.values() if row.slot == slot), None)

    def gpu(self, job: JobRow) -> float | None:
        """GPU time it uses, 1.0: all of one device. None: it is not known yet."""
        gauge = self.job_gauges.get(job.id)
        rate = gauge.spent.rate() if gauge else None
        return job.busy if rate is None else min(rate / 1e9, float(len(job.devices) or 1))  # it is charged in lumps

    def launches(self, job: JobRow) -> float | None:
        """A second."""
        gauge = self.job_gauges.get(job.id)
        return gauge.launches.rate() if gauge else None

    def job_history(self, job: int, count: int) -> list[float | None]:
        """GPU time used in each of the last `count` seconds, as in `gpu`."""
        gauge = self.job_gauges.get(job)
        return gauge.history.last(count) if gauge else [None] * count

    def busy(self, device: DeviceRow) -> float | None:
        """0 … 1: GPU time charged there, by gpud's account."""
        gauge = self.device_gauges.get(device.uuid)
        rate = gauge.busy.rate() if gauge else None
        return None if rate is None else rate / 1e9

    def utilisation(self, device: DeviceRow) -> float | None:
        """0 … 1: the driver's figure; where it gives none, what gpud charges."""
        return self.busy(device) if device.utilisation is None else device.utilisation

    def device_history(self, device: DeviceRow, count: int) -> list[float | None]:
        """`utilisation` in each of the last `count` seconds."""
        gauge = self.device_gauges.get(device.uuid)
        return gauge.history.last(count) if gauge else [None] * count

    def share(self, row: ClassRow) -> float | None:
        """0 … 1: the part of the device that this class uses."""
        meter = self.class_meters.get((row.device, row.policy, row.job_class))
        rate = meter.rate() if meter else None
        return None if rate is None else min(rate / 1e9, 1.0)

    def _take_node(self, node: NodeRow) -> None:
        if self.node is not None and node.pid != self.node.pid:
            self.decisions.clear()  # another daemon counts anew
        self.node = node

    def _take_jobs(self, feed: Feed) -> dict[int, tuple[int, int]]:
        """Returns for each slot who used most of it since the last step: its nanoseconds, the job."""
        used: dict[int, tuple[int, int]] = {}
        gone = set(feed.gone)
        if feed.full:
            gone |= self.jobs.keys() - {row.id for row in feed.jobs}
        for number in gone:
            row = self.jobs.pop(number, None)
            if row is not None:
                self.ended[number] = Ended(row, feed.at_ns)
        for row in feed.jobs:
            before = self.jobs.get(row.id)
            self.jobs[row.id] = row
            self.ended.pop(row.id, None)
            spent = row.spent_ns - before.spent_ns if before else 0
            for slot in row.devices if spent > 0 else ():
                used[slot] = max(used.get(slot, (0, 0)), (spent // len(row.devices), row.id))
        for number, ended in list(self.ended.items()):
            if number not in self.kept and not 0 <= feed.at_ns - ended.at_ns < ENDED_NS:
                del self.ended[number]
                self.job_gauges.pop(number, None)
        return used

    def _take_devices(self, feed: Feed) -> None:
        if feed.full:
            self.devices = {}
        for row in feed.devices:
            self.devices[row.uuid] = row
        if feed.devices:
            order = sorted(self.devices.values(), key=lambda row: (row.slot is None, row.slot, row.uuid))
            self.devices = {row.uuid: row for row in order}

    def _take_decisions(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            if self.decisions and decision.number <= self.decisions[-1].number:
                continue
            self.decisions.append(decision)
            self._hold(decision)

    def _hold(self, decision: Decision) -> None:
        if decision.device is None or decision.job is None:
            return
        holders = self.holders.setdefault(decision.device, Holders())
        if decision.kind == "grant":
            holders.turns = True
            holders.take(decision.job, decision.at_ns)
        elif decision.kind == "back" and holders.job == decision.job:
            holders.take(None, decision.at_ns)

    def _take_classes(self, classes: tuple[ClassRow, ...]) -> None:
        self.classes = classes
        known = {(row.device, row.policy, row.job_class) for row in classes}
        for key in self.class_meters.keys() - known:
            del self.class_meters[key]

    def _measure(self) -> None:
        for job in self.jobs.values():
            gauge = self.job_gauges.get(job.id)
            if gauge is None:
                gauge = self.job_gauges[job.id] = JobGauge()
            gauge.spent.put(self.at_ns, job.spent_ns)
            gauge.launches.put(self.at_ns, job.launches)
            gauge.history.put(self.at_ns, self.gpu(job))
        for device in self.devices.values():
            measured = self.device_gauges.setdefault(device.uuid, DeviceGauge())
            measured.busy.put(self.at_ns, device.busy_ns)
            measured.history.put(self.at_ns, self.utilisation(device))
        for row in self.classes:
            key = (row.device, row.policy, row.job_class)
            self.class_meters.setdefault(key, Meter()).put(self.at_ns, row.spent_ns)

    def _note_holders(self, used: dict[int, tuple[int, int]], before_ns: int) -> None:
        for device in self.devices.values():
            if device.slot is None:
                continue
            holders = self.holders.setdefault(device.slot, Holders())
            holders.turns = holders.turns or device.holder is not None or device.waiters > 0
            if holders.turns:
                holders.take(device.holder, self.at_ns)
            else:
                _, job = used.get(device.slot, (0, None))
                holders.take(job, before_ns, turn=False)

    def _forget_history(self) -> None:
        """The clock was set back: moments of before would stand behind those to come."""
        self.job_gauges.clear()
        self.device_gauges.clear()
        self.class_meters.clear()
        self.holders.clear()
        self.ended = {number: evolve(ended, at_ns=0) for number, ended in self.ended.items() if number in self.kept}
