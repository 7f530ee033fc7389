"""Who may ask what of the daemon. Pure: a peer as the kernel names it, what it asks, whose the job is → yes, or a
sentence.

Operators may do everything: root, the daemon's own user, and members of the group `operators`. An owner may change own
jobs. What others may read is configured.
"""

from collections.abc import Mapping
from enum import Enum

import msgspec
from attrs import frozen

from gpud.control import wire
from gpud.model.errors import Refused
from gpud.model.text import one_line

_OPERATORS_ONLY = (wire.AskStop, wire.AskReload, wire.AskRollback)
Change = wire.AskSet | wire.AskPause | wire.AskResume | wire.AskEvict | wire.AskKill


class Denied(Refused):
    """Whoever asks may not. The text names what was asked, who asks, and who may."""


class Sees(Enum):
    """What a peer may read."""

    ALL = "all"
    OWN = "own"
    """The node, and own jobs; others' are hidden."""
    NOTHING = "nothing"


@frozen(kw_only=True)
class Peer:
    """A process at the other end of the control socket, as it was when it connected."""

    pid: int
    uid: int
    gid: int
    groups: tuple[str, ...]
    """All of them, by name; the number of one without a name."""
    user: str

    @property
    def name(self) -> str:
        """`alice (uid 1000)`"""
        return f"{one_line(self.user)} (uid {self.uid})"

    def __str__(self) -> str:
        """`alice (uid 1000, pid 4711)`"""
        return f"{one_line(self.user)} (uid {self.uid}, pid {self.pid})"


@frozen(kw_only=True)
class Owner:
    """Of a job."""

    job: int
    name: str
    user: str
    uid: int


@frozen(kw_only=True)
class Rules:
    """Of one daemon."""

    own_uid: int
    operators: str = "gpud-operators"
    """Name of a group."""
    readers: str = "everyone"
    """`everyone`, `owners`, `operators`, as in config_file.py."""

    def is_operator(self, peer: Peer) -> bool:
        return peer.uid in (0, self.own_uid) or self.operators in peer.groups

    def sees(self, peer: Peer) -> Sees:
        if self.is_operator(peer) or self.readers == "everyone":
            return Sees.ALL
        return Sees.OWN if self.readers == "owners" else Sees.NOTHING

    def may_see(self, peer: Peer, uid: int) -> bool:
        """A job of that user."""
        return self.sees(peer) is Sees.ALL or peer.uid == uid

    @property
    def who_operates(self) -> str:
        """`root, user 990 or a member of the group gpud-operators`"""
        own = f", user {self.own_uid}" if self.own_uid else ""
        return f"root{own} or a member of the group {self.operators}"

    def check(self, peer: Peer, ask: wire.Ask, owner: Owner | None = None) -> None:
        """`owner`: of the job that is to be changed; None where there is no such job, which is found out later. Raises
        Denied."""
        if self.is_operator(peer):
            return
        if isinstance(ask, _OPERATORS_ONLY):
            raise Denied(f"{verb(ask)} is for operators: {self.who_operates}; you are {peer.name}")
        if isinstance(ask, Change):
            if owner is not None and owner.uid != peer.uid:
                raise Denied(self._not_yours(peer, ask, owner))
        elif self.sees(peer) is Sees.NOTHING:
            raise Denied(
                f"{verb(ask)}: only {self.who_operates} may read here, by `readers` of [control] in gpud.toml; "
                f"you are {peer.name}"
            )

    def _not_yours(self, peer: Peer, ask: Change, owner: Owner) -> str:
        if not self.may_see(peer, owner.uid):
            return f"{verb(ask)}: there is no job {owner.job} of yours; you are {peer.name}"
        whose = f"job {owner.job} ({one_line(owner.name)}) is {one_line(owner.user)}'s"
        return f"{verb(ask)}: {whose}, who may change it, and so may {self.who_operates}; you are {peer.name}"


def verb(ask: wire.Ask) -> str:
    """What is asked, in a word."""
    return str(ask.__struct_config__.tag)


def wording(ask: wire.Ask) -> str:
    """What is asked, for the audit: `set memory_bytes=1073741824`, `kill signal=TERM`."""
    fields: Mapping[str, object] = msgspec.structs.asdict(ask)
    said = (f"{key}={_short(value)}" for key, value in fields.items() if key != "job" and value is not msgspec.UNSET)
    return " ".join([verb(ask), *said])


def _short(value: object) -> str:
    text = one_line(str(value))
    return text if len(text) <= 80 else f"{text[:79]}…"
