"""A client without CUDA: speaks the session protocol as the hook does, and holds the same pages. For tests.

    with FakeHook(runtime_dir / "hook.sock") as hook:
        hook.attach()
        hook.report_devices([(uuid, total_bytes)])
        hook.pump_until(lambda: hook.slots is not None)
        hook.set_active(0, True)

As a program it is a process of its own, told what to do by lines of JSON on stdin (see `main`).
"""

import array
import contextlib
import json
import mmap
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from gpud.hooks import layout, wire, wire_lock
from gpud.model.errors import GpudError

TIMEOUT_S = 60.0
_CONTROL_FIELDS = (
    *(
        "gate",
        "wake",
        "rank",
        "unit",
        "peer_count",
        "others_active",
        "max_inflight",
        "pass_launches",
        "resume_after_ns",
    ),
    *("max_pause_ns", "max_inflight_ns", "memory_limit", "level_seq", "cap_rate_ppm", "cap_base_ns", "cap_t0_ns"),
    *("cap_burst_ns", "cap_flags", "share_rate_ppm", "share_base_ns", "share_t0_ns", "share_turn_ns", "draw_ns"),
    *("pass_ns", "launch_rate", "block_rate", "copy_rate", "burst_ns", "others_lag_ns", "generation", "grant_epoch"),
    *("grant_until_ns", "tenant", "others_edges", "watched", "memory_flags", "others_reserved", "overhead_bytes"),
    *("lock_flags", "lock_place"),
)
_PEER_FIELDS = (
    *("rank", "unit", "generation", "present", "flags", "tenant", "share_seq"),
    *("share_base_ns", "share_t0_ns", "share_rate_ppm"),
)
_PRESENCE_FIELDS = (
    *("active", "edges", "idle_since_ns", "inflight", "spent_ns", "waiting", "turn", "full_ns"),
    *("reserved_bytes", "lock", "holds"),
)
_SLOT_FIELDS = (
    *("entered", "left", "blocks", "held", "held_ns"),
    *("thread", "holding", "hold_reason", "hold_peer", "hold_since_ns"),
)


class Gate(NamedTuple):
    """What the control page says of one device: the fields that a hook looks at."""

    gate: int
    wake: int
    rank: int
    unit: int
    peer_count: int
    others_active: int
    max_inflight: int
    pass_launches: int
    resume_after_ns: int
    max_pause_ns: int


class FakeHook:
    """One client. Not thread-safe; nothing happens but in its methods."""

    def __init__(self, path: Path, timeout: float = TIMEOUT_S) -> None:
        self.path = path
        self.timeout = timeout
        self.socket: socket.socket | None = None
        self.session = wire.ClientSession(wire.ROLE_HOOK)
        self.welcome: wire.Welcome | None = None
        self.control: mmap.mmap | None = None
        self.presence: mmap.mmap | None = None
        self.activity: mmap.mmap | None = None
        self.page_fds: tuple[int, int] | None = None
        self.peers: dict[int, tuple[int, mmap.mmap]] = {}
        """Present index → (generation, the peer's presence page)."""
        self.slots: tuple[int, ...] | None = None
        self.refused: wire.Refused | None = None
        self.detached: str | None = None
        self.queued: wire.Queued | None = None
        """It waits in line, or did."""
        self.alloc_replies: list[wire.AllocReply] = []
        self.swap_outs: list[wire.SwapOut] = []
        self.locks: list[wire.LockGranted | wire.LockRevoked | wire.LockRefused] = []
        """What the daemon said of the device lock, in order."""
        self.host_slots: list[tuple[wire.Slots, int | None]] = []
        """With the descriptor, which is whose test it is to close."""
        self.closed = False
        """The daemon has closed the connection."""
        self.answer_peers = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connect(self) -> None:
        """Connects, and says nothing yet."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(self.timeout)
        self.socket.connect(str(self.path))
        self.closed = False

    def attach(self, again: bool = False, *, waits: bool = False) -> wire.Welcome:
        """The whole handshake. `again`: with the pages it has; `waits`: as in cuInit, so it may be kept in line (see
        `queued`). Raises GpudError when it is refused, TimeoutError."""
        self.connect()
        if again:
            assert self.welcome is not None
            assert self.page_fds is not None
            self.session = wire.ClientSession(wire.ROLE_HOOK, self.welcome.client, self.welcome.generation)
            self._answer(self.session.hello(), self.page_fds)
        else:
            self.session = wire.ClientSession(wire.ROLE_HOOK, waits=waits)
            self._answer(self.session.hello())
        self.welcome, before = None, self.welcome
        self.pump_until(lambda: self.welcome is not None)
        if self.welcome is None:
            self.welcome = before
            raise GpudError("the fake hook was not welcomed")
        self.send(wire.encode(wire.Mapped()))
        return self.welcome

    def report_devices(self, devices: Sequence[tuple[bytes, int]]) -> None:
        self.slots = None
        self.send(wire.encode(wire.Devices(tuple(devices))))

    def ask_lock(
        self, slots: int, request: int, *, explicit: bool = False, wait_ns: int = wire_lock.FOR_EVER, count: int = 0
    ) -> None:
        """`slots`: a bit each."""
        flags = wire_lock.EXPLICIT if explicit else 0
        self.send(wire.encode(wire.LockAsked(slots, flags, request, wait_ns, count)))

    def take_in(self, slots: int, epoch: int, count: int = 0, *, short: bool = False) -> None:
        self.send(wire.encode(wire.LockIsIn(slots, wire_lock.SHORT if short else 0, epoch, 0, count)))

    def give_back(self, slots: int, epoch: int, flags: int = 0) -> None:
        """`flags`: wire_lock.OVERRUN, NEVER; 0: drained."""
        self.send(wire.encode(wire.LockBack(slots, flags, epoch, 0, 0)))

    def ask_slots(self, slot: int, request: int, count: int) -> None:
        self.send(wire.encode(wire.SlotsAsked(slot, 0, request, count, 0)))

    def swapped(self, asked: wire.SwapOut, count: int, code: int = 1) -> None:
        """`code` 0: goes on, 1: done, 2: failed."""
        self.send(wire.encode(wire.Swapped(asked.slot, code, asked.request, count, 0)))

    def set_memory(self, slot: int, *, resident: int = 0, host: int = 0, lazy: int = 0) -> None:
        """Writes into the activity page what of its memory is where."""
        assert self.activity is not None
        offset = layout.activity_device_offset(slot)
        values = list(layout.ACTIVITY_DEVICE_HEAD.unpack_from(self.activity, offset))
        values[0], values[11:14] = resident + host + lazy, [resident, host, lazy]
        values[17] = sum(slots.bytes for slots, fd in self.host_slots if fd is not None)
        layout.ACTIVITY_DEVICE_HEAD.pack_into(self.activity, offset, *values)

    def send(self, packet: bytes, descriptors: Sequence[int] = ()) -> None:
        """Any bytes, any descriptors."""
        assert self.socket is not None
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self.socket.sendmsg([packet], rights)

    def pump_until(self, done: Callable[[], bool]) -> None:
        """Takes messages until `done`. Raises GpudError when the daemon refuses or closes first, TimeoutError."""
        deadline = time.monotonic() + self.timeout
        while not done():
            if self.closed or self.refused:
                raise GpudError(
                    self.refused.text if self.refused else self.detached or "the daemon closed the connection"
                )
            self.pump(max(deadline - time.monotonic(), 0.001))

    def pump(self, timeout: float = 0.0) -> bool:
        """Takes one message. False when none came in time (0: none is there). Raises TimeoutError only when `timeout`
        > 0."""
        assert self.socket is not None
        self.socket.settimeout(timeout)
        try:
            packet, rights, _, _ = self.socket.recvmsg(wire.MAX_BYTES, socket.CMSG_SPACE(4 * wire.MAX_FDS))
        except BlockingIOError:
            return False
        except ConnectionError:
            packet, rights = b"", []
        finally:
            self.socket.settimeout(self.timeout)
        descriptors = array.array("i")
        for _, _, data in rights:
            descriptors.frombytes(data)
        if not packet:
            self.closed = True
            return True
        message, answer = self.session.receive(packet, len(descriptors))
        self._take(message, list(descriptors))
        if answer is not None:
            self._answer(answer)
        return True

    def gate(self, slot: int) -> Gate:
        """What the control page says now."""
        assert self.control is not None
        words = layout.CONTROL_DEVICE_HEAD.unpack_from(self.control, layout.control_device_offset(slot))
        return Gate(*words[:10])

    def words(self, slot: int) -> dict[str, int]:
        """All that the control page says of one device, by name, but for the peers."""
        assert self.control is not None
        values = layout.CONTROL_DEVICE_HEAD.unpack_from(self.control, layout.control_device_offset(slot))
        return dict(zip(_CONTROL_FIELDS, values, strict=True))

    def peer_words(self, slot: int) -> list[dict[str, int]]:
        """Likewise of the entries in use."""
        assert self.control is not None
        first = layout.control_device_offset(slot) + layout.CONTROL_DEVICE_HEAD.size
        rows = (
            layout.PEER.unpack_from(self.control, first + layout.PEER.size * i)
            for i in range(self.gate(slot).peer_count)
        )
        return [dict(zip(_PEER_FIELDS, row, strict=True)) for row in rows]

    def cap_level(self, slot: int) -> int:
        """What its tenant may still use now, in nanoseconds of GPU time, if it has no other process."""
        words, now = self.words(slot), time.monotonic_ns()
        spent = self.presence_words(slot)["spent_ns"]
        level = words["cap_base_ns"] + words["cap_rate_ppm"] * (now - words["cap_t0_ns"]) // 10**6 - spent
        return min(level, words["cap_burst_ns"])

    def presence_words(self, slot: int) -> dict[str, int]:
        """What the own presence page says of one device."""
        assert self.presence is not None
        values = layout.PRESENCE_DEVICE.unpack_from(self.presence, layout.presence_device_at(self.presence, slot))
        return dict(zip(_PRESENCE_FIELDS, values, strict=True))

    def set_presence(self, slot: int, **fields: int) -> None:
        """Writes fields of the presence page: spent_ns, waiting, turn, full_ns, …"""
        assert self.presence is not None
        values = self.presence_words(slot) | fields
        offset = layout.presence_device_at(self.presence, slot)
        layout.PRESENCE_DEVICE.pack_into(self.presence, offset, *(values[name] for name in _PRESENCE_FIELDS))

    def peer_table(self, slot: int) -> list[tuple[int, int, int, int]]:
        """(rank, unit, generation, present) of the entries in use."""
        assert self.control is not None
        first = layout.control_device_offset(slot) + layout.CONTROL_DEVICE_HEAD.size
        count = self.gate(slot).peer_count
        rows = (layout.PEER.unpack_from(self.control, first + layout.PEER.size * i) for i in range(count))
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    def lease_until_ns(self) -> int:
        assert self.control is not None
        return int(layout.CONTROL_HEAD.unpack_from(self.control, layout.HEADER.size)[0])

    def is_let_go(self) -> bool:
        """The daemon has written that it has detached this client."""
        assert self.control is not None
        return bool(layout.CONTROL_HEAD.unpack_from(self.control, layout.HEADER.size)[3])

    def set_active(self, slot: int, active: bool, tell: bool = True) -> None:
        """An edge: in the presence page, and as a message."""
        assert self.presence is not None
        offset = layout.presence_device_at(self.presence, slot)
        _, edges, _, *rest = layout.PRESENCE_DEVICE.unpack_from(self.presence, offset)
        now = time.monotonic_ns()
        layout.PRESENCE_DEVICE.pack_into(self.presence, offset, active, edges + 1, now, *rest)
        if tell:
            self.send(wire.encode((wire.WentActive if active else wire.WentIdle)(slot, edges + 1, now)))

    def sees_active(self, slot: int) -> bool:
        """Some peer in the table of this device is active, by its page; entries whose page is not mapped do not
        count."""
        for _, _, generation, present in self.peer_table(slot):
            mapped = self.peers.get(present)
            if mapped is not None and mapped[0] == generation:
                offset = layout.presence_device_at(mapped[1], slot)
                if layout.PRESENCE_DEVICE.unpack_from(mapped[1], offset)[0]:
                    return True
        return bool(self.gate(slot).others_active)

    def set_slot(self, slot: int, thread: int = 0, **fields: int) -> None:
        """Writes fields of one thread's slot in the activity page: entered, left, blocks, held, held_ns, thread,
        holding, …"""
        assert self.activity is not None
        names = _SLOT_FIELDS
        offset = layout.slot_offset(slot, thread)
        values = dict(zip(names, layout.SLOT.unpack_from(self.activity, offset), strict=True)) | fields
        layout.SLOT.pack_into(self.activity, offset, *(values[name] for name in names))

    def disconnect(self) -> None:
        """Closes the socket and keeps the pages, as when the daemon is gone."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def close(self) -> None:
        """Ends without a goodbye."""
        self.disconnect()
        for page in (self.control, self.presence, self.activity, *(page for _, page in self.peers.values())):
            if page is not None:
                page.close()
        self.control = self.presence = self.activity = None
        self.peers = {}
        for fd in self.page_fds or ():
            os.close(fd)
        self.page_fds = None

    def _answer(self, packet: bytes, descriptors: Sequence[int] = ()) -> None:
        with contextlib.suppress(ConnectionError):  # closed meanwhile: why is in what is still to be read
            self.send(packet, descriptors)

    def _take(self, message: wire.Message, descriptors: list[int]) -> None:
        match message:
            case wire.Welcome():
                self._map(message, descriptors)
            case wire.DeviceSlots():
                self.slots = message.slots
            case wire.Peers():
                self._map_peers(message, descriptors)
            case wire.Refused():
                self.refused = message
            case wire.Detach():
                self.detached = message.text
            case wire.Queued():
                self.queued = message
            case wire.AllocReply():
                self.alloc_replies.append(message)
            case wire.LockGranted() | wire.LockRevoked() | wire.LockRefused():
                self.locks.append(message)
            case wire.SwapOut():
                self.swap_outs.append(message)
            case wire.Slots():
                self.host_slots.append((message, descriptors[0] if descriptors else None))

    def _map(self, welcome: wire.Welcome, descriptors: list[int]) -> None:
        self.welcome = welcome
        if self.control is not None:
            self.control.close()
        self.control = mmap.mmap(descriptors[0], welcome.control_bytes, prot=mmap.PROT_READ)
        os.close(descriptors[0])
        if len(descriptors) == 3:
            self.presence = mmap.mmap(descriptors[1], welcome.presence_bytes)
            self.activity = mmap.mmap(descriptors[2], welcome.activity_bytes)
            self.page_fds = (descriptors[1], descriptors[2])

    def _map_peers(self, message: wire.Peers, descriptors: list[int]) -> None:
        for entry, fd in zip(message.peers, descriptors, strict=False):
            old = self.peers.pop(entry.present, None)
            if old is not None:
                old[1].close()
            self.peers[entry.present] = (entry.generation, mmap.mmap(fd, entry.bytes, prot=mmap.PROT_READ))
            os.close(fd)
        named = {entry.present for entry in message.peers}
        for present in [present for present in self.peers if present not in named]:
            self.peers.pop(present)[1].close()
        if self.answer_peers:
            self._answer(wire.encode(wire.PeersMapped(message.serial, len(self.peers))))


def launch(path: Path, asked: Sequence[tuple[str, str]], timeout: float = TIMEOUT_S) -> tuple[socket.socket, wire.Job]:
    """What `gpud run` does: the connection (keep it) and the job. Raises GpudError when it is refused."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(timeout)
        connection.connect(str(path))
        session = wire.ClientSession(wire.ROLE_LAUNCHER)
        with contextlib.suppress(ConnectionError):
            connection.send(session.hello())
        while True:
            packet = connection.recv(wire.MAX_BYTES)
            if not packet:
                raise GpudError("the daemon closed the connection")
            message, answer = session.receive(packet)
            if answer is not None:
                connection.send(answer)
                connection.send(wire.encode(wire.Launch(tuple(asked))))
            elif isinstance(message, wire.Job):
                return connection, message
            elif isinstance(message, wire.Refused):
                raise GpudError(message.text)
    except BaseException:
        connection.close()
        raise


def main(arguments: list[str]) -> int:
    """`fake_hook SOCKET`: each line of stdin is `["method", arguments…]` of FakeHook, or `["attribute", NAME]`; each
    answer is one line of JSON on stdout. Ends with stdin. Byte strings are written in hex."""
    with FakeHook(Path(arguments[0])) as hook:
        for line in sys.stdin:
            name, *rest = json.loads(line)
            try:
                answer = _obey(hook, name, rest)
            except (GpudError, OSError) as error:
                answer = {"error": type(error).__name__, "text": str(error)}
            print(json.dumps(answer), flush=True)
    return 0


def _obey(hook: FakeHook, name: str, rest: list[Any]) -> Any:
    if name == "attribute":
        return getattr(hook, rest[0])
    if name == "report_devices":
        hook.report_devices([(bytes.fromhex(uuid), total) for uuid, total in rest[0]])
        hook.pump_until(lambda: hook.slots is not None)
        return hook.slots
    if name in ("set_slot", "set_presence", "set_memory"):
        return getattr(hook, name)(rest[0], **rest[1])
    if name == "pump_all":
        while not hook.closed and hook.pump():
            pass
        return None
    answer = getattr(hook, name)(*rest)
    return list(answer) if isinstance(answer, tuple) else answer


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
