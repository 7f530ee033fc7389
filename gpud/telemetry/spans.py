"""Records → spans. One trace for each job: a short `job` span, `job.segment`s under it, turns and what else happens
under these. What goes on is told in parts, since only what is over can be sent. Pure.
"""

from collections.abc import Callable, Mapping

from attrs import define, field

from gpud.model import traceparent
from gpud.model.ids import JobId, Slot
from gpud.model.units import SECOND
from gpud.telemetry import attributes as words
from gpud.telemetry.fill import RESERVE, Trace, Traces
from gpud.telemetry.records import (
    Came,
    Evicted,
    Gone,
    Job,
    NoMemory,
    Record,
    Refused,
    SwapMoment,
    TurnMoment,
)
from gpud.telemetry.span import Link, Put, SpanRecord, Value

SEGMENT_NS = 600 * SECOND
SEGMENT_TURNS = 200
LONG_WAIT_NS = 1 * SECOND
"""A turn that was waited for so long is told in any case."""
LONGEST_TEXT = 400


@define(kw_only=True, eq=False)
class _Segment:
    span_id: str
    began_ns: int
    previous: Link | None
    turns: int = 0
    recorded: int = 0
    sums: dict[str, int] = field(factory=lambda: {"wait": 0, "swap_in": 0, "hold": 0, "swap_out": 0})
    taken_in: int = 0
    let_go: int = 0


@define(kw_only=True, eq=False)
class _Traced:
    """A job and its trace."""

    job: Job
    sampled: bool
    root: traceparent.Context
    """As its program is told."""
    trace: Trace
    """Where it goes on."""
    parent_id: str
    """Of segments; "": in a later trace."""
    segment: _Segment
    turns: int = 0
    job_class: str = ""
    """As seen last."""


class Spans:
    """Makes them, and hands them to `put`. `offset`: Unix time less the monotonic clock; `bits`: so many random bits;
    `device`: attributes of a slot; `class_of`: of a job, now."""

    def __init__(
        self,
        put: Put,
        *,
        seed: str,
        sample: int,
        offset: Callable[[], int],
        bits: Callable[[int], int],
        device: Callable[[Slot], Mapping[str, Value]],
        class_of: Callable[[JobId], str],
    ) -> None:
        self._put, self._seed, self._sample = put, seed, sample
        self._offset, self._bits = offset, bits
        self._device, self._class_of = device, class_of
        self._jobs: dict[JobId, _Traced] = {}
        self._traces = Traces()
        self._last: dict[Slot, tuple[JobId, int, str, str]] = {}
        """The last turn that is over: job, epoch, and the span that tells of it."""
        self._waits: dict[tuple[JobId, Slot], tuple[str, str]] = {}
        """Who waits on after a part was told: the span that tells of that."""
        self.due_ns: int | None = None
        """A segment ends then."""

    def trace_of(self, job: JobId) -> str:
        """Id of the trace in which a job goes on; "": it has none."""
        found = self._jobs.get(job)
        return found.trace.id if found is not None and found.sampled else ""

    def take(self, record: Record) -> None:
        if type(record) is TurnMoment:
            self._turn(record)
            return
        match record:
            case Came():
                self._came(record)
            case Gone():
                self._gone(record)
            case Refused():
                self._refused(record)
            case SwapMoment():
                self._swap(record)
            case Evicted():
                text = f"evicted by {record.by}"
                self._event("evict", record.job, None, record.began_ns, record.ended_ns, {"gpud.by": record.by}, text)
            case NoMemory():
                attributes: dict[str, Value] = {"gpud.memory.bytes": record.bytes}
                text = f"an allocation fails: {record.why}"
                self._event("oom", record.job, record.slot, record.began_ns, record.ended_ns, attributes, text)

    def adopt(self, job: Job, now: int) -> None:
        """A job of the daemon before goes on, in a trace of its own: how full the first one is nobody knows."""
        traced = self._begin(job, now)
        if traced.sampled:
            previous = Link(trace_id=traced.root.trace_id, span_id=traced.root.span_id, kind="job")
            traced.trace.open -= 1
            self._new_trace(traced, previous, now)

    def due(self, now: int) -> tuple[JobId, int, int] | None:
        """The job whose segment is over by then, with its begin and end; of several the earliest."""
        if self.due_ns is None or now < self.due_ns:
            return None
        began, job = min((traced.segment.began_ns, job) for job, traced in self._jobs.items())
        return job, began, began + SEGMENT_NS

    def cut(self, job: JobId, at: int) -> None:
        """A segment ends, another one begins."""
        traced = self._jobs[job]
        self._end_segment(traced, at)
        self._next_segment(traced, at)
        self._plan()

    def close(self, at: int) -> None:
        """All segments end."""
        for traced in self._jobs.values():
            self._end_segment(traced, at)
        self._jobs.clear()
        self.due_ns = None

    # ------------------------------------------------------------------------------------------------------- records

    def _begin(self, job: Job, now: int) -> _Traced:
        caller = traceparent.parse(job.caller)
        root = traceparent.of_job(self._seed, job.id, job.asked_ns, caller)
        trace = self._traces.of(root.trace_id) if root.sampled else Trace(root.trace_id)
        if trace.is_full(1 + RESERVE):
            trace = Trace(self._trace_id())
        trace.open += 1
        traced = self._jobs[JobId(job.id)] = _Traced(
            job=job,
            sampled=root.sampled,
            root=root,
            trace=trace,
            parent_id=root.span_id,
            segment=_Segment(span_id=self._id(), began_ns=now, previous=None),
        )
        self._plan()
        return traced

    def _came(self, record: Came) -> None:
        traced = self._begin(record.job, record.at_ns)
        if traced.sampled:
            self._root(record.job, traced.root, traced.trace, record.at_ns, "")

    def _refused(self, record: Refused) -> None:
        root = traceparent.of_job(self._seed, record.job.id, record.job.asked_ns, traceparent.parse(record.job.caller))
        if root.sampled:
            trace = self._traces.of(root.trace_id)
            trace = Trace(self._trace_id()) if trace.is_full(1) else trace
            self._root(record.job, root, trace, record.at_ns, f"not let in: {record.text}")

    def _root(self, job: Job, root: traceparent.Context, trace: Trace, at: int, error: str) -> None:
        """Below its caller; where the caller's trace is full, in one of its own."""
        offset, caller = self._offset(), traceparent.parse(job.caller)
        links: tuple[Link, ...] = ()
        if caller is not None and trace.id != caller.trace_id:
            links, caller = (Link(trace_id=caller.trace_id, span_id=caller.span_id, kind="caller"),), None
        trace.count += 1
        self._put(
            SpanRecord(
                name="job",
                trace_id=trace.id,
                span_id=root.span_id,
                parent_id=caller.span_id if caller is not None else "",
                start_ns=job.asked_ns + offset,
                end_ns=max(at, job.asked_ns) + offset,
                attributes=words.of_job(job),
                links=links,
                error=error[:LONGEST_TEXT],
                remote=caller is not None,
            )
        )

    def _gone(self, record: Gone) -> None:
        traced = self._jobs.pop(record.job, None)
        if traced is not None:
            self._end_segment(traced, record.at_ns)
            traced.trace.open -= 1
            self._plan()

    def _turn(self, moment: TurnMoment) -> None:
        traced = self._jobs.get(moment.job)
        if traced is None:
            return
        segment = traced.segment
        for phase in moment.phases:
            segment.sums[phase.name] += phase.ended_ns - phase.began_ns
        segment.taken_in += moment.taken_in
        segment.let_go += moment.let_go
        if not moment.part:
            segment.turns += 1
            traced.turns += 1
        why = _why(moment) or ("sample" if (traced.turns - 1) % self._sample == 0 else "")
        if not traced.sampled:
            return
        span_id = segment.span_id
        if why:
            segment.recorded += 1
            span_id = self._tell_turn(traced, moment, why)
            if not moment.epoch and moment.end == "goes on":
                self._waits[moment.job, moment.slot] = traced.trace.id, span_id
        if moment.epoch:
            self._last[moment.slot] = moment.job, moment.epoch, traced.trace.id, span_id
        full = segment.turns >= SEGMENT_TURNS and moment.end != "goes on"
        if full or traced.trace.is_full():
            self.cut(moment.job, moment.ended_ns)

    def _tell_turn(self, traced: _Traced, moment: TurnMoment, why: str) -> str:
        offset, span_id = self._offset(), self._id()
        device = self._device(moment.slot)
        about = words.short(traced.job)
        trace_id, put = traced.trace.id, self._put
        attributes = {**words.of_turn(moment, why), **about, **device, "gpud.class": self._class(traced)}
        put(
            SpanRecord(
                name="turn",
                trace_id=trace_id,
                span_id=span_id,
                parent_id=traced.segment.span_id,
                start_ns=moment.began_ns + offset,
                end_ns=moment.ended_ns + offset,
                attributes=attributes,
                links=self._links(moment),
                error=_error(moment),
            )
        )
        brief = about | {"hw.id": device.get("hw.id", "")}
        for phase in moment.phases:
            more = words.of_phase(phase, moment)
            put(
                SpanRecord(
                    name=phase.name,
                    trace_id=trace_id,
                    span_id=self._id(),
                    parent_id=span_id,
                    start_ns=phase.began_ns + offset,
                    end_ns=phase.ended_ns + offset,
                    attributes=brief | more if more else brief,
                    error=moment.failed if phase.name == "swap_out" else "",
                )
            )
        traced.trace.count += 1 + len(moment.phases)
        if moment.asked_back_ns is not None and moment.back_ns is not None:
            self._preempt(traced, moment, span_id, offset)
        return span_id

    def _preempt(self, traced: _Traced, moment: TurnMoment, span_id: str, offset: int) -> None:
        """From the word that the device is wanted back until it was."""
        assert moment.asked_back_ns is not None
        assert moment.back_ns is not None
        links = [Link(trace_id=traced.trace.id, span_id=span_id, kind="victim")]
        attributes: dict[str, Value] = {"gpud.preempt.victim": int(moment.job), "gpud.turn.overran": moment.overran}
        following = self._jobs.get(moment.next_job) if moment.next_job is not None else None
        if following is not None:
            links += [self._of_segment(following, "beneficiary")] if following.sampled else []
            attributes["gpud.preempt.beneficiary"] = following.job.id
        traced.trace.count += 1
        self._put(
            SpanRecord(
                name="preempt",
                trace_id=traced.trace.id,
                span_id=self._id(),
                parent_id=span_id,
                start_ns=moment.asked_back_ns + offset,
                end_ns=moment.back_ns + offset,
                attributes={**attributes, **self._device(moment.slot)},
                links=tuple(links),
                error="not given back within its grace" if moment.overran else "",
            )
        )

    def _swap(self, moment: SwapMoment) -> None:
        attributes = words.of_swap("out", moment.bytes, moment.ended_ns - moment.began_ns)
        following = self._jobs.get(moment.next_job) if moment.next_job is not None else None
        links = (self._of_segment(following, "beneficiary"),) if following is not None and following.sampled else ()
        began, ended = moment.began_ns, moment.ended_ns
        self._event("swap_out", moment.job, moment.slot, began, ended, attributes, moment.failed, links)

    def _event(
        self,
        name: str,
        job: JobId,
        slot: Slot | None,
        began_ns: int,
        ended_ns: int,
        attributes: Mapping[str, Value],
        error: str,
        links: tuple[Link, ...] = (),
    ) -> None:
        """Something under a segment."""
        traced = self._jobs.get(job)
        if traced is None or not traced.sampled:
            return
        offset = self._offset()
        about = {**words.short(traced.job), **(self._device(slot) if slot is not None else {}), **attributes}
        traced.trace.count += 1
        self._put(
            SpanRecord(
                name=name,
                trace_id=traced.trace.id,
                span_id=self._id(),
                parent_id=traced.segment.span_id,
                start_ns=began_ns + offset,
                end_ns=ended_ns + offset,
                attributes=about,
                links=links,
                error=error[:LONGEST_TEXT],
            )
        )
        if traced.trace.is_full():
            self.cut(job, ended_ns)

    # ------------------------------------------------------------------------------------------------------ segments

    def _end_segment(self, traced: _Traced, at: int) -> None:
        if not traced.sampled:
            return
        segment, offset = traced.segment, self._offset()
        attributes = words.of_job(traced.job) | {
            "gpud.class": self._class(traced),
            "gpud.segment.turns": segment.turns,
            "gpud.segment.turns_recorded": segment.recorded,
            "gpud.segment.swapped_in_bytes": segment.taken_in,
            "gpud.segment.swapped_out_bytes": segment.let_go,
        }
        for name, spent in segment.sums.items():
            attributes[f"gpud.segment.{name}_s"] = spent / SECOND
        traced.trace.count += 1
        self._put(
            SpanRecord(
                name="job.segment",
                trace_id=traced.trace.id,
                span_id=segment.span_id,
                parent_id=traced.parent_id,
                start_ns=segment.began_ns + offset,
                end_ns=max(at, segment.began_ns) + offset,
                attributes=attributes,
                links=(segment.previous,) if segment.previous is not None else (),
            )
        )

    def _next_segment(self, traced: _Traced, at: int) -> None:
        previous = self._of_segment(traced, "previous")
        if traced.trace.is_full():
            traced.trace.open -= 1
            self._new_trace(traced, previous, at)
        else:
            traced.segment = _Segment(span_id=self._id(), began_ns=at, previous=previous)

    def _new_trace(self, traced: _Traced, previous: Link, at: int) -> None:
        traced.trace, traced.parent_id = Trace(self._trace_id(), open=1), ""
        traced.segment = _Segment(span_id=self._id(), began_ns=at, previous=previous)

    def _plan(self) -> None:
        self.due_ns = min((one.segment.began_ns + SEGMENT_NS for one in self._jobs.values()), default=None)

    # --------------------------------------------------------------------------------------------------------- links

    def _links(self, moment: TurnMoment) -> tuple[Link, ...]:
        """The part before; the turn that was waited for, where that was told, else the segment that it is in."""
        last = self._last.get(moment.slot)
        found: tuple[Link, ...] = ()
        if moment.part:
            its = last[2:] if last is not None and last[:2] == (moment.job, moment.epoch) else None
            if (its := its or self._waits.pop((moment.job, moment.slot), None)) is not None:
                found = (Link(trace_id=its[0], span_id=its[1], kind="previous"),)
        if moment.after is None:
            return found
        if last is not None and last[:2] == moment.after:
            return (*found, Link(trace_id=last[2], span_id=last[3], kind="waited_for"))
        traced = self._jobs.get(moment.after.job)
        return (*found, self._of_segment(traced, "waited_for")) if traced is not None and traced.sampled else found

    def _of_segment(self, traced: _Traced, kind: str) -> Link:
        return Link(trace_id=traced.trace.id, span_id=traced.segment.span_id, kind=kind)

    def _class(self, traced: _Traced) -> str:
        """Also of one that has just ended."""
        traced.job_class = self._class_of(JobId(traced.job.id)) or traced.job_class
        return traced.job_class

    def _trace_id(self) -> str:
        return f"{self._bits(128) or 1:032x}"

    def _id(self) -> str:
        return f"{self._bits(64) or 1:016x}"


def _why(moment: TurnMoment) -> str:
    """Why a turn is told in any case; "": it need not be."""
    if moment.part or moment.end == "goes on":
        return "part"
    if moment.end in ("timed out", "gone"):
        return moment.end
    if moment.failed:
        return "failed"
    if moment.overran:
        return "overran"
    if moment.taken_in or moment.let_go:
        return "swapped"
    if moment.phases and moment.phases[0].name == "wait":
        waited = moment.phases[0].ended_ns - moment.phases[0].began_ns
        return "waited" if waited >= LONG_WAIT_NS else ""
    return ""


def _error(moment: TurnMoment) -> str:
    if moment.end == "timed out":
        return "it was not granted in time"
    if moment.overran:
        return "not given back within its grace"
    return moment.failed
