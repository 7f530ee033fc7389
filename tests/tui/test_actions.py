import pytest

from gpud.control import wire
from gpud.model.errors import UsageError
from gpud.model.live_views import ProcessRow
from gpud.tui import actions
from tests.tui.rig import job


def test_a_plan_names_job_user_and_pids() -> None:
    plan = actions.pause([job(7, name="train\x1b[2J", user="bob")])
    assert plan.title == "Pause job #7?"
    assert plan.lines == ("#7 train\\x1b[2J  of bob  pid 4010, 4011",)
    assert plan.asks == (wire.AskPause(job=7),)
    assert not plan.grave


def test_what_is_paused_is_resumed_and_a_mixture_is_paused() -> None:
    paused, running = job(1, paused_by="alice (uid 1000)"), job(2)
    assert actions.pause([paused]).asks == (wire.AskResume(job=1),)
    assert actions.pause([paused, running]).asks == (wire.AskPause(job=2),)


def test_a_signal_goes_to_the_processes_that_were_seen() -> None:
    plan = actions.kill([job(3)], "KILL")
    assert plan.title == "Send KILL to job #3?"
    assert plan.asks == (wire.AskKill(job=3, signal="KILL", pids=(4010, 4011)),)
    assert plan.grave


def test_many_pids_are_counted() -> None:
    processes = tuple(ProcessRow(pid=pid, command="x", devices=(), used_bytes=0) for pid in range(100, 120))
    assert actions.named(job(1, processes=processes)).endswith("105, 106, 107 and 12 more")
    assert actions.named(job(1, processes=())).endswith("no process")


def test_several_jobs_are_evicted_each() -> None:
    plan = actions.evict([job(1), job(2)])
    assert plan.title == "Take the device from 2 jobs?"
    assert plan.asks == (wire.AskEvict(job=1), wire.AskEvict(job=2))


def test_a_change_says_what_and_to_whom() -> None:
    plan = actions.change([job(1), job(2)], "class=low mem=8GiB compute=30%")
    assert plan.asks[1] == wire.AskSet(job=2, job_class="low", memory_bytes=8 * 2**30, compute_ppm=300_000)
    assert plan.lines[0] == "class = low, mem = 8GiB, compute = 30%"
    assert actions.change([job(1)], "mem=auto").asks == (wire.AskSet(job=1, memory_bytes=None),)


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "write class"), ("low", "'low': write"), ("mem=", "'mem=': write"),
     ("mem=much", "mem: 'much'"),
     ("mem=4GiB mem=5GiB", "mem stands there twice"),
     ("compute=130%", "more than 100%"), ("colour=red", "write class")],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_it_is_asked(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        actions.change([job(1)], text)


def test_what_holds_now_is_told() -> None:
    row = job(1, job_class="low", pinned=True, limit_bytes=8 * 2**30, limit=0.5)
    assert actions.as_it_is(row) == "now: class=low (pinned)  mem=8G  compute=50%"
    free = job(1, job_class="", limit_bytes=None, limit=None)
    assert actions.as_it_is(free) == "now: mem=no limit  compute=no limit"
