"""The policies: what runs, what was refused and where, what a reload would do."""

from collections.abc import Sequence

from attrs import define, field

from gpud.control.wire import DiffAnswer
from gpud.model.live_views import NodeRow
from gpud.model.policy_views import ChangeView, DevicePlanView, HistoryView, RejectedView, SetView
from gpud.model.views import AppliedView, PolicyView
from gpud.tui.draw.view import View
from gpud.tui.text import Line, Span, clean, line_of, moment, rule, span_of_time, wrap

_LABEL = 13
_SIGNS = {"+": "good", "-": "bad", "~": "warn", "!": "note"}
_EFFECTS = {"loaded": "good", "unchanged": "dim", "rejected": "bad"}


@define
class Asked:
    """What the policy screen was told when it asked."""

    diff: DiffAnswer | None = None
    history: Sequence[HistoryView] = field(factory=list)
    result: str = ""
    """Of the last reload or rollback: `loaded`, …"""
    text: str = ""


def policy_lines(view: View, asked: Asked, width: int) -> list[Line]:
    """All of them, from the top; the screen scrolls."""
    node = view.model.node
    if node is None:
        return [line_of([Span("  no daemon has answered yet", "dim")], width)]
    lines = [rule("set that runs", width), *_set(node.policy_set, node, view.model.at_ns, width)]
    if asked.text:
        lines += [Line(), *_wrapped(f"{asked.result}: {asked.text}", width, _EFFECTS.get(asked.result, ""))]
    if node.policy_set.rejected is not None:
        lines += [Line(), *_rejected(node.policy_set.rejected, view.model.at_ns, width)]
    if asked.diff is not None:
        lines += [Line(), *_diff(asked.diff, view.model.at_ns, width)]
    lines += [Line(), rule("in force", width), *_applied(node.policies, width)]
    if asked.history:
        lines += [Line(), rule("sets that ran", width), *(_ran(one, width) for one in asked.history)]
    return lines


def _pair(label: str, spans: list[Span], width: int) -> Line:
    return line_of([Span(f"  {label:<{_LABEL}}", "dim"), *spans], width)


def _wrapped(text: str, width: int, role: str = "") -> list[Line]:
    return [line_of([Span("  "), Span(part, role)], width) for part in wrap(clean(text), width - 2, 4)]


def _set(one: SetView, node: NodeRow, now_ns: int, width: int) -> list[Line]:
    number = f"#{one.number}" if one.number else "the built-in `open`"
    lines = [
        _pair("number", [Span(number, "strong"), Span(f"  {one.digest[:12]}", "dim")], width),
        _pair("directory", [Span(clean(one.directory))], width),
        _pair(
            "last reload",
            [
                Span(f"{span_of_time(now_ns - one.since_ns)} ago"),
                Span(f"  {moment(one.since_ns)}  by {one.how}", "dim"),
            ],
            width,
        ),
        _pair("generation", [Span(str(node.generation))], width),
    ]
    if one.applied is not None:
        lines.append(_pair("applied", [Span(clean(one.applied)), Span("  by gpud serve --policy", "dim")], width))
    if one.probation_ns:
        lines.append(_pair("probation", [Span(f"{span_of_time(one.probation_ns)} left", "warn")], width))
    if one.differs:
        lines.append(_pair("differs", [Span(clean(one.differs), "warn")], width))
    return lines


def _rejected(one: RejectedView, now_ns: int, width: int) -> list[Line]:
    """With the findings as `gpud policy check` prints them: their carets stand below what is wrong."""
    head = f"{clean(one.summary)}  {span_of_time(now_ns - one.at_ns)} ago"
    lines = [rule("last change was refused", width), line_of([Span("  "), Span(head, "bad")], width)]
    for text in one.text.splitlines():
        told = clean(text.expandtabs(4))
        before, caret, after = told.partition("^")
        marked = caret and not before.strip(" |")
        spans = [Span(before, "dim"), Span(caret + after, "bad")] if marked else [Span(told)]
        lines.append(line_of([Span("  "), *spans], width))
    return lines


def _diff(answer: DiffAnswer, now_ns: int, width: int) -> list[Line]:
    lines = [rule("what a reload would do now (nothing is changed)", width)]
    if answer.rejected is not None:
        return [*lines, *_rejected(answer.rejected, now_ns, width)[1:]]
    if answer.running == answer.directory:
        return [*lines, line_of([Span("  nothing: the directory holds what runs", "dim")], width)]
    for plan in answer.plan:
        lines += _plan(plan, width)
    if not answer.plan:
        lines.append(line_of([Span("  the files differ, what they do does not", "dim")], width))
    return lines


def _plan(plan: DevicePlanView, width: int) -> list[Line]:
    whom = ", ".join(str(slot) for slot in plan.devices)
    whom = "all others" if not whom else f"gpu {whom}" + (" and all others" if plan.others else "")
    before, after = clean(plan.before) or "none", clean(plan.after) or "none"
    text = before if before == after else f"{before} → {after}"
    lines = [line_of([Span(f"  {whom}: ", "strong"), Span(text)], width)]
    return [*lines, *(_change(change, width) for change in plan.changes)]


def _change(change: ChangeView, width: int) -> Line:
    role = _SIGNS.get(change.sign, "")
    place = f"{clean(change.policy)}:{change.line}" if change.line else clean(change.policy)
    return line_of(
        [Span(f"    {change.sign} ", role), Span(f"{place}  ", "dim"), Span(clean(change.text), role)], width
    )


def _applied(policies: Sequence[PolicyView], width: int) -> list[Line]:
    lines: list[Line] = []
    for row in policies:
        whom = "all others" if row.device is None else f"gpu {row.device}"
        if not row.policies:
            lines.append(_pair(whom, [Span("no policy: whoever launches runs", "dim")], width))
        for at, policy in enumerate(row.policies):
            lines += _policy("" if at else whom, policy, width)
    return lines


def _policy(whom: str, policy: AppliedView, width: int) -> list[Line]:
    arguments = ", ".join(f"{key} = {value}" for key, value in policy.arguments)
    spans = [Span(clean(policy.name), "strong"), Span(f"({clean(arguments)})" if arguments else "", "")]
    spans.append(Span(f"  {policy.mode}" if policy.mode else "  tightens only", "dim"))
    if policy.failed:
        spans.append(Span("  out of action: it took too long, or failed", "bad"))
    if policy.unknown:
        spans.append(Span(f"  reads what nobody knows: {clean(', '.join(policy.unknown))}", "warn"))
    lines = [_pair(whom, spans, width)]
    if policy.ranks:
        order = " > ".join(" = ".join(rank) for rank in policy.ranks)
        lines.append(_pair("", [Span(clean(order), "dim")], width))
    elif policy.classes:
        lines.append(_pair("", [Span(clean(", ".join(policy.classes)), "dim")], width))
    return lines


def _ran(one: HistoryView, width: int) -> Line:
    mark, role = ("runs", "good") if one.running else ("failed", "bad") if one.failed else ("", "dim")
    spans = [
        Span(f"  #{one.number:<5}", "strong"),
        Span(f"{mark:<7}", role),
        Span(f"{moment(one.began_ns)}  {one.how:<9}  "),
        Span(f"{one.digest[:12]}  {len(one.files)} files", "dim"),
    ]
    if one.failed:
        spans.append(Span(f"  {clean(one.failed)}", "bad"))
    return line_of(spans, width)
