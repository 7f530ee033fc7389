from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.control import wire
from gpud.model.errors import ProtocolError, VersionError

texts = st.text(max_size=20)
numbers = st.integers(0, 2**63)
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: texts, int: numbers, float: st.floats(0, 1), bool: st.booleans(), NoneType: st.none(),
    Any: st.none() | texts | numbers,
}  # fmt: skip


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Anything of a type: what the structs and views of the protocol are made of."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    inner = get_args(kind)
    match get_origin(kind):
        case origin if origin in (UnionType, Union):
            return st.one_of(*map(values, inner))
        case origin if origin is list:
            return st.lists(values(inner[0]), max_size=2)
        case origin if origin is dict:
            return st.dictionaries(values(inner[0]), values(inner[1]), max_size=2)
        case origin if origin is tuple and inner[-1] is Ellipsis:
            return st.lists(values(inner[0]), max_size=2).map(tuple)
        case origin if origin is tuple:
            return st.tuples(*map(values, inner))
    return st.builds(kind, **{name: values(field) for name, field in get_type_hints(kind).items()})


answers = values(wire.Answer)
asks = values(wire.Ask)


def body(frame: bytes) -> bytes:
    assert wire.body_size(frame[:4]) == len(frame) - 4
    return frame[4:]


@given(numbers, asks)
def test_requests_round_trip(number: int, ask: wire.Ask) -> None:
    request = wire.Request(version=wire.VERSION, id=number, ask=ask)
    assert wire.decode_request(body(wire.encode(request))) == request


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (wire.AskRollback(number=1 << 64), "more than 64 bits"),
        (wire.AskWhy(job=-(1 << 70)), "more than 64 bits"),
        (wire.AskSet(job=1, job_class="\udcff"), "is not UTF-8 text"),
        (wire.AskShow(file="\udcff.gpol"), "is not UTF-8 text"),
    ],
)
def test_what_no_frame_can_hold_is_not_asked(ask: wire.Ask, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        wire.encode(wire.Request(version=wire.VERSION, id=1, ask=ask))


def test_a_name_that_is_no_text_can_be_answered() -> None:
    answer = wire.ErrorAnswer(code="unknown", text="no \udcff here, grün")
    reply = wire.decode_reply(body(wire.encode(wire.Reply(version=wire.VERSION, id=1, answer=answer))))
    assert reply.answer == wire.ErrorAnswer(code="unknown", text="no \ufffd here, grün")


@given(numbers, answers, st.booleans())
def test_replies_round_trip(number: int, answer: wire.Answer, more: bool) -> None:
    reply = wire.Reply(version=wire.VERSION, id=number, answer=answer, more=more)
    assert wire.decode_reply(body(wire.encode(reply))) == reply


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_a_protocol_error(data: bytes) -> None:
    for decode in (wire.decode_request, wire.decode_reply):
        with pytest.raises(ProtocolError):
            decode(data)
    assert wire.request_id(data) >= 0


@given(st.recursive(st.none() | st.integers() | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
def test_any_msgpack_is_a_frame_or_a_protocol_error(value: object) -> None:
    try:
        data = msgspec.msgpack.encode(value)
    except OverflowError:
        return
    with pytest.raises(ProtocolError):
        wire.decode_request(data)


def test_other_versions_are_named() -> None:
    data = msgspec.msgpack.encode({"version": 7, "id": 3, "ask": {"type": "dance"}})
    with pytest.raises(VersionError, match=r"the client speaks version 7.*this daemon version 3"):
        wire.decode_request(data)
    with pytest.raises(VersionError, match=r"the daemon speaks version 7"):
        wire.decode_reply(data)
    assert wire.request_id(data) == 3


def test_unknown_requests_are_named() -> None:
    data = msgspec.msgpack.encode({"version": wire.VERSION, "id": 3, "ask": {"type": "dance"}})
    with pytest.raises(ProtocolError, match=r"dance"):
        wire.decode_request(data)


def test_frames_are_bounded() -> None:
    with pytest.raises(ProtocolError, match=r"over the limit of 1048576"):
        wire.body_size(b"\x01\x00\x10\x00")
    answer = wire.ErrorAnswer(code="x", text="y" * wire.MAX_BYTES)
    with pytest.raises(ProtocolError, match=r"over the limit"):
        wire.encode(wire.Reply(version=wire.VERSION, id=1, answer=answer))
