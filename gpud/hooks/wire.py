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

from gpud.hooks import wire_lock
from gpud.hooks.wire_format import MAGIC as MAGIC
from gpud.hooks.wire_format import MAX_BYTES as MAX_BYTES
from gpud.hooks.wire_format import NUMBERS as NUMBERS
from gpud.hooks.wire_format import Message as Message
from gpud.hooks.wire_format import decode as decode
from gpud.hooks.wire_format import encode as encode
from gpud.hooks.wire_format import name_of
from gpud.hooks.wire_lock import LockAsked as LockAsked
from gpud.hooks.wire_lock import LockBack as LockBack
from gpud.hooks.wire_lock import LockGranted as LockGranted
from gpud.hooks.wire_lock import LockIsIn as LockIsIn
from gpud.hooks.wire_lock import LockRefused as LockRefused
from gpud.hooks.wire_lock import LockRevoked as LockRevoked
from gpud.hooks.wire_lock import LockWithdrawn as LockWithdrawn
from gpud.hooks.wire_memory import AllocAsked as AllocAsked
from gpud.hooks.wire_memory import AllocReply as AllocReply
from gpud.hooks.wire_memory import Slots as Slots
from gpud.hooks.wire_memory import SlotsAsked as SlotsAsked
from gpud.hooks.wire_memory import SwapOut as SwapOut
from gpud.hooks.wire_memory import Swapped as Swapped
from gpud.hooks.wire_messages import MAX_DEVICES as MAX_DEVICES
from gpud.hooks.wire_messages import MAX_PEERS as MAX_PEERS
from gpud.hooks.wire_messages import NO_BOUND as NO_BOUND
from gpud.hooks.wire_messages import UNMANAGED as UNMANAGED
from gpud.hooks.wire_messages import Attached as Attached
from gpud.hooks.wire_messages import Bye as Bye
from gpud.hooks.wire_messages import Detach as Detach
from gpud.hooks.wire_messages import Devices as Devices
from gpud.hooks.wire_messages import DeviceSlots as DeviceSlots
from gpud.hooks.wire_messages import Hello as Hello
from gpud.hooks.wire_messages import Job as Job
from gpud.hooks.wire_messages import Launch as Launch
from gpud.hooks.wire_messages import Mapped as Mapped
from gpud.hooks.wire_messages import PeerPage as PeerPage
from gpud.hooks.wire_messages import Peers as Peers
from gpud.hooks.wire_messages import PeersMapped as PeersMapped
from gpud.hooks.wire_messages import Ping as Ping
from gpud.hooks.wire_messages import Pong as Pong
from gpud.hooks.wire_messages import Queued as Queued
from gpud.hooks.wire_messages import Refused as Refused
from gpud.hooks.wire_messages import Welcome as Welcome
from gpud.hooks.wire_messages import WentActive as WentActive
from gpud.hooks.wire_messages import WentIdle as WentIdle
from gpud.model.errors import ProtocolError, VersionError

VERSION_MIN = 1
VERSION_MAX = 1
MAX_FDS = 16
PAGE_VERSION = 4

ROLE_HOOK = 1
ROLE_LAUNCHER = 2
HELLO_REATTACH = 1
HELLO_WAITS = 2
HELLO_HOOKLESS = 4
_HELLO_FLAGS = HELLO_REATTACH | HELLO_WAITS | HELLO_HOOKLESS

_OF_A_SLOT = (WentActive, WentIdle, AllocAsked, Swapped, SlotsAsked)
_PING = NUMBERS[Ping]


def descriptors_of(message: Message) -> tuple[int, ...]:
    """How many descriptors may come with it."""
    if isinstance(message, Hello):
        return (2,) if message.flags & HELLO_REATTACH else (0,)
    if isinstance(message, Welcome):
        return (1, 3)
    if isinstance(message, Peers):
        return (message.descriptors,)
    if isinstance(message, Slots):
        return (0,) if message.code else (1,)
    return (0,)


_ATTACHED_SAYS = frozenset({Devices, PeersMapped, WentActive, WentIdle, Bye, AllocAsked, Swapped, SlotsAsked}) | {
    *wire_lock.SAID
}
"""What a client may say once it has its pages."""


class ServerSession:
    """The daemon's end of one connection: what the client may say next, and what came of version negotiation.

    `receive` and `send` raise ProtocolError; a VersionError from `receive` is answered with REFUSED.
    """

    def __init__(self) -> None:
        self.role = 0
        self.version = 0
        self.reattach = False
        self.waits = False
        self.hookless = False
        self._nonce = 0
        self._last_serial = 0
        self._slots = 0
        """Bits of the device slots that the client was told of; 0: of none yet, after it came back."""
        self._may_receive: frozenset[type] = frozenset({Hello})

    def receive(self, packet: bytes, descriptors: int = 0) -> Message:
        """The client's next message, checked for form, order and number of descriptors."""
        message = decode(packet)
        if type(message) not in self._may_receive:
            allowed = ", ".join(sorted(name_of(kind) for kind in self._may_receive)) or "nothing"
            raise ProtocolError(f"{name_of(type(message))} came out of order: expected {allowed}")
        if descriptors not in descriptors_of(message):
            raise ProtocolError(
                f"{name_of(type(message))} came with {descriptors} descriptors, not {descriptors_of(message)[0]}"
            )
        if isinstance(message, Hello):
            self._greet(message)
            self._may_receive = frozenset()
        elif isinstance(message, Pong):
            if message.nonce != self._nonce:
                raise ProtocolError("PONG holds another number than PING did")
            self._may_receive = frozenset({Launch, Bye}) if self.role == ROLE_LAUNCHER else frozenset()
        elif isinstance(message, Mapped):
            self._may_receive = _ATTACHED_SAYS
        elif isinstance(message, Launch):
            self._may_receive = frozenset({Bye})
        elif isinstance(message, Bye):
            self._may_receive = frozenset()
        elif isinstance(message, PeersMapped) and message.serial > self._last_serial:
            raise ProtocolError(
                f"PEERS_MAPPED answers number {message.serial}, the last one sent was {self._last_serial}"
            )
        elif isinstance(message, wire_lock.SAID):
            wire_lock.check(message, name_of(type(message)), self._slots or (1 << MAX_DEVICES) - 1)
        elif isinstance(message, _OF_A_SLOT) and message.slot >= MAX_DEVICES:
            raise ProtocolError(
                f"{name_of(type(message))} names device slot {message.slot}; the last is {MAX_DEVICES - 1}"
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
        elif isinstance(message, DeviceSlots):
            for slot in message.slots:
                self._slots |= 1 << slot if slot < MAX_DEVICES else 0
        elif isinstance(message, (Refused, Detach)):
            self._may_receive = frozenset()
        return encode(message)

    def _greet(self, hello: Hello) -> None:
        if hello.role not in (ROLE_HOOK, ROLE_LAUNCHER):
            raise ProtocolError(f"HELLO names role {hello.role}; known are 1 (hook) and 2 (launcher)")
        if hello.flags & ~_HELLO_FLAGS or (hello.flags and hello.role == ROLE_LAUNCHER):
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
        self.hookless = bool(hello.flags & HELLO_HOOKLESS)


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
            raise ProtocolError(f"the daemon sent {name_of(type(message))}, which only clients send")
        if descriptors not in descriptors_of(message):
            raise ProtocolError(
                f"{name_of(type(message))} came with {descriptors} descriptors, not {descriptors_of(message)[0]}"
            )
        if isinstance(message, Ping):
            if self.known:
                raise ProtocolError("the daemon sent PING twice")
            self.known = True
            return message, encode(Pong(message.nonce))
        if not self.known and not isinstance(message, Refused):
            raise ProtocolError(f"the daemon sent {name_of(type(message))} before PING")
        return message, None
