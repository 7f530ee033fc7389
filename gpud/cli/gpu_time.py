"""A job's GPU time in a few words."""

from gpud.cli.screen import ago
from gpud.model.levels import BARRED_TEXTS
from gpud.model.units import format_duration
from gpud.model.views import TimeView

_STEP_NS = 100_000
"""Shorter times are left out."""


def brief(time: TimeView) -> str:
    """`24% of 30%`, `24%`: what it uses now, of its share or limit; `12 s`: what it has used, where that is all.
    `, passed over`: it is not believed."""
    now = "" if time.busy is None else f"{time.busy:.0%}"
    most = min((part for part in (time.share, time.limit) if part is not None), default=None)
    out = ", passed over" if time.barred else ""
    if not now:
        return ago(time.spent_ns) + out
    return (now if most is None else f"{now} of {most:.0%}") + out


def lines(time: TimeView) -> list[str]:
    """All of it, a sentence each."""
    now = "" if time.busy is None else f"{time.busy:.1%} of the device now, "
    how = ", estimated: it was measured beside other jobs only" if time.estimated else ""
    found = [f"GPU time: {now}{_seconds(time.spent_ns)} in all{how}"]
    if time.share is not None:
        turn = "; it has the turn" if time.turn else ""
        found.append(f"share: {time.share:.3%}".replace(".000%", "%") + f", {_behind(time.lag_ns)}{turn}")
    if time.limit is not None:
        left = f"{format_duration(abs(time.left_ns), _STEP_NS)} {'left' if time.left_ns > 0 else 'owed'}"
        found.append(f"limit: {time.limit:.1%} of the device, {left}".replace(".0%", "%"))
    if time.barred:
        why = BARRED_TEXTS.get(time.barred, time.barred)
        found.append(f"it takes no part in the turns of others for a while: {why}")
    if time.stuck:
        found.append("it has lost its rank: it was active for ten seconds, used nothing and finished nothing")
    return found


def _behind(lag_ns: int) -> str:
    if abs(lag_ns) < _STEP_NS:
        return "even with it"
    return f"{format_duration(abs(lag_ns), _STEP_NS)} {'behind' if lag_ns > 0 else 'ahead'}"


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.3g} s" if nanoseconds < 120 * 10**9 else ago(nanoseconds)
