import pytest

from gpud.hooks import wire, wire_lock
from gpud.hooks.sessions import _event
from gpud.hooks.wire import ServerSession, encode
from gpud.model import events as ev
from gpud.model.errors import ProtocolError
from gpud.model.ids import ClientId


def ready() -> ServerSession:
    session = ServerSession()
    session.receive(encode(wire.Hello(1, 1, wire.ROLE_HOOK, 0, wire.PAGE_VERSION, 0, 0)))
    session.send(wire.Ping(7))
    session.receive(encode(wire.Pong(7)))
    session.send(wire.Welcome(1, 1, 1, 1, 1, 1, 1))
    session.receive(encode(wire.Mapped()))
    session.send(wire.DeviceSlots((0, 2, wire.UNMANAGED)))
    return session


@pytest.mark.parametrize("kind", wire_lock.SAID)
@pytest.mark.parametrize(
    ("slots", "flags", "number", "says"),
    [
        (0, 0, 1, "names no device"),
        (2, 0, 1, "names device slots 0x2; the client has 0x5"),
        (1 << 31, 0, 1, "names device slots"),
        (1, 16, 1, "unknown flags 0x10"),
        (1, 0, 0, "number 0"),
    ],
)
def test_nonsense_about_the_lock(kind: type, slots: int, flags: int, number: int, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        ready().receive(encode(kind(slots, flags, number, 0, 0)))


@pytest.mark.parametrize("kind", wire_lock.SAID)
def test_only_who_has_its_pages_speaks_of_the_lock(kind: type) -> None:
    with pytest.raises(ProtocolError, match="out of order"):
        ServerSession().receive(encode(kind(1, 0, 1, 0, 0)))


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("kind", wire_lock.SAID)
def test_wrong_sizes(kind: type, change: int) -> None:
    packet = encode(kind(1, 0, 1, 0, 0))
    packet = packet[:change] if change < 0 else packet + b"\0"
    with pytest.raises(ProtocolError, match="bytes"):
        ready().receive(packet[:4] + len(packet).to_bytes(4, "little") + packet[8:])


def test_what_the_engine_hears() -> None:
    said = ready().receive(encode(wire.LockAsked(5, wire_lock.EXPLICIT, 9, wire_lock.FOR_EVER, 64)))
    asked = _event(ClientId(3), said)
    assert asked == ev.LockAsked(client=ClientId(3), request=9, slots=frozenset({0, 2}), explicit=True, wait_ns=None)
    back = _event(ClientId(3), ready().receive(encode(wire.LockBack(4, wire_lock.OVERRUN, 2, 11, 0))))
    assert back == ev.LockBack(client=ClientId(3), slots=frozenset({2}), epoch=2, overrun=True, never=False)


@pytest.mark.parametrize(("flags", "explicit"), [(wire_lock.EXPLICIT, True), (0, False)])
def test_who_gives_a_device_back_may_ask_for_it_again(flags: int, explicit: bool) -> None:
    said = ready().receive(encode(wire.LockBack(4, wire_lock.AND_ASKS | flags, 2, 77, 9)))
    assert _event(ClientId(3), said) == ev.LockBack(
        client=ClientId(3),
        slots=frozenset({2}),
        epoch=2,
        overrun=False,
        never=False,
        asks=ev.LockAsked(client=ClientId(3), request=9, slots=frozenset({2}), explicit=explicit, wait_ns=77),
    )


@pytest.mark.parametrize(
    ("flags", "number", "says"),
    [
        (wire_lock.OVERRUN, 9, "has yet to give back"),
        (wire_lock.NEVER, 9, "has yet to give back"),
        (wire_lock.SHORT, 9, "has yet to give back"),
        (0, 0, "numbers begin with 1"),
    ],
)
def test_nonsense_about_asking_again(flags: int, number: int, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        ready().receive(encode(wire.LockBack(1, wire_lock.AND_ASKS | flags, 2, 77, number)))
