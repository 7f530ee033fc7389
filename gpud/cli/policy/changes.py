"""How the verbs that change the set of policies print: plans, findings, times of day, short names of sets."""

import time
from collections.abc import Iterable

from gpud.cli.failure import printable
from gpud.model.policy_views import DevicePlanView, RejectedView, ReloadView, SetView
from gpud.model.views import AppliedView, PolicyView

SHORT = 4


def short(digest: str) -> str:
    """`3f2a`: enough of a set's digest to tell it from the others at hand."""
    return digest[:SHORT] or "none"


def at(wall_ns: int) -> str:
    """`12:03:11`, with the day in front when it is not today's."""
    when = time.localtime(wall_ns / 1e9)
    today = time.localtime()[:3] == when[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", when)


def devices(plan: DevicePlanView) -> str:
    """`gpu 0, 1`, `gpu 0 and every other`."""
    named = ", ".join(map(str, plan.devices))
    if not plan.others:
        return f"gpu {named}"
    return f"gpu {named} and every other" if named else "every gpu that comes"


def plan_lines(plans: Iterable[DevicePlanView]) -> list[str]:
    """One block a group of devices."""
    lines: list[str] = []
    for plan in plans:
        before, after = plan.before or "no policy", plan.after or "no policy"
        lines.append(f"{devices(plan)}: {after if before == after else f'{before} → {after}'}")
        for change in plan.changes:
            place = f"{change.policy}:{change.line}" if change.line else change.policy
            lines.append(f"  {change.sign} {place}  {change.text}")
    return list(map(printable, lines))


def rejected_text(rejected: RejectedView) -> str:
    """All findings and the summary."""
    text = rejected.text.rstrip("\n")
    return f"{text}\n\n{rejected.summary}\n" if text else f"{rejected.summary}\n"


def reload_text(reload: ReloadView) -> str:
    """What came of an attempt."""
    lines = [reload.warnings.rstrip("\n")] if reload.warnings else []
    if reload.rejected is not None:
        lines.append(rejected_text(reload.rejected).rstrip("\n"))
    lines.append(reload.text)
    lines += plan_lines(reload.plan)
    if reload.tests:
        lines.append(f"tests: {reload.tests}")
    return "\n".join(lines) + "\n"


def set_line(running: SetView) -> str:
    """`set 3f2a (last good), 1 rejected 12:03:11`"""
    if not running.number:
        line = "none: every gate is open"
    else:
        line = f"set {short(running.digest)}"
        line += " (last good)" if running.differs else ""
        line += f", since {at(running.since_ns)} by {running.how}"
    if running.rejected is not None:
        line += f", {running.rejected.count} rejected {at(running.rejected.at_ns)}"
    return line


def call(applied: AppliedView) -> str:
    """`preempt-mix(quiet = 3ms, window = 1)`"""
    arguments = ", ".join(f"{name} = {value}" for name, value in applied.arguments)
    return f"{applied.name}({arguments})" if arguments else applied.name


def policies_text(row: PolicyView) -> str:
    """What applies to a device, and between which classes it decides: `preempt-mix(quiet = 3ms): high > low`."""
    shown = []
    for applied in row.policies:
        ranks = [names[0] if len(names) == 1 else f"[{', '.join(names)}]" for names in applied.ranks]
        classes = " > ".join(ranks) or ", ".join(applied.classes)
        text = f"{call(applied)}: {classes}" if applied.mode else call(applied)
        text += f" (not known: {', '.join(applied.unknown)})" if applied.unknown else ""
        shown.append(f"{text} (out of action)" if applied.failed else text)
    return "; ".join(shown) or "no policy: every gate is open"
