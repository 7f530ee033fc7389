"""`tgs(received, …)`: the limit of a low-priority job as TGS steers it (Wu et al., "Transparent GPU Sharing in
Container Clouds for Deep Learning Workloads", NSDI'23; constants of its public code).

TGS counts blocks: of high in reports of 5 s, of low's limit in slots of 50 ms. Here both are rates, so its 20,000
blocks a slot are 400,000/s, and its 0.00025 × (blocks of a report) added to a slot are 2.5 % of high's rate.

`profiling`: low stands still until high's own rate is known. `slow start`: times `ramp`. `avoidance`: small steps. An
idle high lifts the limit; the state waits.
"""

from itertools import pairwise
from typing import NamedTuple

_UNLIMITED = float("inf")
PROFILING, SLOW_START, AVOIDANCE = "profiling", "slow start", "avoidance"


class Tgs(NamedTuple):
    phase: str
    limit: float
    own: float
    """High's rate without low, as far as it is known."""
    counted: int
    """Reports: while profiling those of this profile, else how many in a row were `stuck` or more away."""
    reports: tuple[float, ...]
    """The last `window` of them, rates."""
    x: float | None
    """`received` at the last step; it holds until the next one."""
    blocks: float
    """Received since the last report, until `since_ns` (times 1e9)."""
    since_ns: int
    next_ns: int
    """Of the next report."""


INITIAL: Tgs | None = None


class Constants(NamedTuple):
    """The parameters after `received`, in the order of the schema."""

    report: float
    window: int
    alike: float
    margin: float
    start: float
    ramp: float
    ramp_add: float
    tolerance: float
    add: float
    add_least: float
    cut: float
    cut_least: float
    far: float
    far_factor: float
    stuck: float
    stuck_reports: int
    stuck_forget: float
    stuck_factor: float
    again: float
    idle: float


def step(state: Tgs | None, now_ns: int, received: float | None, *constants: float) -> tuple[Tgs, float]:
    """While `received` is unknown no report is made and the value stays."""
    report_ns = max(int(constants[0]), 1)
    if state is None:
        state = Tgs(PROFILING, 0.0, 0.0, 0, (), received, 0.0, now_ns, now_ns + report_ns)
    elif now_ns >= state.next_ns:
        state = _reported(state, now_ns, report_ns, Constants(*constants))  # type: ignore[arg-type]
    phase, limit, own, counted, reports, x, blocks, since_ns, next_ns = state
    if received != x:
        if x is None:  # begin the report afresh
            state = Tgs(phase, limit, own, counted, reports, received, 0.0, now_ns, now_ns + report_ns)
        else:
            blocks += x * (now_ns - since_ns)
            state = Tgs(phase, limit, own, counted, reports, received, blocks, now_ns, next_ns)
    return state, _UNLIMITED if _idle(reports, constants[1], constants[-1]) else limit


def _reported(state: Tgs, now_ns: int, report_ns: int, constants: Constants) -> Tgs:
    late = state.next_ns + report_ns <= now_ns
    begun = now_ns if late else state.next_ns
    if state.x is None:
        return state._replace(next_ns=begun + report_ns)
    blocks = state.blocks + state.x * (state.next_ns - state.since_ns)
    reports = (*state.reports, blocks / report_ns)[-int(constants.window) :]
    state = state._replace(reports=reports, blocks=0.0, since_ns=begun, next_ns=begun + report_ns)
    if _idle(reports, constants.window, constants.idle):
        return state._replace(own=0.0, counted=0) if state.phase == PROFILING else state
    return _profile(state, constants) if state.phase == PROFILING else _control(state, constants)


def _idle(reports: tuple[float, ...], window: float, idle: float) -> bool:
    """Most of a whole window is next to nothing."""
    quiet = 0
    for report in reports:
        quiet += report < idle
    return len(reports) >= window and 2 * quiet > len(reports)


def _profile(state: Tgs, constants: Constants) -> Tgs:
    state = state._replace(counted=state.counted + 1)
    own, reports = state.own, state.reports[-state.counted :]
    if state.counted < constants.window:
        return state
    pairs = [(first + second) / 2 for first, second in pairwise(reports)] or [reports[0]]
    rate = max(pairs)
    if own > 0 and abs(rate - own) / own <= constants.alike:
        return state._replace(phase=SLOW_START, limit=constants.start, own=max(rate, own), counted=0)
    if rate > own:
        return state._replace(own=max(own, (1 - constants.margin) * rate))
    return state._replace(own=min(own, (1 + constants.margin) * rate))


def _control(state: Tgs, constants: Constants) -> Tgs:
    own, limit = state.own, state.limit
    away = abs(state.reports[-1] - own) / own
    if away > constants.again:
        return state._replace(phase=PROFILING, limit=0.0, own=0.0, counted=0)
    counted = state.counted + 1 if away >= constants.stuck else 0
    state = state._replace(counted=counted)
    if counted >= constants.stuck_reports:
        return state._replace(
            phase=SLOW_START, limit=limit * constants.stuck_factor, own=own * constants.stuck_forget, counted=0
        )
    if state.phase == SLOW_START:
        if away <= constants.tolerance:
            return state._replace(limit=limit * constants.ramp + constants.ramp_add)
        return state._replace(phase=AVOIDANCE, limit=limit / constants.ramp)
    if away <= constants.tolerance:
        return state._replace(limit=limit + max(constants.add * own, constants.add_least))
    if away >= constants.far:
        return state._replace(phase=SLOW_START, limit=limit * constants.far_factor)
    return state._replace(limit=max(limit - max(constants.cut * limit, constants.cut_least), 0.0))


def due(state: Tgs | None, now_ns: int) -> int | None:
    return None if state is None or state.x is None else max(state.next_ns, now_ns + 1)


def resume(state: Tgs | None, since_ns: int, now_ns: int, _received: float | None, *constants: float) -> Tgs | None:
    """After it was beaten since `since_ns`: it goes on; after longer than a profile takes, it makes one."""
    gap = now_ns - since_ns
    if state is None or gap > constants[0] * constants[1]:
        return None
    return state._replace(since_ns=state.since_ns + gap, next_ns=state.next_ns + gap)
