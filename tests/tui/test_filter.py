import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.model.live_views import JobRow, WhyRow
from gpud.testing.scripted_feed import BEGIN_NS
from gpud.tui.filter import FilterError, parse_filter
from gpud.tui.model import NodeModel
from tests.tui.rig import full, job

GIB = 2**30
JOBS = [
    job(1, name="serve", user="alice", job_class="high", state="active", used_bytes=6 * GIB, busy=0.6, devices=(0,)),
    job(2, name="train", user="bob", job_class="low", state="held", used_bytes=3 * GIB, busy=0.0, devices=(1,),
        why=WhyRow(code="preempt", text="waits", by="turns.gpol:12"), labels=(("tier", "batch"),)),
    job(3, name="Big Train", user="alice", job_class="low", state="queued", used_bytes=0, busy=None, devices=(0, 1),
        began_at_ns=BEGIN_NS - 7200 * 10**9, limit_bytes=8 * GIB, tags=("overrun",)),
    job(4, name="日本語", user="carol", job_class="low", state="paused", used_bytes=5 * GIB, command="python x.py"),
]  # fmt: skip


def model() -> NodeModel:
    made = NodeModel()
    made.apply(full(*JOBS))
    return made


def taken(text: str, jobs: list[JobRow] | None = None) -> list[int]:
    node = model()
    return [one.id for one in jobs or JOBS if parse_filter(text).takes(one, node)]


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        ("", [1, 2, 3, 4]),
        ("user:alice class:low state:wait", [3]),
        ("state:wait", [2, 3, 4]),
        ("state:run", [1]),
        ("state:held", [2]),
        ("mem>4G", [1, 4]),
        ("mem>=3GiB mem<6g", [2, 4]),
        ("mem=0", [3]),
        ("-user:alice", [2, 4]),
        ("train", [2, 3]),
        ("TRAIN -class:high", [2, 3]),
        ('"big train"', [3]),
        ('name:"big t"', [3]),
        ("#2", [2]),
        ("日本", [4]),
        ("gpu:1", [2, 3]),
        ("gpu%>50", [1]),
        ("gpu%<50%", [2, 4]),
        ("age>1h", [3]),
        ("age>90m user:alice", [3]),
        ("limit<=8G", [3]),
        ("why:preempt", [2]),
        ("why:turns.gpol", [2]),
        ("label:tier=batch", [2]),
        ("tag:overrun", [3]),
        ("pid:4010", [1, 2, 3, 4]),
        ("id:4", [4]),
        ("nobody", []),
    ],
)
def test_filters(text: str, jobs: list[int]) -> None:
    assert taken(text) == jobs


@pytest.mark.parametrize(
    ("text", "at", "length", "says"),
    [
        ("user:alice colour:red", 11, 6, "nothing is called 'colour'"),
        ("mem>lots", 4, 4, "amount of memory"),
        ("mem>", 4, 1, "amount of memory"),
        ("user>3", 4, 1, "write user:"),
        ("user:", 0, 5, "missing"),
        ('x name:"open', 7, 1, "quote is not closed"),
        ("ok -", 3, 1, "missing after `-`"),
        ("gpu%>much", 5, 4, "not a percentage"),
        ("age>2", 4, 1, "no unit"),
    ],
)
def test_errors_say_where(text: str, at: int, length: int, says: str) -> None:
    with pytest.raises(FilterError, match=says) as caught:
        parse_filter(text)
    assert (caught.value.at, caught.value.length) == (at, length)


@given(st.text(alphabet='ab: <>=-"%#gpu日 mem4G', max_size=30))
def test_any_text_is_a_filter_or_an_error_with_a_place(text: str) -> None:
    try:
        wanted, error = parse_filter(text), None
    except FilterError as caught:
        wanted, error = parse_filter(""), caught
    assert error is None or (0 <= error.at <= len(text) and error.length >= 1)
    node = model()
    assert all(wanted.takes(one, node) in (True, False) for one in JOBS)
