"""The messages of the session protocol but those of the lock and of memory, as named tuples."""

from typing import NamedTuple

MAX_DEVICES = 8
MAX_PEERS = 16
UNMANAGED = 0xFFFFFFFF
"""In DeviceSlots: the daemon does not manage this device."""


class Hello(NamedTuple):
    """First message of a client. Comes with two descriptors (presence, activity) when it attaches again."""

    version_min: int
    version_max: int
    role: int
    flags: int
    page_version: int
    client: int
    generation: int


class Ping(NamedTuple):
    nonce: int


class Pong(NamedTuple):
    nonce: int


class Welcome(NamedTuple):
    """Comes with three descriptors (control, presence, activity), or one (control) when the client attaches again."""

    version: int
    client: int
    generation: int
    control_bytes: int
    presence_bytes: int
    activity_bytes: int
    job: int


class Mapped(NamedTuple):
    """The client has mapped its pages writable: they may be sealed."""


class Bye(NamedTuple):
    """An orderly end."""


class Devices(NamedTuple):
    """The client's devices in its ordinal order: (uuid of 16 bytes, total memory in bytes)."""

    devices: tuple[tuple[bytes, int], ...]


class DeviceSlots(NamedTuple):
    """The node-wide slot of each of them, UNMANAGED where there is none."""

    slots: tuple[int, ...]


class PeerPage(NamedTuple):
    present: int
    client: int
    generation: int
    bytes: int


class Peers(NamedTuple):
    """The complete set. The first `descriptors` entries come with one descriptor each, the others are mapped
    already."""

    serial: int
    descriptors: int
    peers: tuple[PeerPage, ...]


class PeersMapped(NamedTuple):
    serial: int
    mapped: int


class WentActive(NamedTuple):
    slot: int
    edges: int
    when_ns: int


class WentIdle(NamedTuple):
    slot: int
    edges: int
    when_ns: int


class Launch(NamedTuple):
    """What a launcher asks for: pairs of key (gpud_wire.h lists them) and value, in order, no key twice."""

    asked: tuple[tuple[str, str], ...]


class Job(NamedTuple):
    """The job's id, and the environment for its program."""

    job: int
    environment: tuple[tuple[str, str], ...]


class Refused(NamedTuple):
    """No; `code` is one of gpud.model.refusals, `text` a sentence for the user."""

    code: int
    text: str


class Detach(NamedTuple):
    """The client goes on without gate; `text` is a sentence for the user."""

    text: str


class Attached(NamedTuple):
    """To the launcher: a process of its job attached."""

    pid: int


class Queued(NamedTuple):
    """It waits in line to be let in, for `seconds` at most; NO_BOUND: for ever. `text` says for what."""

    seconds: int
    text: str


NO_BOUND = 0xFFFFFFFF
"""In Queued."""
