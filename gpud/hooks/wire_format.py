"""Packets ↔ messages of the session protocol: one packet of the SEQPACKET socket is one message."""

import struct

from gpud.hooks.wire_lock import (
    LockAsked,
    LockBack,
    LockGranted,
    LockIsIn,
    LockRefused,
    LockRevoked,
    LockWithdrawn,
)
from gpud.hooks.wire_memory import (
    AllocAsked,
    AllocReply,
    Slots,
    SlotsAsked,
    SwapOut,
    Swapped,
)
from gpud.hooks.wire_messages import (
    MAX_DEVICES,
    MAX_PEERS,
    UNMANAGED,
    Attached,
    Bye,
    Detach,
    Devices,
    DeviceSlots,
    Hello,
    Job,
    Launch,
    Mapped,
    PeerPage,
    Peers,
    PeersMapped,
    Ping,
    Pong,
    Queued,
    Refused,
    Welcome,
    WentActive,
    WentIdle,
)
from gpud.model.errors import ProtocolError

MAGIC = 0x4447
MAX_BYTES = 16384
Message = (
    Hello | Ping | Pong | Welcome | Mapped | Bye | Devices | DeviceSlots | Peers | PeersMapped | WentActive | WentIdle
    | Launch | Job | Refused | Detach | Attached | Queued | AllocAsked | AllocReply | SwapOut | Swapped | SlotsAsked
    | Slots | LockAsked | LockWithdrawn | LockIsIn | LockBack | LockGranted | LockRevoked | LockRefused
)  # fmt: skip

_HEAD = struct.Struct("<HHI")
_PEER = struct.Struct("<IIQII")
_DEVICE = struct.Struct("<16sQ")
_TEXT = struct.Struct("<II")
_MEMORY = struct.Struct("<IIQQQ")
_LOCK = struct.Struct("<IIQQQ")
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
    AllocAsked: (10, _MEMORY),
    Swapped: (15, _MEMORY),
    SlotsAsked: (16, _MEMORY),
    AllocReply: (72, _MEMORY),
    SwapOut: (75, _MEMORY),
    Slots: (77, _MEMORY),
    LockAsked: (11, _LOCK),
    LockBack: (12, _LOCK),
    LockIsIn: (13, _LOCK),
    LockWithdrawn: (14, _LOCK),
    LockGranted: (73, _LOCK),
    LockRevoked: (74, _LOCK),
}
_DEVICES, _LAUNCH, _REFUSED, _SLOTS, _PEERS, _DETACH, _JOB, _ATTACHED, _QUEUED = 4, 9, 66, 67, 68, 69, 70, 71, 76
_LOCK_REFUSED = 78
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
    LockRefused: _LOCK_REFUSED,
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
            raise ProtocolError(f"{name_of(kind)} has {len(body)} bytes after its head, not {layout.size}")
        return kind(*layout.unpack(body))  # type: ignore[no-any-return]
    if number == _DEVICES:
        return _decode_devices(body)
    if number == _SLOTS:
        return _decode_slots(body)
    if number == _PEERS:
        return _decode_peers(body)
    if number in (_LAUNCH, _REFUSED, _DETACH, _JOB, _ATTACHED, _QUEUED, _LOCK_REFUSED):
        return _decode_text(number, body)
    raise ProtocolError(f"unknown message type {number}")


_WORDS = {
    DeviceSlots: "DEVICE_SLOTS", PeersMapped: "PEERS_MAPPED", WentActive: "WENT_ACTIVE", WentIdle: "WENT_IDLE",
    AllocAsked: "ALLOC_ASKED", AllocReply: "ALLOC_REPLY", SwapOut: "SWAP_OUT", SlotsAsked: "SLOTS_ASKED",
}  # fmt: skip


def name_of(kind: type) -> str:
    """As in the header: GPUD_MSG_…"""
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
    if number == _LOCK_REFUSED:
        return LockRefused(code, text)
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
    if isinstance(message, LockRefused):
        return message.request & 0xFFFFFFFF, message.text
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
