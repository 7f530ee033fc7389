import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from gpud.config import Config, load_config
from gpud.control import wire
from gpud.control.client import Client
from gpud.model.errors import UsageError
from gpud.model.live_views import Feed
from gpud.testing.node import until
from gpud.testing.scripted_daemon import ScriptedDaemon
from gpud.testing.scripted_feed import Script
from gpud.tui.ask import LiveAsker
from gpud.tui.feed import Ended, FeedThread, Item, LiveSource, Lost, Post, Remark, Step
from gpud.tui.recording import Recorder, Recording
from tests.tui.rig import job_view, runtime_dir

PATIENCE_S = 60.0


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("GPUD_RUNTIME_DIR", str(runtime_dir(tmp_path / "run")))
    return load_config()


def steps(count: int = 3) -> Iterator[Feed]:
    return Script().steps(count)


def polls(thread: int | None) -> bool:
    """It is within poll or ppoll."""
    return Path(f"/proc/self/task/{thread}/syscall").read_text().split()[0] in ("7", "73", "271")


def test_steps_come_and_the_thread_ends_when_it_is_told_to(config: Config) -> None:
    posted: Queue[Item] = Queue()
    with ScriptedDaemon(config.runtime_dir, steps) as daemon:
        patient = lambda: Client(config, timeout=600)  # noqa: E731 (nothing but `stop` may end its wait)
        thread = FeedThread(LiveSource(patient, 250), posted.put)
        thread.start()
        got = [posted.get(timeout=PATIENCE_S) for _ in range(3)]
        assert got == [Step(feed) for feed in steps()]
        until(lambda: polls(thread.native_id), PATIENCE_S, "it waits for the next step")
        thread.stop()
        assert not thread.alive
    assert daemon.asked == [wire.AskFeed(interval_ms=250)]
    assert posted.empty()


def test_a_daemon_that_goes_away_is_told_and_the_next_one_found(config: Config) -> None:
    posted: Queue[Item] = Queue()
    thread = FeedThread(LiveSource(lambda: Client(config), 500), posted.put)
    with ScriptedDaemon(config.runtime_dir, lambda: steps(1)):
        thread.start()
        assert isinstance(posted.get(timeout=PATIENCE_S), Step)
    lost = posted.get(timeout=PATIENCE_S)
    assert isinstance(lost, Lost)
    assert "ended" in lost.text or "closed" in lost.text
    with ScriptedDaemon(config.runtime_dir, lambda: steps(2)):
        got = posted.get(timeout=PATIENCE_S)
        while isinstance(got, Lost):
            assert "no gpud daemon" in got.text or "closed" in got.text
            got = posted.get(timeout=PATIENCE_S)
        assert got == Step(next(steps(1)))
        thread.stop()
    assert not thread.alive


def test_what_comes_is_recorded(config: Config, tmp_path: Path) -> None:
    posted: Queue[Item] = Queue()
    path = tmp_path / "r"
    with ScriptedDaemon(config.runtime_dir, steps):
        thread = FeedThread(LiveSource(lambda: Client(config), 500, Recorder(path)), posted.put)
        thread.start()
        for _ in range(3):
            posted.get(timeout=PATIENCE_S)
        thread.stop()
    recording = Recording(path)
    assert list(recording.steps()) == list(steps())
    recording.close()


def test_a_full_disk_ends_the_recording_not_the_screen(config: Config) -> None:
    posted: Queue[Item] = Queue()
    recorder = _full_disk()
    with ScriptedDaemon(config.runtime_dir, steps):
        thread = FeedThread(LiveSource(lambda: Client(config), 500, recorder), posted.put)
        thread.start()
        got = [posted.get(timeout=PATIENCE_S) for _ in range(4)]
        thread.stop()
    remarks = [item for item in got if isinstance(item, Remark)]
    assert len(remarks) == 1
    assert "No space left" in remarks[0].text
    assert sum(isinstance(item, Step) for item in got) == 3


def _full_disk() -> Recorder:
    recorder = Recorder.__new__(Recorder)
    recorder.path = Path("/dev/full")
    recorder._file = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115 (the source closes it)
    return recorder


def test_a_question_has_a_connection_of_its_own(config: Config) -> None:
    def answers(ask: wire.Ask) -> wire.Answer | None:
        if isinstance(ask, wire.AskPause):
            return wire.DoneAnswer(job=job_view(ask.job), text=f"job {ask.job} is paused")
        if isinstance(ask, wire.AskSet):
            return wire.SetAnswer(job=job_view(ask.job))
        if isinstance(ask, wire.AskKill):
            return wire.ErrorAnswer(code="unknown", text=f"there is no job {ask.job}")
        return None

    asker = LiveAsker(lambda: Client(config))
    with ScriptedDaemon(config.runtime_dir, steps, answers) as daemon:
        assert asker.change(wire.AskPause(job=3)) == "job 3 is paused"
        assert "job 4" in asker.change(wire.AskSet(job=4, job_class="low"))
        with pytest.raises(UsageError, match="no job 5"):
            asker.change(wire.AskKill(job=5))
    assert [type(ask) for ask in daemon.asked] == [wire.AskPause, wire.AskSet, wire.AskKill]


def test_the_past_is_asked_for_twice_so_that_it_has_rates(config: Config) -> None:
    begin = next(steps(1)).at_ns

    def answers(ask: wire.Ask) -> wire.Answer | None:
        if not isinstance(ask, wire.AskPast):
            return None
        if ask.at_ns < begin:
            return wire.ErrorAnswer(code="unknown", text="the journal begins later")
        return wire.FeedAnswer(feed=Feed(number=1, at_ns=ask.at_ns, full=True, past=True))

    asker = LiveAsker(lambda: Client(config))
    with ScriptedDaemon(config.runtime_dir, steps, answers):
        assert [feed.at_ns - begin for feed in asker.past(begin + 9 * 10**9)] == [7 * 10**9, 9 * 10**9]
        assert [feed.at_ns - begin for feed in asker.past(begin + 10**9)] == [10**9]
        with pytest.raises(UsageError, match="begins later"):
            asker.past(begin - 1)


def test_stopping_ends_a_wait_between_tries(config: Config) -> None:
    posted: Queue[Item] = Queue()
    thread = FeedThread(LiveSource(lambda: Client(config), 500), posted.put)
    thread.start()
    assert isinstance(posted.get(timeout=PATIENCE_S), Lost)
    thread.stop()
    assert not thread.alive


def test_a_fault_of_the_thread_is_told() -> None:
    class Faulty:
        replayed = False

        def run(self, post: Post, stop: threading.Event) -> None:
            raise ValueError("a mistake")

        def close(self) -> None:
            pass

    posted: Queue[Item] = Queue()
    thread = FeedThread(Faulty(), posted.put)
    thread.start()
    told = posted.get(timeout=PATIENCE_S)
    thread.stop()
    assert isinstance(told, Ended)
    assert told.bad
    assert "a mistake" in told.text
