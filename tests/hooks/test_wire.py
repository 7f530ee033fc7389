import contextlib
import re
import struct
import sys
from pathlib import Path
from subprocess import run

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.hooks import wire, wire_lock
from gpud.hooks.wire import ClientSession, ServerSession, decode, encode
from gpud.model import refusals
from gpud.model.errors import ProtocolError, VersionError

HEADER = Path(__file__).parents[2] / "hooks-native" / "include" / "gpud_wire.h"


def u(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


MEMORY = (wire.AllocAsked, wire.AllocReply, wire.SwapOut, wire.Swapped, wire.SlotsAsked, wire.Slots)
LOCK = (*wire_lock.SAID, wire.LockGranted, wire.LockRevoked)
words = st.text(st.characters(codec="utf-8", exclude_characters="\n\0="), min_size=1, max_size=30)
values = st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=60)
pairs = st.dictionaries(words, values, max_size=6).map(lambda d: tuple(d.items()))
peer_pages = st.lists(st.builds(wire.PeerPage, u(32), u(32), u(64), u(32)), max_size=16).map(tuple)
messages = st.one_of(
    st.builds(wire.Hello, u(16), u(16), u(16), u(16), u(32), u(32), u(64)),
    st.builds(wire.Ping, u(64)),
    st.builds(wire.Pong, u(64)),
    st.builds(wire.Welcome, u(16), u(32), u(64), u(32), u(32), u(32), u(32)),
    st.just(wire.Mapped()),
    st.just(wire.Bye()),
    st.builds(wire.Devices, st.lists(st.tuples(st.binary(min_size=16, max_size=16), u(64)), max_size=8).map(tuple)),
    st.builds(wire.DeviceSlots, st.lists(u(32), max_size=8).map(tuple)),
    st.tuples(u(32), peer_pages).map(lambda p: wire.Peers(p[0], len(p[1]) // 2, p[1])),
    st.builds(wire.PeersMapped, u(32), u(32)),
    st.builds(wire.WentActive, u(32), u(32), u(64)),
    st.builds(wire.WentIdle, u(32), u(32), u(64)),
    st.builds(wire.Launch, pairs),
    st.builds(wire.Job, u(32), pairs),
    st.builds(wire.Refused, u(32), values),
    st.builds(wire.Detach, values),
    st.builds(wire.Attached, u(32)),
    st.builds(wire.Queued, u(32), values),
    *(st.builds(kind, u(32), u(32), u(64), u(64), u(64)) for kind in (*MEMORY, *LOCK)),
    st.builds(wire.LockRefused, u(32), values),
)


@given(messages)
def test_messages_round_trip(message: wire.Message) -> None:
    assert decode(encode(message)) == message


@given(st.binary(max_size=500))
def test_any_bytes_are_a_message_or_a_protocol_error(packet: bytes) -> None:
    try:
        message = decode(packet)
    except ProtocolError:
        return
    assert decode(encode(message)) == message


@given(messages, st.data())
def test_damaged_messages_are_a_message_or_a_protocol_error(message: wire.Message, data: st.DataObject) -> None:
    packet = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(u(8))
    cut = data.draw(st.integers(0, len(packet)))
    for damaged in (bytes(packet), bytes(packet[:cut])):
        with contextlib.suppress(ProtocolError):
            decode(damaged)


@given(st.lists(st.tuples(st.one_of(messages.map(encode), st.binary(max_size=64)), st.integers(0, 16)), max_size=12))
def test_any_conversation_ends_in_a_protocol_error_at_worst(packets: list[tuple[bytes, int]]) -> None:
    server, client = ServerSession(), ClientSession(wire.ROLE_HOOK)
    for packet, descriptors in packets:
        for end in (server, client):
            with contextlib.suppress(ProtocolError):
                end.receive(packet, descriptors)


def test_numbers_and_sizes_are_those_of_the_header() -> None:
    from gpud.hooks._pages import ffi, lib

    names = {kind: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).upper() for kind in wire.NUMBERS}
    assert {name: getattr(lib, f"GPUD_MSG_{name}") for name in names.values()} == {
        names[kind]: number for kind, number in wire.NUMBERS.items()
    }
    roles = ("ROLE_HOOK", "ROLE_LAUNCHER", "HELLO_REATTACH", "HELLO_WAITS")
    for name in (*roles, "MAX_DEVICES", "MAX_PEERS", "PAGE_VERSION"):
        assert getattr(wire, name) == getattr(lib, f"GPUD_{name}"), name
    for name in ("VERSION", "IDENTITY", "POLICY", "PROTOCOL", "RESOURCES", "DRAINING", "ADMISSION"):
        assert getattr(refusals, name) == getattr(lib, f"GPUD_REFUSED_{name}"), name
    for name in ("MAGIC", "VERSION_MIN", "VERSION_MAX", "MAX_BYTES", "MAX_FDS"):
        assert getattr(wire, name) == getattr(lib, f"GPUD_WIRE_{name}"), name
    size = ffi.sizeof
    assert len(encode(wire.Hello(*[0] * 7))) == size("struct gpud_msg_hello")
    assert len(encode(wire.Ping(0))) == len(encode(wire.Pong(0))) == size("struct gpud_msg_nonce")
    assert len(encode(wire.Welcome(*[0] * 7))) == size("struct gpud_msg_welcome")
    assert len(encode(wire.Mapped())) == len(encode(wire.Bye())) == size("struct gpud_msg_plain")
    assert len(encode(wire.Devices(()))) == size("struct gpud_msg_devices")
    assert len(encode(wire.DeviceSlots(()))) == size("struct gpud_msg_device_slots")
    assert len(encode(wire.Peers(0, 0, ()))) == size("struct gpud_msg_peers")
    assert len(encode(wire.PeersMapped(0, 0))) == size("struct gpud_msg_peers_mapped")
    assert len(encode(wire.WentIdle(0, 0, 0))) == size("struct gpud_msg_edge")
    assert {len(encode(kind(0, 0, 0, 0, 0))) for kind in MEMORY} == {size("struct gpud_msg_memory")}
    assert {len(encode(kind(0, 0, 0, 0, 0))) for kind in LOCK} == {size("struct gpud_msg_lock")}
    for name in ("EXPLICIT", "OVERRUN", "SHORT", "NEVER"):
        assert getattr(wire_lock, name) == getattr(lib, f"GPUD_LOCK_{name}"), name
    assert len(encode(wire.Detach("x"))) == size("struct gpud_msg_text") + 1


def test_fields_are_where_the_compiler_puts_them() -> None:
    """Messages written by us, read through the C structs."""
    from gpud.hooks._pages import ffi

    def read(kind: str, message: wire.Message) -> object:
        buffer = ffi.from_buffer(encode(message))
        read.keep = buffer  # type: ignore[attr-defined]
        return ffi.cast(f"struct {kind} *", buffer)[0]

    hello = read("gpud_msg_hello", wire.Hello(1, 2, 3, 4, 5, 6, 7))
    names = ("version_min", "version_max", "role", "flags", "page_version", "client", "generation")
    assert [getattr(hello, name) for name in names] == [1, 2, 3, 4, 5, 6, 7]
    welcome = read("gpud_msg_welcome", wire.Welcome(1, 2, 3, 4, 5, 6, 7))
    names = ("version", "client", "generation", "control_bytes", "presence_bytes", "activity_bytes", "job")
    assert [getattr(welcome, name) for name in names] == [1, 2, 3, 4, 5, 6, 7]
    peers = read("gpud_msg_peers", wire.Peers(9, 1, (wire.PeerPage(1, 2, 3, 4), wire.PeerPage(5, 6, 7, 8))))
    assert (peers.serial, peers.count, peers.descriptors) == (9, 2, 1)  # type: ignore[attr-defined]
    entry = peers.peer[1]  # type: ignore[attr-defined]
    assert (entry.present, entry.client, entry.generation, entry.bytes) == (5, 6, 7, 8)
    devices = read("gpud_msg_devices", wire.Devices(((b"u" * 16, 1), (b"v" * 16, 2))))
    assert bytes(devices.device[1].uuid) == b"v" * 16  # type: ignore[attr-defined]
    assert (devices.count, devices.device[1].total_bytes) == (2, 2)  # type: ignore[attr-defined]
    slots = read("gpud_msg_device_slots", wire.DeviceSlots((3, wire.UNMANAGED)))
    assert (slots.count, list(slots.slot)[:3]) == (2, [3, 2**32 - 1, 2**32 - 1])  # type: ignore[attr-defined]
    memory = read("gpud_msg_memory", wire.AllocAsked(1, 2, 3, 4, 5))
    assert [getattr(memory, name) for name in wire.AllocAsked._fields] == [1, 2, 3, 4, 5]
    lock = read("gpud_msg_lock", wire.LockAsked(1, 2, 3, 4, 5))
    assert [getattr(lock, name) for name in wire.LockAsked._fields] == [1, 2, 3, 4, 5]
    edge = read("gpud_msg_edge", wire.WentActive(1, 2, 3))
    assert (edge.slot, edge.edges, edge.when_ns) == (1, 2, 3)  # type: ignore[attr-defined]


def greeted(role: int = wire.ROLE_HOOK) -> ServerSession:
    server, client = ServerSession(), ClientSession(role)
    server.receive(client.hello())
    _, pong = client.receive(server.send(wire.Ping(7)))
    assert pong is not None
    server.receive(pong)
    return server


def test_a_whole_conversation() -> None:
    server = greeted()
    server.send(wire.Welcome(1, 1, 1, 1, 1, 1, 1))
    server.receive(encode(wire.Mapped()))
    server.receive(encode(wire.Devices(())))
    server.send(wire.Peers(1, 0, ()))
    server.receive(encode(wire.PeersMapped(1, 0)))
    server.receive(encode(wire.WentActive(0, 1, 1)))
    server.receive(encode(wire.Bye()))
    with pytest.raises(ProtocolError, match="expected nothing"):
        server.receive(encode(wire.WentActive(0, 1, 1)))


@pytest.mark.parametrize(
    "early",
    [wire.Pong(0), wire.Mapped(), wire.Devices(()), wire.Launch(()), wire.Ping(1), wire.Welcome(1, 1, 1, 1, 1, 1, 1)],
)
def test_hello_comes_first(early: wire.Message) -> None:
    with pytest.raises(ProtocolError, match="out of order: expected HELLO"):
        ServerSession().receive(encode(early))


def test_order_is_held_at_every_step() -> None:
    server, client = ServerSession(), ClientSession(wire.ROLE_HOOK)
    server.receive(client.hello())
    with pytest.raises(ProtocolError, match="HELLO came out of order"):
        server.receive(client.hello())
    with pytest.raises(ProtocolError, match="expected nothing"):
        server.receive(encode(wire.Pong(0)))  # PING was not sent yet
    server.send(wire.Ping(5))
    with pytest.raises(ProtocolError, match="another number than PING"):
        server.receive(encode(wire.Pong(6)))
    with pytest.raises(ProtocolError, match="expected nothing"):
        greeted().receive(encode(wire.Mapped()))  # no WELCOME yet
    with pytest.raises(ProtocolError, match="MAPPED came out of order"):
        greeted(wire.ROLE_LAUNCHER).receive(encode(wire.Mapped()))
    with pytest.raises(ProtocolError, match="LAUNCH came out of order"):
        greeted().receive(encode(wire.Launch(())))


def test_answers_to_what_was_not_asked() -> None:
    server = greeted()
    server.send(wire.Welcome(1, 1, 1, 1, 1, 1, 1))
    server.receive(encode(wire.Mapped()))
    with pytest.raises(ProtocolError, match="the last one sent was 0"):
        server.receive(encode(wire.PeersMapped(1, 0)))
    with pytest.raises(ProtocolError, match="names device slot 8"):
        server.receive(encode(wire.WentIdle(8, 0, 0)))


@pytest.mark.parametrize(("descriptors", "flags"), [(1, 0), (2, 0), (0, 1), (1, 1), (3, 1), (16, 1)])
def test_descriptors_that_do_not_belong(descriptors: int, flags: int) -> None:
    hello = wire.Hello(1, 1, wire.ROLE_HOOK, flags, wire.PAGE_VERSION, 1, 1)
    with pytest.raises(ProtocolError, match=f"came with {descriptors} descriptors"):
        ServerSession().receive(encode(hello), descriptors)


@pytest.mark.parametrize(
    ("low", "high", "page"),
    [
        (2, 9, wire.PAGE_VERSION),
        (0, 0, wire.PAGE_VERSION),
        (1, 1, wire.PAGE_VERSION + 1),
        (1, 1, wire.PAGE_VERSION - 1),
        (1, 1, 1),
    ],
)
def test_other_versions(low: int, high: int, page: int) -> None:
    with pytest.raises(VersionError, match="install the same gpud for both"):
        ServerSession().receive(encode(wire.Hello(low, high, wire.ROLE_HOOK, 0, page, 0, 0)))


def test_the_highest_common_version_is_chosen() -> None:
    server = ServerSession()
    server.receive(encode(wire.Hello(0, 700, wire.ROLE_HOOK, 0, wire.PAGE_VERSION, 0, 0)))
    assert server.version == wire.VERSION_MAX
    server = ServerSession()
    server.receive(encode(wire.Hello(1, 1, wire.ROLE_HOOK, 0, wire.PAGE_VERSION, 0, 0)))
    assert server.version == 1


@pytest.mark.parametrize(
    "hello",
    [
        wire.Hello(1, 1, 3, 0, 1, 0, 0),
        wire.Hello(1, 1, wire.ROLE_HOOK, 4, 1, 0, 0),
        wire.Hello(1, 1, wire.ROLE_LAUNCHER, 2, 1, 0, 0),
        wire.Hello(1, 1, wire.ROLE_LAUNCHER, 1, 1, 0, 0),
        wire.Hello(2, 1, wire.ROLE_HOOK, 0, 1, 0, 0),
    ],
)
def test_nonsense_in_hello(hello: wire.Hello) -> None:
    with pytest.raises(ProtocolError):
        ServerSession().receive(encode(hello), 2 if hello.flags & 1 else 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"class", "not key=value"),
        (b"=x", "not key=value"),
        (b"a=1\na=2", "twice"),
        (b"a=\0", "not key=value"),
        (b"a=\xff", "not UTF-8 at byte 2"),
    ],
)
def test_text_of_a_launch(text: bytes, says: str) -> None:
    body = struct.pack("<HHIII", wire.MAGIC, wire.NUMBERS[wire.Launch], 16 + len(text), 0, len(text)) + text
    with pytest.raises(ProtocolError, match=says):
        decode(body)


def test_what_does_not_fit_is_not_sent() -> None:
    with pytest.raises(ProtocolError, match="bytes of a message are more than 16384"):
        encode(wire.Detach("x" * 20000))
    with pytest.raises(ProtocolError, match="cannot be sent"):
        encode(wire.Launch((("a=b", "c"),)))
    with pytest.raises(ProtocolError, match="cannot be sent"):
        encode(wire.Launch((("a", "c\nclass=high"),)))
    with pytest.raises(ProtocolError, match="17 peers are more than 16"):
        encode(wire.Peers(1, 0, (wire.PeerPage(0, 0, 0, 0),) * 17))
    # Bytes that are no UTF-8, as in a file name: shown escaped, refused where they would matter.
    assert decode(encode(wire.Launch((("command", "run \udcff"),)))) == wire.Launch((("command", "run \\udcff"),))
    with pytest.raises(ProtocolError, match="not UTF-8"):
        encode(wire.Job(1, (("PATH", "\udcff"),)))


def test_a_client_does_not_take_what_only_clients_send() -> None:
    client = ClientSession(wire.ROLE_LAUNCHER)
    for packet in (encode(wire.Pong(1)), encode(wire.Job(1, ())), encode(wire.Bye())):
        with pytest.raises(ProtocolError):
            client.receive(packet)
    assert client.receive(encode(wire.Refused(1, "no"))) == (wire.Refused(1, "no"), None)


def test_gpud_run_can_afford_it() -> None:
    """Neither trio nor msgspec nor cffi nor click comes with what `gpud run` needs of the daemon's side."""
    code = (
        "import sys, gpud.config, gpud.hooks.wire, gpud.model.errors, gpud.model.units; "
        "bad = {'trio', 'msgspec', 'cffi', '_cffi_backend', 'click', 'attr', 'attrs', 'asyncio'} & set(sys.modules); "
        "sys.exit(str(bad) if bad else 0)"
    )
    assert run([sys.executable, "-c", code], check=False).returncode == 0
