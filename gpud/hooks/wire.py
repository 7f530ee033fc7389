"""The session protocol of `hooks-native/include/gpud_wire.h`, without I/O: packets ↔ messages, and who may say what
when.

Standard library only. (`gpud run` has a light copy of its half in cli/launch.py; a test compares them.) `encode` and
`decode` know the formats; `ServerSession` and
`ClientSession` know the order. One packet of the SEQPACKET socket is one message. Nothing here touches a descriptor:
the caller says how many came, and closes all of them when a ProtocolError is raised.

A launcher (`gpud run`) does:

    session = ClientSession(ROLE_LAUNCHER)
    send(session.hello())
    while ...:
        message, answer = session.receive(packet)       # raises ProtocolError, VersionError
        if answer: send(answer)                         # PONG
        if session.known: send(encode(Launch(...)))     # once, after the PONG
        Job: environment for the program · Refused: say why and end · Attached: a process of the job is managed

A JOB's environment replaces variables of the program; LD_LIBRARY_PATH and LD_PRELOAD are put before what is there.
"""

import struct
from typing import NamedTuple

from gpud.model.errors import ProtocolError, VersionError

MAGIC = 0x4447
VERSION_MIN = 1
VERSION_MAX = 1
MAX_BYTES = 16384
MAX_FDS = 16
MAX_DEVICES = 8
MAX_PEERS = 16
PAGE_VERSION = 2

ROLE_HOOK = 1
ROLE_LAUNCHER = 2
HELLO_REATTACH = 1
HELLO_WAITS = 2


UNMANAGED = 0xFFFFFFFF
"""In DeviceSlots: the daemon does not manage this device."""

LAUNCH_KEYS = ("class", "name", "command", "gpu")
"""And `label.K`."""


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
    """What a launcher asks for: pairs of LAUNCH_KEYS and `label.K`, in order, no key twice."""

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
Message = (
    Hello | Ping | Pong | Welcome | Mapped | Bye | Devices | DeviceSlots | Peers | PeersMapped | WentActive | WentIdle
    | Launch | Job | Refused | Detach | Attached | Queued
)  # fmt: skip

_HEAD = struct.Struct("<HHI")
_PEER = struct.Struct("<IIQII")
_DEVICE = struct.Struct("<16sQ")
_TEXT = struct.Struct("<II")
_FIXED: dict[type, tuple[int, struct.Struct]] = {
    Hello: (1, struct.Struct("<HHHHIIQ")),
    Pong: (2, struct.Struct("<Q")),
    Mapped: (3, struct.Struct("<")),
    PeersMapped: (5, struct.Struct("<II")),
    WentActive: (6, struct.Struct("<IIQ")),
    WentIdle: (7, struct.Struct("<IIQ")),
    Bye: (8, struct.Struct("<")),
    Ping: (64, struct.Struct("<Q")),
    Welcome: (65, struct.Struct("<HxxIQIIII")),
}
_DEVICES, _LAUNCH, _REFUSED, _SLOTS, _PEERS, _DETACH, _JOB, _ATTACHED, _QUEUED = 4, 9, 66, 67, 68, 69, 70, 71, 76
_FIXED_TYPES = {number: (kind, layout) for kind, (number, layout) in _FIXED.items()}
NUMBERS = {kind: number for kind, (number, _) in _FIXED.items()} | {
    Devices: _DEVICES,
    Launch: _LAUNCH,
    Refused: _REFUSED,
    DeviceSlots: _SLOTS,
    Peers: _PEERS,
    Detach: _DETACH,
    Job: _JOB,
    Attached: _ATTACHED,
    Queued: _QUEUED,
}
"""Message class → GPUD_MSG_*."""


def encode(message: Message) -> bytes:
    """One packet. Raises ProtocolError when the message does not fit (too much text, too many entries, bad pairs)."""
    number = NUMBERS[type(message)]
    if type(message) in _FIXED:
        body = _FIXED[type(message)][1].pack(*message)
    elif isinstance(message, Devices):
        _at_most(len(message.devices), MAX_DEVICES, "devices")
        body = struct.pack("<II", len(message.devices), 0) + b"".join(_DEVICE.pack(*d) for d in message.devices)
        body = body.ljust(8 + _DEVICE.size * MAX_DEVICES, b"\0")
    elif isinstance(message, DeviceSlots):
        _at_most(len(message.slots), MAX_DEVICES, "device slots")
        slots = (*message.slots, *([UNMANAGED] * (MAX_DEVICES - len(message.slots))))
        body = struct.pack(f"<I{MAX_DEVICES}II", len(message.slots), *slots, 0)
    elif isinstance(message, Peers):
        _at_most(len(message.peers), MAX_PEERS, "peers")
        _at_most(message.descriptors, len(message.peers), "descriptors")
        body = struct.pack("<IHH", message.serial, len(message.peers), message.descriptors)
        body += b"".join(_PEER.pack(*peer, 0) for peer in message.peers)
        body = body.ljust(8 + _PEER.size * MAX_PEERS, b"\0")
    else:
        code, text = _text_of(message)
        raw = _utf8(text, strict=isinstance(message, Job))
        body = _TEXT.pack(code, len(raw)) + raw
    _at_most(_HEAD.size + len(body), MAX_BYTES, "bytes of a message")
    return _HEAD.pack(MAGIC, number, _HEAD.size + len(body)) + body


def decode(packet: bytes) -> Message:
    """One message. Raises ProtocolError with what is wrong: too short or long, unknown type, nonsense within."""
    if len(packet) < _HEAD.size:
        raise ProtocolError(f"a packet of {len(packet)} bytes is shorter than a message head")
    magic, number, size = _HEAD.unpack_from(packet)
    if magic != MAGIC:
        raise ProtocolError(f"a packet begins with {magic:#06x}, not with {MAGIC:#06x}")
    if size != len(packet) or size > MAX_BYTES:
        raise ProtocolError(f"a message of type {number} says it has {size} bytes, but the packet has {len(packet)}")
    body = packet[_HEAD.size :]
    if number in _FIXED_TYPES:
        kind, layout = _FIXED_TYPES[number]
        if len(body) != layout.size:
            raise ProtocolError(f"{_name(kind)} has {len(body)} bytes after its head, not {layout.size}")
        return kind(*layout.unpack(body))  # type: ignore[no-any-return]
    if number == _DEVICES:
        return _decode_devices(body)
    if number == _SLOTS:
        return _decode_slots(body)
    if number == _PEERS:
        return _decode_peers(body)
    if number in (_LAUNCH, _REFUSED, _DETACH, _JOB, _ATTACHED, _QUEUED):
        return _decode_text(number, body)
    raise ProtocolError(f"unknown message type {number}")


def descriptors_of(message: Message) -> tuple[int, ...]:
    """How many descriptors may come with it."""
    if isinstance(message, Hello):
        return (2,) if message.flags & HELLO_REATTACH else (0,)
    if isinstance(message, Welcome):
        return (1, 3)
    if isinstance(message, Peers):
        return (message.descriptors,)
    return (0,)


class ServerSession:
    """The daemon's end of one connection: what the client may say next, and what came of version negotiation.

    `receive` and `send` raise ProtocolError; a VersionError from `receive` is answered with REFUSED.
    """

    def __init__(self) -> None:
        self.role = 0
        self.version = 0
        self.reattach = False
        self.waits = False
        self._nonce = 0
        self._last_serial = 0
        self._may_receive: frozenset[type] = frozenset({Hello})

    def receive(self, packet: bytes, descriptors: int = 0) -> Message:
        """The client's next message, checked for form, order and number of descriptors."""
        message = decode(packet)
        if type(message) not in self._may_receive:
            allowed = ", ".join(sorted(_name(kind) for kind in self._may_receive)) or "nothing"
            raise ProtocolError(f"{_name(type(message))} came out of order: expected {allowed}")
        if descriptors not in descriptors_of(message):
            raise ProtocolError(
                f"{_name(type(message))} came with {descriptors} descriptors, not {descriptors_of(message)[0]}"
            )
        if isinstance(message, Hello):
            self._greet(message)
            self._may_receive = frozenset()
        elif isinstance(message, Pong):
            if message.nonce != self._nonce:
                raise ProtocolError("PONG holds another number than PING did")
            self._may_receive = frozenset({Launch, Bye}) if self.role == ROLE_LAUNCHER else frozenset()
        elif isinstance(message, Mapped):
            self._may_receive = frozenset({Devices, PeersMapped, WentActive, WentIdle, Bye})
        elif isinstance(message, Launch):
            self._may_receive = frozenset({Bye})
        elif isinstance(message, Bye):
            self._may_receive = frozenset()
        elif isinstance(message, PeersMapped) and message.serial > self._last_serial:
            raise ProtocolError(
                f"PEERS_MAPPED answers number {message.serial}, the last one sent was {self._last_serial}"
            )
        elif isinstance(message, (WentActive, WentIdle)) and message.slot >= MAX_DEVICES:
            raise ProtocolError(
                f"{_name(type(message))} names device slot {message.slot}; the last is {MAX_DEVICES - 1}"
            )
        return message

    def send(self, message: Message) -> bytes:
        """The packet, and what the client may answer from now on."""
        if isinstance(message, Ping):
            self._nonce = message.nonce
            self._may_receive = frozenset({Pong})
        elif isinstance(message, Welcome):
            self._may_receive = frozenset({Mapped, Bye})
        elif isinstance(message, Peers):
            self._last_serial = message.serial
        elif isinstance(message, (Refused, Detach)):
            self._may_receive = frozenset()
        return encode(message)

    def _greet(self, hello: Hello) -> None:
        if hello.role not in (ROLE_HOOK, ROLE_LAUNCHER):
            raise ProtocolError(f"HELLO names role {hello.role}; known are 1 (hook) and 2 (launcher)")
        if hello.flags & ~(HELLO_REATTACH | HELLO_WAITS) or (hello.flags and hello.role == ROLE_LAUNCHER):
            raise ProtocolError(f"HELLO has unknown flags {hello.flags:#x}")
        if hello.version_min > hello.version_max:
            raise ProtocolError(f"HELLO offers versions {hello.version_min} to {hello.version_max}")
        version = min(hello.version_max, VERSION_MAX)
        if version < max(hello.version_min, VERSION_MIN):
            raise VersionError(
                f"the client speaks versions {hello.version_min} to {hello.version_max} of the session protocol, "
                f"this daemon {VERSION_MIN} to {VERSION_MAX}; install the same gpud for both"
            )
        if hello.role == ROLE_HOOK and hello.page_version != PAGE_VERSION:
            raise VersionError(
                f"the client's pages are of version {hello.page_version}, this daemon's {PAGE_VERSION}; "
                "install the same gpud for both"
            )
        self.role, self.version = hello.role, version
        self.reattach, self.waits = bool(hello.flags & HELLO_REATTACH), bool(hello.flags & HELLO_WAITS)


class ClientSession:
    """A client's end, for `gpud run` and for fake hooks: answers PING by itself."""

    def __init__(self, role: int, client: int = 0, generation: int = 0, *, waits: bool = False) -> None:
        """`client` and `generation` as in the last WELCOME, to attach again. `waits`: it may be kept in line."""
        self.role = role
        self.known = False
        """PING has been answered: a launcher may ask now."""
        flags = (HELLO_REATTACH if client else 0) | (HELLO_WAITS if waits else 0)
        self._hello = Hello(VERSION_MIN, VERSION_MAX, role, flags, PAGE_VERSION, client, generation)

    def hello(self) -> bytes:
        """The first packet."""
        return encode(self._hello)

    def receive(self, packet: bytes, descriptors: int = 0) -> tuple[Message, bytes | None]:
        """The daemon's message, and the packet to answer it with, if any. Raises ProtocolError.

        Refused is returned, not raised.
        """
        message = decode(packet)
        if NUMBERS[type(message)] < _PING:
            raise ProtocolError(f"the daemon sent {_name(type(message))}, which only clients send")
        if descriptors not in descriptors_of(message):
            raise ProtocolError(
                f"{_name(type(message))} came with {descriptors} descriptors, not {descriptors_of(message)[0]}"
            )
        if isinstance(message, Ping):
            if self.known:
                raise ProtocolError("the daemon sent PING twice")
            self.known = True
            return message, encode(Pong(message.nonce))
        if not self.known and not isinstance(message, Refused):
            raise ProtocolError(f"the daemon sent {_name(type(message))} before PING")
        return message, None


_PING = NUMBERS[Ping]
_WORDS = {DeviceSlots: "DEVICE_SLOTS", PeersMapped: "PEERS_MAPPED", WentActive: "WENT_ACTIVE", WentIdle: "WENT_IDLE"}


def _name(kind: type) -> str:
    return _WORDS.get(kind, kind.__name__.upper())


def _at_most(count: int, limit: int, what: str) -> None:
    if count > limit:
        raise ProtocolError(f"{count} {what} are more than {limit}")


def _decode_devices(body: bytes) -> Devices:
    if len(body) != 8 + _DEVICE.size * MAX_DEVICES:
        raise ProtocolError(f"DEVICES has {len(body)} bytes after its head, not {8 + _DEVICE.size * MAX_DEVICES}")
    (count,) = struct.unpack_from("<I", body)
    _at_most(count, MAX_DEVICES, "devices")
    return Devices(tuple(_DEVICE.unpack_from(body, 8 + _DEVICE.size * i) for i in range(count)))


def _decode_slots(body: bytes) -> DeviceSlots:
    if len(body) != 8 + 4 * MAX_DEVICES:
        raise ProtocolError(f"DEVICE_SLOTS has {len(body)} bytes after its head, not {8 + 4 * MAX_DEVICES}")
    count, *slots, _ = struct.unpack(f"<I{MAX_DEVICES}II", body)
    _at_most(count, MAX_DEVICES, "device slots")
    return DeviceSlots(tuple(slots[:count]))


def _decode_peers(body: bytes) -> Peers:
    if len(body) != 8 + _PEER.size * MAX_PEERS:
        raise ProtocolError(f"PEERS has {len(body)} bytes after its head, not {8 + _PEER.size * MAX_PEERS}")
    serial, count, descriptors = struct.unpack_from("<IHH", body)
    _at_most(count, MAX_PEERS, "peers")
    _at_most(descriptors, count, "descriptors")
    return Peers(
        serial, descriptors, tuple(PeerPage(*_PEER.unpack_from(body, 8 + _PEER.size * i)[:4]) for i in range(count))
    )


def _decode_text(number: int, body: bytes) -> Message:
    if len(body) < _TEXT.size:
        raise ProtocolError(
            f"a message of type {number} has {len(body)} bytes after its head, not {_TEXT.size} or more"
        )
    code, size = _TEXT.unpack_from(body)
    if size != len(body) - _TEXT.size:
        raise ProtocolError(f"a message of type {number} says {size} bytes of text, but {len(body) - _TEXT.size} came")
    try:
        text = body[_TEXT.size :].decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"the text of a message of type {number} is not UTF-8 at byte {error.start}") from None
    if number == _LAUNCH:
        return Launch(_pairs(text, "LAUNCH"))
    if number == _JOB:
        return Job(code, _pairs(text, "JOB"))
    if number == _REFUSED:
        return Refused(code, text)
    if number == _QUEUED:
        return Queued(code, text)
    return Detach(text) if number == _DETACH else Attached(code)


def _text_of(message: Message) -> tuple[int, str]:
    if isinstance(message, Launch):
        return 0, _lines(message.asked)
    if isinstance(message, Job):
        return message.job, _lines(message.environment)
    if isinstance(message, Refused):
        return message.code, message.text
    if isinstance(message, Attached):
        return message.pid, ""
    if isinstance(message, Queued):
        return message.seconds, message.text
    assert isinstance(message, Detach)
    return 0, message.text


def _utf8(text: str, strict: bool) -> bytes:
    """Bytes of the command line that are no UTF-8 are shown escaped; in an environment they would be wrong."""
    try:
        return text.encode(errors="strict" if strict else "backslashreplace")
    except UnicodeEncodeError:
        raise ProtocolError("the environment for a job holds a name that is not UTF-8") from None


def _lines(pairs: tuple[tuple[str, str], ...]) -> str:
    for key, value in pairs:
        if not key or "=" in key or any(c in key + value for c in "\n\0"):
            raise ProtocolError(f"{key!r}={value!r} cannot be sent: a key or value holds a line end, a zero or a `=`")
    return "".join(f"{key}={value}\n" for key, value in pairs)


def _pairs(text: str, where: str) -> tuple[tuple[str, str], ...]:
    pairs: dict[str, str] = {}
    for line in text.split("\n"):
        if not line:
            continue
        key, equals, value = line.partition("=")
        if not equals or not key or "\0" in line:
            raise ProtocolError(f"{where} holds the line {line[:80]!r}, which is not key=value")
        if key in pairs:
            raise ProtocolError(f"{where} names {key[:80]!r} twice")
        pairs[key] = value
    return tuple(pairs.items())
