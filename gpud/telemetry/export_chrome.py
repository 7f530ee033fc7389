"""The journal as a trace that Perfetto opens, in the trace event format: a process for each device, with a lane for
whose turn it is, one for each job's turns and swaps, pauses, decisions as instants, GPU time as a counter. Pure.

Whose turn it is comes of decisions, which are complete; jobs' lanes come of spans, which are a sample. Times are µs
since the trace's begin, which `otherData.began_at_ns` has as Unix time.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from attrs import define, frozen

from gpud.model.live_views import Decision
from gpud.model.units import MICROSECOND, SECOND
from gpud.telemetry.journal_lines import Begin, Busy, Decided, Entry, Lost, times_of
from gpud.telemetry.span import SpanRecord, Value

NODE = 1
"""Process of what is about no device; that of a device is DEVICES and its slot."""
DEVICES = 100
PER_PROCESS = 1_000_000
"""Lanes have numbers of their own: for some readers these name a lane whatever process it is in."""
BEFORE_NS = 3600 * SECOND
"""What began earlier before the first entry is cut there."""
_PHASES = frozenset({"wait", "swap_in", "hold", "swap_out"})
_RECENT = 64
"""Turns whose phases may still come."""
MOST_LANES = 8
"""Of one job on one device: when the clock was set back, everything is at the same time as something else."""
_ORDER = ("turns", "asked back", "memory comes in", "decisions")
"""Lanes of a device, from the top; those of jobs follow."""

Event = dict[str, Any]
_encode = msgspec.json.Encoder().encode


@frozen(kw_only=True)
class _Since:
    """Something that goes on."""

    at_ns: int
    name: str
    by: str


@define
class _Lane:
    """Entries of one lane must not overlap, whatever the clock did meanwhile."""

    tid: int
    end_ns: int
    """Of what is last in it."""

    def take(self, began: int, ended: int) -> tuple[int, int]:
        """Begin and end of what comes next."""
        began = max(began, self.end_ns)
        self.end_ns = max(ended, began)
        return began, self.end_ns


@define
class _Tree:
    """A turn, whose phases come in the same lane."""

    pid: int
    tid: int
    free_ns: int
    end_ns: int

    def take(self, began: int, ended: int) -> tuple[int, int]:
        """Of its next phase."""
        began = min(max(began, self.free_ns), self.end_ns)
        self.free_ns = min(max(ended, began), self.end_ns)
        return began, self.free_ns


def chrome_trace(entries: Iterable[Entry], *, since_ns: int | None, until_ns: int | None) -> Iterator[bytes]:
    """Pieces of one JSON document, with what was between two times (Unix time; None: all). Needs memory for what goes
    on at one moment."""
    made = _Trace(since_ns, until_ns)
    first = True
    for event in made.events(entries):
        yield (_head(made.base_ns) if first else b",\n") + _encode(event)
        first = False
    yield (_head(made.base_ns) if first else b"") + b"\n]}\n"


def _head(base_ns: int) -> bytes:
    other = _encode({"began_at_ns": str(base_ns), "clock": "Unix time", "program": "gpud"})
    return b'{"displayTimeUnit":"ms","otherData":' + other + b',"traceEvents":[\n'


class _Trace:
    """Of one export."""

    def __init__(self, since_ns: int | None, until_ns: int | None) -> None:
        self._since_ns, self._until_ns = since_ns, until_ns
        self.base_ns = since_ns or 0
        self._last_ns = self.base_ns
        self._daemon = ""
        self._out: list[Event] = []
        self._turns: dict[int, _Since] = {}
        self._turn_jobs: dict[int, int] = {}
        self._asked: dict[int, _Since] = {}
        self._paused: dict[tuple[int, int], _Since] = {}
        self._busy: dict[int, Busy] = {}
        self._lanes: dict[tuple[int, str], list[_Lane]] = {}
        self._tids: dict[int, int] = {}
        self._of_turn: OrderedDict[str, _Tree] = OrderedDict()

    def events(self, entries: Iterable[Entry]) -> Iterator[Event]:
        first = True
        for entry in entries:
            if first and self._since_ns is None:
                self.base_ns = self._last_ns = max(times_of(entry)[0] - BEFORE_NS, 0)
            first = False
            self._take(entry)
            yield from self._flush()
        self._end("goes on")
        yield from self._flush()

    def _flush(self) -> list[Event]:
        out, self._out = self._out, []
        return out

    def _take(self, entry: Entry) -> None:
        if not isinstance(entry, SpanRecord):
            self._last_ns = max(self._last_ns, times_of(entry)[1])
        match entry:
            case Decided():
                self._decided(entry.decision, entry.name)
            case SpanRecord():
                self._span(entry)
            case Busy():
                self._counted(entry)
            case Begin():
                if entry.daemon != self._daemon:
                    self._end("the daemon ended")
                    self._daemon = entry.daemon
                    text = f"gpud {entry.version} begins, pid {entry.pid}"
                    self._instant(NODE, "begin", entry.at_ns, {"text": text, "host": entry.host})
            case Lost():
                self._instant(NODE, "lost", entry.at_ns, {"text": f"{entry.lines} entries of the journal are missing"})

    def _end(self, how: str) -> None:
        """Nothing goes on beyond what was heard last."""
        at = self._last_ns
        for device, since in list(self._turns.items()):
            self._turn_over(device, since, at, how)
        for (device, _), since in self._paused.items():
            self._slice(DEVICES + device, f"{since.name}: paused", "paused", "pause", since.at_ns, at, {"end": how})
        for device, busy in self._busy.items():
            self._counter(device, busy.at_ns, 0.0, busy)
        self._turns, self._turn_jobs, self._asked, self._paused, self._busy = {}, {}, {}, {}, {}

    # ----------------------------------------------------------------------------------------------------- decisions

    def _decided(self, made: Decision, name: str) -> None:
        args: dict[str, Value] = {"text": made.text, "number": made.number}
        args |= {"by": made.by} if made.by else {}
        args |= {"job": made.job} if made.job is not None else {}
        if made.device is None:
            self._instant(NODE, made.kind, made.at_ns, args)
            return
        self._instant(DEVICES + made.device, made.kind, made.at_ns, args)
        if made.job is None:
            return
        since = _Since(at_ns=made.at_ns, name=_job(made.job, name), by=made.by)
        device = made.device
        match made.kind:
            case "grant":
                self._turns[device], self._turn_jobs[device] = since, made.job
            case "swap_in" if self._turn_jobs.get(device) == made.job:
                began = self._turns[device].at_ns
                self._slice(DEVICES + device, "memory comes in", since.name, "swap", began, made.at_ns, {})
            case "revoke":
                self._asked[device] = since
            case "back":
                before = self._turns.get(device) or _Since(at_ns=self.base_ns, name=since.name, by="")
                self._turn_over(device, before, made.at_ns, "given back")
            case "hold":
                self._paused.setdefault((device, made.job), since)
            case "go":
                paused = self._paused.pop((device, made.job), None)
                began = paused.at_ns if paused is not None else self.base_ns
                more: dict[str, Value] = {}
                if paused is not None and paused.by:
                    more["by"] = paused.by
                self._slice(DEVICES + device, f"{since.name}: paused", "paused", "pause", began, made.at_ns, more)

    def _turn_over(self, device: int, since: _Since, at: int, how: str) -> None:
        args: dict[str, Value] = {"end": how}
        if since.by:
            args["by"] = since.by
        self._slice(DEVICES + device, "turns", since.name, "turn", since.at_ns, at, args)
        asked = self._asked.pop(device, None)
        if asked is not None:
            self._slice(DEVICES + device, "asked back", since.name, "preempt", asked.at_ns, at, {})
        self._turns.pop(device, None)
        self._turn_jobs.pop(device, None)

    def _counted(self, busy: Busy) -> None:
        before = self._busy.get(busy.device)
        self._busy[busy.device] = busy
        if before is not None and busy.at_ns > before.at_ns and busy.busy_ns >= before.busy_ns:
            part = (busy.busy_ns - before.busy_ns) / (busy.at_ns - before.at_ns)
            self._counter(busy.device, before.at_ns, min(part, 1.0), before)

    # --------------------------------------------------------------------------------------------------------- spans

    def _span(self, span: SpanRecord) -> None:
        if span.name == "preempt" or not self._within(span.start_ns, span.end_ns):
            return  # what was asked back is in the decisions
        job, device = span.attributes.get("gpud.job.id"), span.attributes.get("gpud.device")
        args: dict[str, Value] = dict(span.attributes) | {"trace_id": span.trace_id, "span_id": span.span_id}
        if span.error:
            args["error"] = span.error
        parent = self._of_turn.get(span.parent_id) if span.name in _PHASES else None
        if parent is not None:
            began, ended = parent.take(span.start_ns, span.end_ns)
            self._complete(parent.pid, parent.tid, span.name, "span", began, ended, args)
            return
        pid = DEVICES + device if isinstance(device, int) else NODE
        name = str(span.attributes.get("gpud.job.name", ""))
        lane = self._free(pid, _job(job, name) if isinstance(job, int) else span.name.partition(".")[0], span)
        began, ended = lane.take(span.start_ns, span.end_ns)
        if span.name == "turn":
            self._of_turn[span.span_id] = _Tree(pid, lane.tid, began, ended)
            if len(self._of_turn) > _RECENT:
                self._of_turn.popitem(last=False)
        self._complete(pid, lane.tid, span.name, "span", began, ended, args)

    def _free(self, pid: int, name: str, span: SpanRecord) -> _Lane:
        """A lane where nothing is at that time, if there may be another one."""
        lanes = self._lanes.setdefault((pid, name), [])
        lane = next((one for one in lanes if one.end_ns <= span.start_ns), None)
        if lane is None and len(lanes) >= MOST_LANES:
            lane = min(lanes, key=lambda one: one.end_ns)
        if lane is None:
            lane = self._new_lane(pid, f"{name} ({len(lanes) + 1})" if lanes else name)
            lanes.append(lane)
        return lane

    # -------------------------------------------------------------------------------------------------------- events

    def _within(self, began: int, ended: int) -> bool:
        return ended >= self.base_ns and (self._until_ns is None or began <= self._until_ns)

    def _us(self, at: int) -> float:
        if self._until_ns is not None:
            at = min(at, self._until_ns)
        return max(at - self.base_ns, 0) / MICROSECOND

    def _slice(self, pid: int, lane: str, name: str, kind: str, began: int, ended: int, args: dict[str, Value]) -> None:
        if self._within(began, ended):
            found = self._lane(pid, lane)
            self._complete(pid, found.tid, name, kind, *found.take(began, ended), args)

    def _complete(
        self, pid: int, tid: int, name: str, kind: str, began: int, ended: int, args: dict[str, Value]
    ) -> None:
        at = self._us(began)
        event = {"ph": "X", "pid": pid, "tid": tid, "name": name, "cat": kind, "ts": at}
        self._out.append(event | {"dur": round(self._us(max(ended, began)) - at, 3), "args": args})

    def _instant(self, pid: int, name: str, at: int, args: dict[str, Value]) -> None:
        if self._within(at, at):
            tid = self._lane(pid, "decisions").tid
            event = {"ph": "i", "s": "t", "pid": pid, "tid": tid, "name": name, "cat": "decision", "ts": self._us(at)}
            self._out.append(event | {"args": args})

    def _counter(self, device: int, at: int, part: float, busy: Busy) -> None:
        """`part`: of the time from then on in which it was busy."""
        if not self._within(at, at):
            return
        pid = DEVICES + device
        self._lane(pid, "decisions")
        shown = [("busy", "%", part * 100), ("memory", "GiB", busy.memory_bytes / (1 << 30))]
        if busy.utilisation is not None:
            shown.append(("utilisation", "%", busy.utilisation * 100))
        for name, unit, value in shown:
            args = {unit: round(value, 6)}
            self._out.append({"ph": "C", "pid": pid, "tid": 0, "name": name, "ts": self._us(at), "args": args})

    def _lane(self, pid: int, name: str) -> _Lane:
        lanes = self._lanes.setdefault((pid, name), [])
        if not lanes:
            lanes.append(self._new_lane(pid, name))
        return lanes[0]

    def _new_lane(self, pid: int, name: str) -> _Lane:
        if pid not in self._tids:
            self._tids[pid] = len(_ORDER)
            title = "gpud" if pid == NODE else f"GPU {pid - DEVICES}"
            self._named(pid, 0, "process_name", {"name": title})
            self._named(pid, 0, "process_sort_index", {"sort_index": pid})
        if name in _ORDER:
            tid = pid * PER_PROCESS + _ORDER.index(name) + 1
        else:
            self._tids[pid] += 1
            tid = pid * PER_PROCESS + self._tids[pid]
        self._named(pid, tid, "thread_name", {"name": name})
        self._named(pid, tid, "thread_sort_index", {"sort_index": tid})
        return _Lane(tid, 0)

    def _named(self, pid: int, tid: int, what: str, args: dict[str, Value]) -> None:
        self._out.append({"ph": "M", "pid": pid, "tid": tid, "name": what, "args": args})


def _job(number: int, name: str) -> str:
    return f"job {number} ({name})" if name else f"job {number}"
