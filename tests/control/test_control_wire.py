import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.control import wire
from gpud.model.errors import ProtocolError, VersionError
from gpud.model.views import DeviceView, HoldView, JobStats, JobView, StatusView

texts = st.text(max_size=20)
numbers = st.integers(0, 2**63)
few = st.lists(st.integers(0, 99), max_size=3).map(tuple)
holds = st.builds(HoldView, code=texts, text=texts, held_by=st.none() | numbers, for_ns=numbers, device=numbers)
jobs = st.builds(
    JobView,
    id=numbers,
    name=texts,
    user=texts,
    job_class=texts,
    state=texts,
    pids=few,
    launcher_pid=st.none() | numbers,
    command=texts,
    labels=st.dictionaries(texts, texts, max_size=2),
    devices=few,
    age_ns=numbers,
    used_bytes=numbers,
    why=st.none() | holds,
)
devices = st.builds(
    DeviceView,
    slot=st.none() | numbers,
    uuid=texts,
    name=texts,
    total_bytes=numbers,
    used_bytes=st.none() | numbers,
    utilisation=st.none() | st.floats(0, 1),
    jobs=few,
    unmanaged_pids=few,
)
statuses = st.builds(
    StatusView,
    version=texts,
    pid=numbers,
    uptime_ns=numbers,
    runtime_dir=texts,
    policy=texts,
    parameters=st.dictionaries(texts, texts, max_size=2),
    classes=st.lists(texts, max_size=2).map(tuple),
    simulated=st.none() | texts,
    driver=texts,
    devices=st.lists(devices, max_size=2).map(tuple),
    jobs=numbers,
    clients=numbers,
    adopted=numbers,
    attach_ns=st.none() | numbers,
)
stats = st.builds(
    JobStats,
    job=jobs,
    held_histogram=few,
    **dict.fromkeys(
        [
            "launches",
            "launches_failed",
            "unfinished",
            "held",
            "held_ns",
            "passed",
            "allocations",
            "hook_errors",
            "attaches",
        ],
        numbers,
    ),
)
answers = st.one_of(
    st.builds(wire.StatusAnswer, status=statuses),
    st.builds(wire.PsAnswer, jobs=st.lists(jobs, max_size=3)),
    st.builds(wire.StatsAnswer, stats=st.lists(stats, max_size=3)),
    st.builds(wire.JobOfAnswer, job=jobs),
    st.builds(wire.StopAnswer, opened=numbers),
    st.builds(wire.ErrorAnswer, code=texts, text=texts),
)
asks = st.one_of(
    st.builds(wire.AskStatus),
    st.builds(wire.AskPs),
    st.builds(wire.AskStop),
    st.builds(wire.AskStats, job=st.none() | numbers),
    st.builds(wire.AskJobOf, pid=numbers),
)


def body(frame: bytes) -> bytes:
    assert wire.body_size(frame[:4]) == len(frame) - 4
    return frame[4:]


@given(numbers, asks)
def test_requests_round_trip(number: int, ask: wire.Ask) -> None:
    request = wire.Request(version=wire.VERSION, id=number, ask=ask)
    assert wire.decode_request(body(wire.encode(request))) == request


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
    with pytest.raises(VersionError, match=r"the client speaks version 7.*this daemon version 1"):
        wire.decode_request(data)
    with pytest.raises(VersionError, match=r"the daemon speaks version 7"):
        wire.decode_reply(data)
    assert wire.request_id(data) == 3


def test_unknown_requests_are_named() -> None:
    data = msgspec.msgpack.encode({"version": 1, "id": 3, "ask": {"type": "dance"}})
    with pytest.raises(ProtocolError, match=r"dance"):
        wire.decode_request(data)


def test_frames_are_bounded() -> None:
    with pytest.raises(ProtocolError, match=r"over the limit of 1048576"):
        wire.body_size(b"\x01\x00\x10\x00")
    answer = wire.ErrorAnswer(code="x", text="y" * wire.MAX_BYTES)
    with pytest.raises(ProtocolError, match=r"over the limit"):
        wire.encode(wire.Reply(version=1, id=1, answer=answer))
