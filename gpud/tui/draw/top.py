"""The first lines of every screen: the node, the tabs, and a banner when something is the matter."""

from collections import Counter

from gpud.tui.draw.view import View
from gpud.tui.text import Line, Span, both_ends, clean, clock, line_of, moment, width_of_spans
from gpud.tui.words import ROLE_OF_STATE

TABS = ("Jobs", "Timeline", "Policy", "Journal")
_SHOWN = ("active", "held", "queued", "paused", "swapped", "idle")


def top_bar(view: View, width: int) -> Line:
    """Host, jobs by state, policies, time."""
    model = view.model
    node = model.node
    left = [Span(" gpud ", "brand"), Span(" ")]
    if node is None:
        return line_of([*left, Span("no daemon has answered yet", "dim")], width)
    states = Counter(job.state for job in model.jobs.values())
    left += [Span(clean(node.host), "strong"), Span(f"  {len(model.jobs)} job{'' if len(model.jobs) == 1 else 's'}")]
    right = [Span(clock(model.at_ns), "strong"), Span(" ")]
    for state in _SHOWN:
        more = [Span("  "), Span(f"{states[state]}", ROLE_OF_STATE[state]), Span(f" {state}", "dim")]
        if states[state] and width_of_spans([*left, *more, *right]) + 2 <= width:
            left += more
    extra: list[Span] = []
    if node.driver != "ok":
        extra = [Span(f"driver: {clean(node.driver)}", "bad"), Span("  ")]
    elif node.policy_set.rejected is not None:
        extra = [Span("policies: the last change was refused", "warn"), Span("  ")]
    elif node.simulated:
        extra = [Span(f"simulated {clean(node.simulated)}", "dim"), Span("  ")]
    wide = both_ends(left, [*extra, *right], width)
    return wide if len(wide.spans) > len(left) else both_ends(left, right, width)


def tab_line(view: View, active: int, width: int) -> Line:
    """The tabs, and what is filtered and sorted."""
    spans = [Span(" ")]
    for at, name in enumerate(TABS):
        spans += [
            Span(f" {at + 1} ", "key" if at != active else "brand"),
            Span(f"{name} ", "strong" if at == active else "dim"),
            Span(" "),
        ]
    return both_ends(spans, _state(view, active), width)


def tab_at(x: int) -> int | None:
    """Which tab stands at that cell."""
    begin = 1
    for at, name in enumerate(TABS):
        end = begin + len(name) + 4
        if begin <= x < end:
            return at
        begin = end
    return None


def _state(view: View, active: int) -> list[Span]:
    spans: list[Span] = []
    if view.recording:
        spans += [Span("● rec", "bad"), Span("  ")]
    if view.readonly:
        spans += [Span("read-only", "note"), Span("  ")]
    if view.focus is not None:
        spans += [Span("gpu ", "dim"), Span(str(view.focus), "key"), Span("  ")]
    if active == 0:
        arrow = "↓" if view.sort.down else "↑"
        spans += [Span("by ", "dim"), Span(f"{view.sort.key} {arrow}", "key"), Span(" ")]
    return spans


def banner(view: View, lost: str, ended: str, bad: bool, width: int) -> Line | None:
    """What one has to know before one reads on: most important first. None: nothing."""
    model = view.model
    if model.past:
        spans = [Span(f" PAST  {moment(model.at_ns)} ", "past")]
        if lost:
            spans.append(Span(" NO DAEMON  trying again ", "lost"))
        elif ended:
            spans.append(Span(f" {clean(ended)} ", "lost" if bad else "remark"))
        keys = "  [ ] step a second, { } a minute, Esc back to now"
        return line_of([*spans, Span(keys.ljust(max(width - width_of_spans(spans), 0)), "past")], width)
    if lost:
        shown = f"; this was at {clock(model.at_ns)}" if model.number else ""
        return line_of([Span(f" NO DAEMON  trying again{shown}   {clean(lost)}".ljust(width), "lost")], width)
    if ended:
        return line_of([Span(f" {clean(ended)}".ljust(width), "lost" if bad else "remark")], width)
    if view.frozen:
        text = f" FROZEN at {clock(model.at_ns)}   f goes on"
        return line_of([Span(text.ljust(width), "remark")], width)
    if view.replay:
        text = f" REPLAY  {clean(view.replay)}  {moment(model.at_ns)}   f stops, [ ] step"
        return line_of([Span(text.ljust(width), "remark")], width)
    return None
