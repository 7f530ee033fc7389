"""Whether the engine's loop lives: what the word to the service manager's watchdog hangs on."""

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.engine.test_service import Outside, asks, running


async def test_an_idle_loop_comes_round_when_it_is_asked(autojump_clock: MockClock) -> None:
    """It waits for events alone, without any timer; nothing else happens by it."""
    async with running(Outside()) as (engine, _):
        await wait_all_tasks_blocked()
        began, ticks = trio.current_time(), engine.ticks
        for _ in range(3):
            await engine.go_round()
        assert trio.current_time() == began
        assert engine.ticks == ticks


async def test_everybody_who_asks_at_once_hears(autojump_clock: MockClock) -> None:
    async with running(Outside()) as (engine, _), trio.open_nursery() as nursery:
        await wait_all_tasks_blocked()
        for _ in range(3):
            nursery.start_soon(engine.go_round)


async def test_a_question_loses_no_event(autojump_clock: MockClock) -> None:
    outside = Outside()
    async with running(outside) as (engine, send):
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            for number in range(1, 21):
                nursery.start_soon(send.send, asks(number, 100 + number))
                nursery.start_soon(engine.go_round)
        await wait_all_tasks_blocked()
        assert len(engine.state.clients) == 20


async def test_a_loop_that_hangs_never_comes_round(autojump_clock: MockClock) -> None:
    """While it does something else nobody hears from it; once it goes on, they do."""
    async with running(Outside()) as (engine, send):
        await wait_all_tasks_blocked()
        engine._asleep = None  # as while it carries something out
        with trio.move_on_after(3600) as waited:
            await engine.go_round()
        assert waited.cancelled_caught
        await send.send(asks(1, 101))  # whatever wakes it lets the question be heard
        with trio.fail_after(1):
            await engine._round.wait()
