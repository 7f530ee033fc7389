"""The reloader with real files and the real engine; pages and sessions are fakes."""

import errno
import functools
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from attrs import frozen

from gpud.engine import loading, reload, trials
from gpud.engine.board import OPEN
from gpud.engine.history import History
from gpud.engine.reload import Reloader, open_reload
from gpud.engine.service import Engine, open_engine
from gpud.engine.state import State
from gpud.model import events as ev
from gpud.model.effects import StruckOut
from gpud.model.errors import SetupError, UsageError
from gpud.model.ids import uuid_text
from gpud.model.policy_views import ReloadView
from gpud.model.units import MILLISECOND, SECOND
from gpud.policies.placement import DeviceFacts
from tests.engine.conftest import GIB, UUID
from tests.engine.test_service import Outside
from tests.engine.test_watch import vim

OTHER = bytes(range(16, 32))
POLICY = """gpol 1
policy "p" {
  param quiet = QUIET
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate preempt { order = [high, low]  resume_after = quiet  max_pause = 2s }
}
"""
SITE = 'gpol 1\napply "p" to gpu *\n'
SHARE = """gpol 1
policy "s" {
  class all { match any  per = tenant  share = equal }
  arbitrate share { period = 20ms }
}
"""
LET = "  let smooth = ewma(high.launch_rate, half_life = 1s)"
NEVER = """gpol 1
test "never" {
  policy "p"
  from 0s to 100h expect smooth >= 0/s
}
"""
TEST = """gpol 1
test "low is held" {
  policy "p"
  at 0s high.active = true
  at EXPECT expect low.held
}
"""


def write(directory: Path, quiet: str = "1ms", **files: str) -> None:
    """A set; `tests__t` is tests/t.gpol."""
    texts = {"p": POLICY.replace("QUIET", quiet), "site": SITE} | files
    for name, text in texts.items():
        path = directory / f"{name.replace('__', '/')}.gpol"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@frozen
class Daemon:
    """What there is of one."""

    reloader: Reloader
    engine: Engine
    policies: Path

    @property
    def quiet_ns(self) -> int | None:
        """What the running set says; None: no policy runs."""
        (device,) = self.engine.state.devices.values()
        stack = self.engine.state.runs[device.slot].stack
        return stack[0].arbiter.resume_after_ns if stack and stack[0].arbiter else None

    async def until(self, condition: Callable[[], object]) -> None:
        with trio.fail_after(60):
            while not condition():  # noqa: ASYNC110 - what it looks at is the daemon's
                await trio.sleep(0.01)

    async def runs(self, quiet_ms: int) -> None:
        await self.until(lambda: self.quiet_ns == quiet_ms * MILLISECOND)

    def strike_out(self) -> None:
        generation = self.engine.state.board_generation
        self.reloader.struck_out(StruckOut(policy="p", text="it is slow", generation=generation))


def new_reloader(tmp_path: Path, applied: str | None = None, probation_s: float = 1000) -> Reloader:
    return Reloader(tmp_path / "policies", applied, History(tmp_path / "state"), {}, probation_s=probation_s)


async def _blind(
    directory: Path, changed: object, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """In place of `watch`: whoever asks for a reload is not overtaken by the files."""
    task_status.started()
    await trio.sleep_forever()


@asynccontextmanager
async def daemon(
    tmp_path: Path, applied: str | None = None, probation_s: float = 1000, *, watching: bool = False
) -> AsyncIterator[Daemon]:
    reloader = new_reloader(tmp_path, applied, probation_s)
    await reloader.start([DeviceFacts(0, uuid_text(UUID))])
    outside = Outside()
    send, receive = trio.open_memory_channel[ev.Event](100)
    state = State(board=reloader.board, lease_ns=3 * SECOND)
    with pytest.MonkeyPatch.context() as patched:
        if not watching:
            patched.setattr(reload, "watch", _blind)
        async with _opened(reloader, state, outside, send, receive) as engine:
            engine.handle(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
            yield Daemon(reloader, engine, tmp_path / "policies")


@asynccontextmanager
async def _opened(
    reloader: Reloader,
    state: State,
    outside: Outside,
    send: "trio.MemorySendChannel[ev.Event]",
    receive: "trio.MemoryReceiveChannel[ev.Event]",
) -> AsyncIterator[Engine]:
    async with (
        send,
        open_engine(state, outside, outside, outside, receive, boot="b", policies=reloader) as engine,
        open_reload(reloader, engine),
    ):
        yield engine


RUN_TRIALS = trials.run_trials


@pytest.fixture(autouse=True)
def patient_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of policies may take as long as the machine needs."""
    monkeypatch.setattr(trials, "run_trials", functools.partial(RUN_TRIALS, deadline_s=60))


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    directory = tmp_path / "policies"
    write(directory)
    return directory


# --------------------------------------------------------------------------------------------------------------- start


async def test_start(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path) as d:
        assert d.quiet_ns == MILLISECOND
        view = d.reloader.view()
        assert (view.number, view.how, view.differs, view.rejected) == (1, "start", "", None)
        assert 999 * SECOND < view.probation_ns <= 1000 * SECOND
    async with daemon(tmp_path) as d:  # a restart is no change
        assert [entry.number for entry in d.reloader.history()] == [1]


async def test_applied_takes_the_place_of_the_site_file(tmp_path: Path, policies: Path) -> None:
    write(policies, site='gpol 1\napply "no such policy" to gpu *\n')
    async with daemon(tmp_path, "p(quiet = 9ms)") as d:
        assert d.quiet_ns == 9 * MILLISECOND
        with_flag = d.reloader.view().digest
    write(policies)
    async with daemon(tmp_path) as d:
        assert d.reloader.view().digest != with_flag


@pytest.mark.parametrize("applied", ["p(quiet = 9)", "q", "p(", ""])
async def test_applied_nonsense_is_named_whatever_ran_before(tmp_path: Path, policies: Path, applied: str) -> None:
    async with daemon(tmp_path):
        pass
    with pytest.raises(SetupError, match=r"--policy"):
        await new_reloader(tmp_path, applied).start([])


async def test_a_bad_set_at_boot_and_the_last_good_one(
    tmp_path: Path, policies: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with daemon(tmp_path) as d:
        good = d.reloader.view().digest
    write(policies, "1 ms")
    async with daemon(tmp_path) as d:
        assert d.quiet_ns == MILLISECOND
        view = d.reloader.view()
        assert view.digest == good
        assert (view.number, view.how) == (1, "last good")
        assert "does not run" in view.differs
        assert view.rejected is not None
        assert (view.rejected.count, view.rejected.summary[:7]) == (1, "1 error")
        assert "p.gpol:3:" in view.rejected.text
        assert "p.gpol:3:" in caplog.text
        write(policies, "4ms")
        await d.reloader.reload("files")
        assert d.quiet_ns == 4 * MILLISECOND
        assert d.reloader.view().rejected is None
        assert d.reloader.view().differs == ""


async def test_a_bad_set_at_boot_and_no_good_one(tmp_path: Path, policies: Path) -> None:
    write(policies, "1 ms", q="gpol 2\n")
    with pytest.raises(SetupError) as caught:
        await new_reloader(tmp_path).start([])
    assert "p.gpol:3:" in str(caught.value)
    assert "q.gpol:1:" in str(caught.value)
    assert f"gpud policy check {policies}" in str(caught.value)


def make(policies: Path, what: str) -> None:
    if what == "empty":
        policies.mkdir()
    elif what == "a file":
        policies.write_text("gpol 1\n")
    elif what == "only tests":
        (policies / "tests").mkdir(parents=True)
        (policies / "tests" / "t.gpol").write_text("gpol 1\n")


@pytest.mark.parametrize("what", ["absent", "empty", "a file", "only tests"])
async def test_no_policies_at_all(tmp_path: Path, policies: Path, what: str) -> None:
    shutil.rmtree(policies)
    make(policies, what)
    with pytest.raises(SetupError) as caught:
        await new_reloader(tmp_path).start([])
    assert str(policies) in str(caught.value)


async def test_a_single_file_does_as_well(tmp_path: Path) -> None:
    file = tmp_path / "policies"
    site = SITE.removeprefix("gpol 1\n")
    file.write_text(POLICY.replace("QUIET", "1ms") + site)
    async with daemon(tmp_path, watching=True) as d:
        assert list(d.reloader.running.files) == ["policies"] if d.reloader.running else False
        vim(file, POLICY.replace("QUIET", "2ms") + site)
        await d.runs(2)


async def test_policies_that_nothing_applies(tmp_path: Path, policies: Path) -> None:
    (policies / "site.gpol").unlink()
    with pytest.raises(SetupError, match=r'apply "p" to gpu \*'):
        await new_reloader(tmp_path).start([])


async def test_what_is_not_enforced_is_refused_only_where_it_is_applied(tmp_path: Path, policies: Path) -> None:
    turns = SHARE.replace("share { period = 20ms }", "exclusive { max_hold = 30s }").replace("share = equal", "")
    tiers = 'tiers = [host(max = 2GiB), disk(path = "/x", max = 9GiB)]'
    turns = turns.replace("arbitrate", f"swap {{ {tiers} }}  arbitrate")
    write(policies, s=turns)
    async with daemon(tmp_path) as d:
        assert d.quiet_ns == MILLISECOND
        write(policies, s=turns, site='gpol 1\napply "s" to gpu *\n')
        view = await d.reloader.reload("asked")
        assert view.rejected is not None
        assert "GP404" in view.rejected.text
        assert "`disk(…)`" in view.rejected.text


async def test_turns_do_not_begin_on_a_device_that_is_used_through_mps(tmp_path: Path, policies: Path) -> None:
    turns = 'gpol 1\npolicy "t" {\n  class job { match any }\n  arbitrate exclusive { max_hold = 30s }\n}\n'
    used = functools.partial(ev.Seen, total_bytes=GIB, used_bytes=0, mps=True)
    write(policies, t=turns)
    async with daemon(tmp_path) as d:

        async def look() -> None:
            d.engine.handle(ev.DriverTold(devices={UUID: used(mps_clients=listed)}))

        d.reloader.look, listed = look, True
        write(policies, t=turns, site='gpol 1\napply "t" to gpu *\n')
        view = await d.reloader.reload("asked")
        assert view.rejected is not None
        assert "GP315" in view.rejected.text
        assert "t.gpol:4:3" in view.rejected.text
        assert "takes turns on device 0" in view.rejected.text
        assert d.quiet_ns == MILLISECOND
        listed = False  # a process of the server's name is not the driver's word
        assert (await d.reloader.reload("asked")).result == "loaded"
        listed = True
        write(policies, t=turns.replace("30s", "31s"), site='gpol 1\napply "t" to gpu *\n')
        assert (await d.reloader.reload("asked")).result == "loaded", "there are turns already"
    async with daemon(tmp_path) as d:
        assert d.quiet_ns == 0, "nor does a restart take them away"


async def test_a_start_whose_directory_hangs_takes_the_last_good_set(
    tmp_path: Path, policies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path) as d:
        assert d.quiet_ns == MILLISECOND
    monkeypatch.setattr(reload, "PATIENCE_S", 0.5)
    monkeypatch.setattr(loading, "read", lambda *_: time.sleep(1))
    async with daemon(tmp_path) as d:
        assert d.quiet_ns == MILLISECOND
        view = d.reloader.view()
        assert view.differs == "what is in the directory does not run: reading them took longer than 0.5 s"
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(SetupError, match="reading them took longer"):
        await new_reloader(tmp_path).start([])


async def test_a_kept_set_that_was_edited_is_none_that_ran(
    tmp_path: Path, policies: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with daemon(tmp_path) as d:
        write(policies, "2ms")
        await d.reloader.reload("asked")
    newest = max((tmp_path / "state" / "sets").iterdir())
    newest.write_text(newest.read_text().replace("2ms", "9ms"))
    write(policies, "bad")
    async with daemon(tmp_path) as d:
        assert d.quiet_ns == MILLISECOND
        assert "was changed since it ran" in caplog.text
        view = await d.reloader.rollback(2)
        assert view.result == "rejected"
        assert d.quiet_ns == MILLISECOND


async def test_a_directory_whose_name_is_no_text(tmp_path: Path, policies: Path) -> None:
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    os.rename(policies, directory)
    reloader = Reloader(directory, None, History(tmp_path / "state"), {})
    await reloader.start([])
    kept = History(tmp_path / "state")
    kept.open()
    assert [(one.directory, list(one.files)) for one in kept.entries] == [
        (f"{tmp_path}/\ufffd", ["p.gpol", "site.gpol"])
    ]


# -------------------------------------------------------------------------------------------------------------- reload


async def test_a_save_is_loaded(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path, watching=True) as d:
        write(policies, "5ms")
        await d.runs(5)
        await d.until(lambda: d.reloader.view().number == 2)
        view = d.reloader.view()
        assert (view.how, view.differs) == ("files", "")
        assert [entry.running for entry in d.reloader.history()] == [True, False]


async def test_a_half_written_set_is_rejected_at_most(tmp_path: Path, policies: Path) -> None:
    """A file in two steps, with a pause longer than the debounce in between."""
    whole = POLICY.replace("QUIET", "6ms")
    async with daemon(tmp_path, watching=True) as d:
        (policies / "p.gpol").write_text(whole[:100])
        await d.until(lambda: d.reloader.view().rejected is not None)
        assert d.quiet_ns == MILLISECOND
        (policies / "p.gpol").write_text(whole)
        await d.runs(6)
        assert d.reloader.view().rejected is None


async def test_a_burst_of_saves(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path, watching=True) as d:
        for number in range(2, 52):
            write(policies, f"{number}ms")
        await d.runs(51)
        await d.until(lambda: d.reloader.view().how == "files")
        assert len(d.reloader.history()) <= 3  # not one for each save


async def test_two_reloads_at_once(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path, watching=True) as d:
        views: list[ReloadView] = []

        async def ask() -> None:
            views.append(await d.reloader.reload("asked"))

        write(policies, "7ms")
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
        assert d.quiet_ns == 7 * MILLISECOND
        assert {view.result for view in views} <= {"loaded", "unchanged"}
        assert len({id(view) for view in views}) <= 2  # the first one's, and one for all that came meanwhile


async def test_many_who_ask_at_once_share_one_slow_reload(
    tmp_path: Path, policies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the last of fifty would wait a hundred seconds for tests that fail each time."""
    runs: list[str] = []
    goes_on = trio.Event()

    async def slow(files: dict[str, str], tests: object, directory: object) -> trials.Trials:
        runs.append(files["p.gpol"])
        await goes_on.wait()
        return trials.Trials(passed=0, failed=("no",), not_run=0)

    monkeypatch.setattr(trials, "run_trials", slow)
    async with daemon(tmp_path) as d:
        views: list[ReloadView] = []

        async def ask(how: str) -> None:
            views.append(await d.reloader.reload(how))

        write(policies, "2ms")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "asked")
            await d.until(lambda: runs)
            write(policies, "3ms")  # what the first one does not see
            for _ in range(50):
                nursery.start_soon(ask, "asked")
            nursery.start_soon(ask, "hangup")
            await trio.testing.wait_all_tasks_blocked()
            goes_on.set()
        assert [text.count("3ms") for text in runs] in ([0, 1, 1], [0, 1])
        assert [view.result for view in views] == ["rejected"] * 52
        assert len({id(view) for view in views}) == 3


async def test_who_gives_up_waiting_takes_nobody_along(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path) as d:
        write(policies, "2ms")
        views: list[ReloadView] = []

        async def ask() -> None:
            views.append(await d.reloader.reload("asked"))

        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                scope.cancel()
                await d.reloader.reload("asked")
            nursery.start_soon(ask)
        assert [view.result for view in views] == ["loaded"]


async def test_the_same_files_again_are_no_change(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path) as d:
        write(policies)
        (policies / ".p.gpol.swp").write_text("x")
        (policies / "p.gpol~").write_text("x")
        assert (await d.reloader.reload("asked")).result == "unchanged"
        write(policies, "bad")
        assert (await d.reloader.reload("asked")).result == "rejected"
        write(policies)
        assert (await d.reloader.reload("files")).result == "unchanged"
        assert d.reloader.view().rejected is None  # mended


async def test_a_rejected_set_is_not_looked_at_again_unasked(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path) as d:
        write(policies, "bad")
        assert (await d.reloader.reload("files")).result == "rejected"
        assert (await d.reloader.reload("files")).result == "unchanged"
        asked = await d.reloader.reload("asked")
        assert asked.result == "rejected"
        assert asked.rejected is not None
        assert asked.rejected.count == 2


async def test_a_file_that_cannot_be_read(tmp_path: Path, policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal is made up."""
    open_file = os.open

    def refuse(path: object, *rest: object, **more: object) -> int:
        if str(path).endswith("p.gpol"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return open_file(path, *rest, **more)  # type: ignore[arg-type]

    async with daemon(tmp_path) as d:
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", refuse)
            view = await d.reloader.reload("files")
        assert view.rejected is not None
        assert "permission denied" in view.rejected.text
        assert d.quiet_ns == MILLISECOND
        assert (await d.reloader.reload("files")).result == "unchanged"  # it can be read again
        assert d.reloader.view().rejected is None


async def test_an_unreadable_file_beside_the_running_set_is_told(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path) as d:
        (policies / "more.gpol").symlink_to("nowhere")
        view = await d.reloader.reload("asked")
        assert view.rejected is not None
        assert "more.gpol" in view.rejected.text


async def test_a_huge_file(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path) as d:
        with (policies / "huge.gpol").open("wb") as file:
            file.truncate(1 << 40)  # sparse
        view = await d.reloader.reload("asked")
        assert view.rejected is not None
        assert "GP108" in view.rejected.text
        assert d.quiet_ns == MILLISECOND


async def test_a_directory_that_goes_and_comes_back(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path, watching=True) as d:
        shutil.rmtree(policies)
        await d.until(lambda: d.reloader.view().rejected is not None)
        assert d.quiet_ns == MILLISECOND
        write(policies, "8ms")
        await d.runs(8)
        assert d.reloader.view().rejected is None


async def test_a_check_that_hangs_is_given_up(tmp_path: Path, policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon(tmp_path) as d:
        monkeypatch.setattr(reload, "PATIENCE_S", 0.5)
        monkeypatch.setattr(loading, "load", lambda *_: time.sleep(1))
        write(policies, "2ms")
        view = await d.reloader.reload("asked")
        assert view.rejected is not None
        assert view.rejected.summary == "checking them took longer than 0.5 s"
        assert d.quiet_ns == MILLISECOND


async def test_an_error_of_ours_rejects_and_nothing_else(
    tmp_path: Path, policies: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("no")

    async with daemon(tmp_path) as d:
        with monkeypatch.context() as patched:
            patched.setattr(loading, "load", fail)
            write(policies, "2ms")
            view = await d.reloader.reload("asked")
        assert view.rejected is not None
        assert "ZeroDivisionError: no" in view.rejected.summary
        assert "Traceback" in caplog.text
        write(policies, "3ms")
        assert (await d.reloader.reload("files")).result == "loaded"


async def test_what_the_engine_cannot_run_is_taken_back(
    tmp_path: Path, policies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path) as d:
        handle, failed = d.engine.handle, []

        def fail_once(event: ev.Event) -> None:
            handle(event)
            if isinstance(event, ev.BoardChanged) and not failed:
                failed.append(event)
                raise ZeroDivisionError("after half of it")

        monkeypatch.setattr(d.engine, "handle", fail_once)
        write(policies, "2ms")
        view = await d.reloader.reload("asked")
        assert view.rejected is not None
        assert "ZeroDivisionError" in view.rejected.summary
        assert d.quiet_ns == MILLISECOND
        assert d.reloader.view().number == 1


async def test_a_device_that_comes_gets_what_is_written_for_it(
    tmp_path: Path, policies: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(policies, site='gpol 1\napply "p" to gpu *\napply "p"(quiet = 9ms) to gpu 1, 7\n')
    async with daemon(tmp_path) as d:
        caplog.clear()
        d.engine.handle(ev.DevicesFound(devices=((UUID, "A100", GIB), (OTHER, "A100", GIB))))
        await d.until(lambda: "GPU 7 is not present" in caplog.text)
        slots = {device.uuid: slot for slot, device in d.engine.state.devices.items()}
        (applied,) = d.engine.state.runs[slots[OTHER]].stack
        assert applied.arbiter is not None
        assert applied.arbiter.resume_after_ns == 9 * MILLISECOND


# --------------------------------------------------------------------------------------------------------------- tests


async def test_a_failing_test_rejects(tmp_path: Path, policies: Path) -> None:
    write(policies, tests__t=TEST.replace("EXPECT", "1ms"))
    async with daemon(tmp_path) as d:
        write(policies, "2ms", tests__t=TEST.replace("EXPECT", "1ms"))
        view = await d.reloader.reload("asked")
        assert (view.result, view.tests) == ("loaded", "1 passed")
        write(policies, "3ms", tests__t=TEST.replace("EXPECT", "1ms").replace("true", "false"))
        view = await d.reloader.reload("asked")
        assert view.rejected is not None
        assert view.rejected.summary == "tests: 0 passed, 1 failed"
        assert "tests/t.gpol:5:" in view.rejected.text
        assert d.quiet_ns == 2 * MILLISECOND


async def test_only_tests_of_what_changed_run(tmp_path: Path, policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    async def note(files: object, tests: object, directory: object) -> trials.Trials:
        asked.append(tests)
        return trials.Trials(passed=0, failed=(), not_run=0)

    monkeypatch.setattr(trials, "run_trials", note)
    other = POLICY.replace('"p"', '"q"').replace("QUIET", "1ms")
    tests = {"tests__p": TEST, "tests__q": TEST.replace('"p"', '"q"').replace("low is", "low is not")}
    tests = {name: text.replace("EXPECT", "1ms") for name, text in tests.items()}
    write(policies, q=other, **tests)
    async with daemon(tmp_path) as d:
        write(policies, "2ms", q=other, **tests)
        await d.reloader.reload("asked")
        write(policies, "2ms", q=other.replace("1ms", "4ms"), **tests)
        await d.reloader.reload("asked")
        write(policies, "2ms", q="# words\n" + other.replace("1ms", "4ms"), **tests)
        await d.reloader.reload("asked")
        write(policies, "2ms", q=other, **tests | {"tests__p": TEST.replace("EXPECT", "2ms")})
        await d.reloader.reload("asked")
    assert asked == [(0,), (1,), (), (0, 1)]


async def test_hundreds_of_failing_tests_leave_answers_short(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path) as d:
        one = TEST.removeprefix("gpol 1").replace("true", "false").replace("EXPECT", "1ms")
        texts = [one.replace("low is held", f"{number}: {'so ' * 50}") for number in range(300)]
        write(policies, "2ms", tests__t="gpol 1\n" + "".join(texts))
        view = await d.reloader.reload("asked")
        assert view.rejected is not None
        assert "failed" in view.rejected.summary
        assert view.rejected.text.count("error[GP702]") <= 20
        assert " more\n" in view.rejected.text
        assert len(view.rejected.text) <= 100_010


async def test_what_a_function_of_a_plugin_prints_is_no_result(
    tmp_path: Path, policies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site directory whose start file prints at the first look at plugins; and leaves a process behind."""
    (tmp_path / "more").mkdir()
    noise = """
import os, subprocess, sys
from gpud.policies.simulate import runner
run = runner.run_test
def noisy(*a, **k):
    print("not JSON", flush=True)
    os.write(1, b"nor this\\n")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    open(os.environ["LEFT"], "w").write(str(child.pid))
    return run(*a, **k)
runner.run_test = noisy
"""
    (tmp_path / "more" / "sitecustomize.py").write_text(
        "import os\nif os.environ.get('LEFT') and not os.path.exists(os.environ['LEFT']):\n"
        "    open(os.environ['LEFT'], 'w').close()\n" + "\n".join("    " + line for line in noise.splitlines()) + "\n"
    )
    monkeypatch.setenv("LEFT", str(tmp_path / "left"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "more"))
    files = {"p.gpol": POLICY.replace("QUIET", "1ms"), "t.gpol": TEST.replace("EXPECT", "1ms")}
    came = await RUN_TRIALS(files, [0], tmp_path, 30)
    assert (came.passed, came.failed, came.not_run) == (1, (), 0)
    left = int((tmp_path / "left").read_text())
    with trio.fail_after(60):
        while _runs(left):  # noqa: ASYNC110 - another process
            await trio.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_tests_beside_a_single_file_run(tmp_path: Path) -> None:
    file = tmp_path / "p.gpol"
    file.write_text("")
    files = {"p.gpol": POLICY.replace("QUIET", "1ms"), "t.gpol": TEST.replace("EXPECT", "1ms")}
    assert (await RUN_TRIALS(files, [0], file, 30)).passed == 1


async def test_tests_that_never_end_reject_nothing(
    tmp_path: Path, policies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "run_trials", RUN_TRIALS)
    async with daemon(tmp_path) as d:
        policy = POLICY.replace("QUIET", "2ms").replace("  arbitrate", f"{LET}\n  arbitrate")
        write(policies, p=policy, tests__t=NEVER)
        began = trio.current_time()
        view = await d.reloader.reload("asked")
        assert (view.result, view.tests) == ("loaded", "0 passed, 1 not run within 2 s")
        assert trio.current_time() - began < trials.DEADLINE_S + 60
        assert d.quiet_ns == 2 * MILLISECOND


# ------------------------------------------------------------------------------------------------ probation, rollback


async def test_probation(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path, probation_s=0.3) as d:
        await d.until(lambda: d.reloader.history()[0].proved)
        assert d.reloader.view().probation_ns == 0
        write(policies, "2ms")
        await d.reloader.reload("asked")
        assert not d.reloader.history()[0].proved
        await d.until(lambda: d.reloader.history()[0].proved)
    async with daemon(tmp_path) as d:
        assert d.reloader.view().probation_ns == 0


async def test_struck_out_goes_back_by_itself(tmp_path: Path, policies: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with daemon(tmp_path) as d:
        write(policies, "2ms")
        await d.reloader.reload("asked")
        d.strike_out()
        await d.runs(1)
        await d.until(lambda: d.reloader.view().number == 3)
        view = d.reloader.view()
        assert view.how == "struck out"
        assert "was given up: policy p: it is slow" in view.differs
        assert "it is slow" in caplog.text
        assert [(e.running, e.failed) for e in d.reloader.history()][1] == (False, "policy p: it is slow")
        (policies / "p.gpol").touch()  # a stray event brings it back as little as a restart does
        assert (await d.reloader.reload("files")).result == "unchanged"
        assert d.quiet_ns == MILLISECOND
    async with daemon(tmp_path) as d:
        assert d.quiet_ns == MILLISECOND
        assert "it is slow" in d.reloader.view().differs
        assert (await d.reloader.reload("asked")).result == "loaded"  # the operator may try it once more
        assert d.quiet_ns == 2 * MILLISECOND


async def test_struck_out_with_nothing_to_go_back_to_opens_the_gates(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path) as d:
        d.strike_out()
        await d.until(lambda: d.engine.state.board is OPEN)
        assert d.quiet_ns is None
        view = d.reloader.view()
        assert (view.number, view.digest) == (0, "")
        d.strike_out()  # of nothing: ignored
        write(policies, "3ms")
        await d.reloader.reload("files")
        assert d.quiet_ns == 3 * MILLISECOND
        assert d.reloader.view().number == 2


async def test_a_restart_is_another_chance_where_there_is_nothing_else(
    tmp_path: Path, policies: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with daemon(tmp_path) as d:
        d.strike_out()
        await d.until(lambda: d.engine.state.board is OPEN)
    async with daemon(tmp_path) as d:
        assert d.quiet_ns == MILLISECOND
        assert "was given up before (policy p: it is slow); there is no other" in caplog.text


async def test_struck_out_too_late_is_ignored(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path) as d:
        old = d.engine.state.board_generation
        write(policies, "2ms")
        await d.reloader.reload("asked")
        d.reloader.struck_out(StruckOut(policy="p", text="of before", generation=old))
        write(policies, "3ms")
        await d.reloader.reload("asked")  # comes after it
        assert d.quiet_ns == 3 * MILLISECOND
        assert not any(entry.failed for entry in d.reloader.history())


async def test_rollback(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path) as d:
        for quiet in ("2ms", "3ms"):
            write(policies, quiet)
            await d.reloader.reload("asked")
        view = await d.reloader.rollback(None)
        assert (view.result, d.quiet_ns) == ("loaded", 2 * MILLISECOND)
        (plan,) = view.plan
        assert [(change.sign, change.text) for change in plan.changes] == [("~", "quiet = 3ms → 2ms")]
        assert "rolled back" in d.reloader.view().differs
        assert (await d.reloader.reload("files")).result == "unchanged"
        await d.reloader.rollback(1)
        assert d.quiet_ns == MILLISECOND
        for number, says in ((5, "runs already"), (77, "there is no set number 77")):
            with pytest.raises(UsageError, match=says):
                await d.reloader.rollback(number)
        assert [entry.number for entry in d.reloader.history()] == [5, 4, 3, 2, 1]
    async with daemon(tmp_path) as d:  # a restart does not undo it
        assert d.quiet_ns == MILLISECOND
        assert (await d.reloader.reload("asked")).result == "loaded"
        assert d.quiet_ns == 3 * MILLISECOND


async def test_rollback_with_nothing_to_go_back_to(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path) as d:
        with pytest.raises(UsageError, match=r"no earlier good set"):
            await d.reloader.rollback(None)


async def test_diff_changes_nothing(tmp_path: Path, policies: Path) -> None:
    async with daemon(tmp_path) as d:
        assert (await d.reloader.diff())[1] == ()
        write(policies, "2ms")
        _, (plan,) = await d.reloader.diff()
        assert (plan.devices, plan.others, plan.before, plan.after) == ((0,), True, "p", "p")
        assert plan.changes[0].text == "quiet = 1ms → 2ms"
        assert d.quiet_ns == MILLISECOND
        write(policies, "bad")
        with pytest.raises(loading.Rejected):
            await d.reloader.diff()
        assert d.reloader.view().rejected is None


async def test_a_disk_that_is_full_costs_the_history_only(
    tmp_path: Path, policies: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    async with daemon(tmp_path) as d:
        write(policies, "2ms")
        assert (await d.reloader.reload("asked")).result == "loaded"
        assert d.quiet_ns == 2 * MILLISECOND
        assert (await d.reloader.rollback(None)).result == "loaded"  # from memory
        assert d.quiet_ns == MILLISECOND
    assert [record.levelno for record in caplog.records if "history" in record.message] == [logging.WARNING]
