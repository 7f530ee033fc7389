"""Which labels, and which class, a user may claim by the word of `gpud run` alone. Pure."""

from collections.abc import Iterable, Mapping

from gpud.model.errors import Refused
from gpud.model.events import Who

CLASS_KEY = "class"
"""What `--class` is called among the claims."""

Claims = Mapping[str, tuple[str, ...]]
"""Label key → who may claim it: `alice`, `@group`, `uid:1000`."""


def judge(claims: Claims, system: bool, who: Who, asked: Iterable[tuple[str, str]]) -> None:
    """`asked`: (key, value) of labels, `class` with the class. Raises Refused with key, value and who may.

    Root may claim anything, since it may write the claims as well. A key that is not listed is free where the daemon is
    the user's own, and nobody's where it serves the machine.
    """
    if who.uid == 0:
        return
    for key, value in asked:
        allowed = claims.get(key)
        if allowed is None and not system:
            continue
        if not any(is_member(principal, who) for principal in allowed or ()):
            raise Refused(_sentence(key, value, who, allowed or ()))


def is_member(principal: str, who: Who) -> bool:
    """Does the principal mean this user?"""
    if principal.startswith("@"):
        return principal[1:] in (who.group, *who.groups)
    if principal.startswith("uid:"):
        return principal[4:] == str(who.uid)
    return principal == who.user


def _sentence(key: str, value: str, who: Who, allowed: tuple[str, ...]) -> str:
    what = f"--class {value}" if key == CLASS_KEY else f"the label {key}={value}"
    may = f"{', '.join(allowed)} may" if allowed else "nobody may"
    return f"{who.user} may not claim {what}: {may}, by [claims] of gpud.toml; leave it out, or ask the operator"
