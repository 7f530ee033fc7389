"""What a share means in parts of the device, by the table of the language. Pure.

`fixed(p)` is p. `weight(w)` is w/Σw of what fixed shares leave, over all units, active or not. `equal` and `burst`
divide the rest by weight among active units; that is done in C at each step, from what is here.
"""

from collections.abc import Iterable, Sequence

from attrs import frozen

from gpud.engine.board import Applied, Arbiter
from gpud.engine.state import Ran
from gpud.engine.units import Unit
from gpud.model.levels import Pool, ShareUnit, Total, TotalKind
from gpud.policies.values import EQUAL, Share

WHOLE = 1_000_000
"""One device, in millionths."""
_WEIGHT = 1000
"""A weight of 1, in whole numbers."""


@frozen
class Parts:
    """Of units that share one device, in their order."""

    fixed: tuple[int | None, ...]
    """Millionths, whoever is active; None: by weight among the active ones."""
    weights: tuple[int, ...]
    open: int
    """What is divided by weight."""


def parts(shares: Sequence[Share]) -> Parts:
    """Fixed shares that promise more than there is are cut down in proportion."""
    promised = sum(share.percent for share in shares if share.kind == "fixed")
    whole = max(promised, 100)
    weights = tuple(weight_of(share) for share in shares)
    rest = WHOLE - WHOLE * promised // whole
    of_all = sum(weights)
    fixed = [
        WHOLE * share.percent // whole
        if share.kind == "fixed"
        else rest * weight // of_all
        if share.kind == "weight"
        else None
        for share, weight in zip(shares, weights, strict=True)
    ]
    kept = sum(part for share, part in zip(shares, fixed, strict=True) if share.kind == "weight" and part is not None)
    return Parts(tuple(fixed), weights, rest - kept)


def weight_of(share: Share) -> int:
    """0 of a fixed share; `equal` weighs 1."""
    return 0 if share.kind == "fixed" else max(round(share.weight * _WEIGHT), 1)


def most_of(share: Share, part: int | None) -> int | None:
    """What it may not exceed, in millionths; None: all it can get. `part`: what it has whoever is active."""
    if share.kind in ("fixed", "weight"):
        return part
    return share.max_percent * WHOLE // 100 if share.kind == "burst" and share.max_percent < 100 else None


def share_of(applied: Applied, ran: Ran, job_class: str | None) -> Share:
    """As its policy says now; `equal` of those that no class takes."""
    index = applied.knobs.get((job_class, "share")) if job_class is not None else None
    value = ran.knobs.values[index] if index is not None and ran.knobs.values else EQUAL
    return value if isinstance(value, Share) else EQUAL


def divided(
    applied: Applied, ran: Ran, pools: Iterable[tuple[int, Sequence[Unit]]]
) -> tuple[tuple[ShareUnit, ...], tuple[Pool, ...], tuple[Total, ...]]:
    """Units and pools for the steps, and the caps that shares are. `pools`: (which, the units of its tenants)."""
    arbiter = applied.arbiter
    assert arbiter is not None
    found: list[ShareUnit] = []
    all_pools: list[Pool] = []
    caps: list[Total] = []
    for number, (which, present) in enumerate(pools):
        units = [*present, *_absent(applied, arbiter, which, present)]
        shares = [share_of(applied, ran, unit.job_class) for unit in units]
        divided_in = parts(shares)
        all_pools.append(Pool(period_ns=arbiter.period_ns, open_ppm=divided_in.open))
        for unit, share, fixed, weight in zip(units, shares, divided_in.fixed, divided_in.weights, strict=True):
            if not unit.tenants:
                continue
            found.append(ShareUnit(pool=number, fixed_ppm=fixed, weight=weight, members=unit.tenants))
            most = most_of(share, fixed)
            if most is not None:
                caps.append(
                    Total(
                        key=(unit.policy, unit.job_class or "", unit.member, "share"),
                        kind=TotalKind.COMPUTE,
                        amount=most,
                        window_ns=arbiter.period_ns,
                        members=unit.tenants,
                    )
                )
    return tuple(found), tuple(all_pools), tuple(caps)


def _absent(applied: Applied, arbiter: Arbiter, pool: int, present: Sequence[Unit]) -> list[Unit]:
    """Classes that are one unit each and have nobody here: their part is kept all the same."""
    here = {unit.job_class for unit in present}
    return [
        Unit(applied.name, job_class.name, "", ())
        for job_class in applied.program.ir.classes
        if job_class.per == "class"
        and job_class.name not in here
        and (arbiter.mode == "share" or arbiter.ranks.get(job_class.name) == pool)
    ]
