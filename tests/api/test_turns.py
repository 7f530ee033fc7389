"""`gpud.acquire` and what belongs to it, above a stand-in for the hook's two functions."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import gpud
from gpud.api import callbacks, errors, native, turns


class FakeHook:
    """One lock per device, as the hook keeps it: `busy` devices belong to somebody else until `free()`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[tuple[int, ...]] = []
        self.released: list[tuple[int, ...]] = []
        self.answer = errors.OK
        self.asked = threading.Event()
        self.may = threading.Event()
        self.may.set()
        self.timeouts: list[int] = []
        self.reasons: list[bytes] = []
        monkeypatch.setattr(native, "acquire", self.acquire)
        monkeypatch.setattr(native, "release", self.release)
        monkeypatch.setattr(native, "current", lambda: 2)
        monkeypatch.setattr(native, "has_hook", lambda: True)

    def acquire(self, devices: tuple[int, ...], timeout_ns: int, reason: bytes) -> int:
        self.timeouts.append(timeout_ns)
        self.reasons.append(reason)
        self.asked.set()
        assert self.may.wait(20)
        if self.answer >= 0:
            self.taken.append(devices)
        return self.answer

    def release(self, devices: tuple[int, ...]) -> int:
        if len(self.released) == len(self.taken):
            return errors.NOT_HELD
        self.released.append(devices)
        return errors.OK


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> FakeHook:
    return FakeHook(monkeypatch)


def test_a_block_is_one_turn_on_the_device_that_was_current(hook: FakeHook) -> None:
    with gpud.acquire() as turn:
        assert turn.locked
        assert hook.taken == [(2,)]
        assert not hook.released
    assert hook.released == [(2,)]


def test_an_exception_in_the_block_releases(hook: FakeHook) -> None:
    with pytest.raises(KeyError), gpud.acquire(1):
        raise KeyError
    assert hook.released == [(1,)]


def test_a_turn_is_released_once(hook: FakeHook) -> None:
    turn = gpud.acquire(0)
    turn.release()
    with pytest.raises(gpud.NotHeld, match="device 0 is not held"):
        turn.release()
    assert hook.released == [(0,)]


def test_a_turn_released_inside_its_block_is_not_released_again(hook: FakeHook) -> None:
    with gpud.acquire(0) as turn:
        turn.release()
    assert hook.released == [(0,)]


def test_release_without_acquire_says_so(hook: FakeHook) -> None:
    with pytest.raises(gpud.NotHeld):
        gpud.release(0)


def test_several_devices_are_one_request_in_order(hook: FakeHook) -> None:
    with gpud.acquire([3, 1, 3]):
        assert hook.taken == [(1, 3)]


def test_where_nobody_takes_turns_nothing_is_released(hook: FakeHook) -> None:
    hook.answer = errors.UNLOCKED
    with gpud.acquire() as turn:
        assert not turn.locked
    assert hook.released == []


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (errors.TIMEOUT, gpud.TurnTimeout, "device 0 did not become free in time"),
        (errors.NO_DAEMON, gpud.NoDaemon, "gpud serve"),
        (errors.NO_HOOK, gpud.NoHook, "gpud run"),
        (errors.NO_DEVICE, gpud.TurnError, "CUDA_VISIBLE_DEVICES"),
        (errors.REFUSED, gpud.TurnError, "gpud why"),
        (-77, gpud.TurnError, "another version"),
    ],
)
def test_each_code_is_an_error_that_says_what_to_do(hook: FakeHook, code: int, kind: type, text: str) -> None:
    hook.answer = code
    with pytest.raises(kind, match=text):
        gpud.acquire(0)


def test_of_several_devices_the_error_names_the_one_that_does_not_exist(hook: FakeHook) -> None:
    hook.answer = errors.NO_DEVICE
    with pytest.raises(gpud.TurnError, match=r"^device 7 does not exist"):
        gpud.acquire([7, 0])


def test_a_driver_that_does_not_start_may_be_that_of_a_forked_child(hook: FakeHook) -> None:
    hook.answer = errors.SYSTEM
    with pytest.raises(gpud.TurnError, match="CUDA does not survive the fork"):
        gpud.acquire(0)


def test_a_timeout_is_an_error_that_everybody_knows(hook: FakeHook) -> None:
    hook.answer = errors.TIMEOUT
    with pytest.raises(TimeoutError):
        gpud.acquire(0, timeout=0)


@pytest.mark.parametrize(("timeout", "ns"), [(None, 2**64 - 1), (0, 0), (0.5, 500_000_000), (float("inf"), 10**18)])
def test_timeouts_are_seconds(hook: FakeHook, timeout: float | None, ns: int) -> None:
    gpud.acquire(0, timeout=timeout)
    assert hook.timeouts == [ns]


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_that_is_none_is_refused(hook: FakeHook, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        gpud.acquire(0, timeout=timeout)
    assert hook.taken == []


@pytest.mark.parametrize("device", [-1, [], [0, -2], True, "0", [1.5], 2**31, 2**32, [0, 2**32]])
def test_a_device_that_is_none_is_refused(hook: FakeHook, device: object) -> None:
    with pytest.raises(ValueError, match="device"):
        gpud.acquire(device)  # type: ignore[arg-type]
    assert hook.taken == []


def test_the_greatest_ordinal_reaches_the_hook_as_it_is(hook: FakeHook) -> None:
    gpud.acquire(2**31 - 1)
    assert hook.taken == [(2**31 - 1,)]


def test_gpud_aio_can_be_imported() -> None:
    code = "import sys, gpud; assert 'gpud.aio' not in sys.modules; import gpud.aio as it; assert it is gpud.aio"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_reason_reaches_the_hook_by_every_way(hook: FakeHook) -> None:
    with gpud.acquire(0, reason="validation of Größe"):
        pass

    @gpud.on_gpu(0, reason="step")
    def step() -> None: ...

    @gpud.aio.on_gpu(0, reason="async step")
    async def async_step() -> None: ...

    step()
    asyncio.run(async_step())
    gpud.acquire(0).release()
    assert hook.reasons == ["validation of Größe".encode(), b"step", b"async step", b""]


@pytest.mark.parametrize(("reason", "sent"), [("a\0b", b"a b"), ("\udc80", b"?"), ("x" * 100_000, b"x" * 100_000)])
def test_a_reason_may_be_any_text(hook: FakeHook, reason: str, sent: bytes) -> None:
    gpud.acquire(0, reason=reason)
    assert hook.reasons == [sent]


@pytest.mark.parametrize("reason", [None, 7, b"bytes"])
def test_a_reason_that_is_no_text_is_refused(hook: FakeHook, reason: object) -> None:
    with pytest.raises(TypeError, match="reason"):
        gpud.acquire(0, reason=reason)  # type: ignore[arg-type]
    assert hook.taken == []


def test_the_decorator_takes_a_turn_for_each_call(hook: FakeHook) -> None:
    @gpud.on_gpu(0)
    def work(x: int) -> int:
        assert len(hook.taken) == len(hook.released) + 1
        return x + 1

    assert [work(1), work(2)] == [2, 3]
    assert hook.taken == hook.released == [(0,), (0,)]
    assert work.__name__ == "work"


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Neither preloaded nor in the package."""
    monkeypatch.setenv("GPUD_NATIVE_DIR", str(tmp_path))
    for cached in (native._library, native._function):
        cached.cache_clear()
    yield
    for cached in (native._library, native._function):
        cached.cache_clear()


@pytest.mark.usefixtures("no_library")
def test_without_any_library_the_error_says_how_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUD_OPTIONAL", raising=False)
    assert not native.has_hook()
    with pytest.raises(gpud.NoHook, match=r"No such file or directory.*gpud run"):
        gpud.acquire()


@pytest.mark.usefixtures("no_library")
def test_without_any_library_it_may_be_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUD_OPTIONAL", "1")
    with gpud.acquire() as turn:
        assert not turn.locked


def test_without_a_hook_it_warns_once(hook: FakeHook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "has_hook", lambda: False)
    monkeypatch.setattr(turns, "_warned", False)
    with pytest.warns(gpud.NoHookWarning, match="nothing holds what it launches") as warned:
        [gpud.acquire(0).release() for _ in range(2)]
    assert [Path(one.filename).name for one in warned] == [Path(__file__).name]


def test_a_warning_that_is_an_error_leaves_no_turn(hook: FakeHook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "has_hook", lambda: False)
    monkeypatch.setattr(turns, "_warned", False)
    with pytest.raises(gpud.NoHookWarning):
        gpud.acquire(0)
    assert hook.taken == hook.released == [(0,)]


async def _coroutine() -> None:
    pass


@pytest.mark.parametrize(
    ("swap", "kind"),
    [
        ({"on_swap_out": 3}, TypeError),
        ({"on_swap_out": _coroutine}, TypeError),
        ({"on_swap_out": print, "on_swap_in": "x"}, TypeError),
        ({"on_swap_in": print}, ValueError),
    ],
)
def test_callbacks_that_are_none_are_refused(hook: FakeHook, swap: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind, match="on_swap_"):
        gpud.acquire(0, **swap)
    assert hook.taken == []


def test_under_the_hook_callbacks_are_not_called(hook: FakeHook) -> None:
    called: list[str] = []
    gpud.acquire(0, on_swap_out=lambda: called.append("out"), on_swap_in=lambda: called.append("in")).release()
    assert not called
    assert not any(thread.name == "gpud swap" for thread in threading.enumerate())


def test_a_callback_takes_no_turn(hook: FakeHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for its own end."""
    monkeypatch.setattr(native, "has_hook", lambda: False)
    monkeypatch.setattr(native, "swaps", lambda *, out: None)
    monkeypatch.setattr(native, "swap_wait", lambda: False)
    mover = callbacks.Mover()
    raised: list[object] = []

    def out() -> None:
        with pytest.raises(gpud.TurnError, match="on_swap_out takes no turn") as error:
            gpud.acquire(0)
        raised.append(error)

    monkeypatch.setattr(callbacks, "mover", mover)
    mover.use(out, None)
    assert mover._move_out() == native.MOVED
    assert raised
    assert not hook.taken
    monkeypatch.setattr(turns, "_warned", True)
    gpud.acquire(0).release()


def test_under_asyncio(hook: FakeHook) -> None:
    async def main() -> None:
        async with gpud.aio.acquire(0) as turn:
            assert turn.locked
            assert not hook.released
        (await gpud.aio.acquire(1)).release()

    asyncio.run(main())
    assert hook.taken == hook.released == [(0,), (1,)]


def test_under_trio(hook: FakeHook) -> None:
    async def main() -> None:
        async with gpud.aio.acquire(0):
            assert not hook.released

    trio.run(main)
    assert hook.taken == hook.released == [(0,)]


def test_an_error_reaches_who_awaits(hook: FakeHook) -> None:
    hook.answer = errors.NO_DAEMON

    async def main() -> None:
        async with gpud.aio.acquire(0):
            raise AssertionError

    with pytest.raises(gpud.NoDaemon):
        asyncio.run(main())
    with pytest.raises(gpud.NoDaemon):
        trio.run(main)


def test_async_decorator(hook: FakeHook) -> None:
    @gpud.aio.on_gpu(0)
    async def work() -> int:
        assert not hook.released
        return 7

    assert asyncio.run(work()) == 7
    assert hook.released == [(0,)]


def test_a_cancelled_wait_gives_its_turn_back(hook: FakeHook) -> None:
    """Under both loops the turn that comes late belongs to nobody."""
    back = threading.Event()
    release = hook.release

    def released(devices: tuple[int, ...]) -> int:
        answer = release(devices)
        back.set()
        return answer

    native.release = released  # the fixture's monkeypatch takes it back

    async def under_asyncio() -> None:
        task = asyncio.create_task(gpud.aio.acquire(0).__aenter__())
        await asyncio.to_thread(hook.asked.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def under_trio() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gpud.aio.acquire(0).__aenter__)
            await trio.to_thread.run_sync(hook.asked.wait, 20)
            nursery.cancel_scope.cancel()

    for run in (lambda: asyncio.run(under_asyncio()), lambda: trio.run(under_trio)):
        hook.asked.clear()
        back.clear()
        hook.may.clear()
        run()
        assert hook.taken == hook.released
        hook.may.set()
        assert back.wait(20)
        assert hook.taken == hook.released


def test_import_is_light() -> None:
    """No third-party module, and nothing at all before the first use."""
    code = (
        "import sys; before = set(sys.modules); import gpud; new = set(sys.modules) - before; "
        "assert new == {'gpud'}, new; gpud.acquire; "
        "third = {n for n in sys.modules if n.split('.')[0] in {'attr', 'attrs', 'trio', 'msgspec', 'click'}}; "
        "assert not third, third"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_is_offered_is_what_the_module_lists() -> None:
    assert set(gpud.__all__) <= set(dir(gpud))
    for name in gpud.__all__:
        assert getattr(gpud, name) is not None
    with pytest.raises(AttributeError, match="acqiure"):
        gpud.acqiure  # noqa: B018
    assert turns.acquire is gpud.acquire
