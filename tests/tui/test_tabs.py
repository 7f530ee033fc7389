"""The other tabs, what goes wrong, the mouse, and terminals of odd sizes."""

from itertools import pairwise

import pytest
from attrs import evolve
from textual import events
from textual.pilot import Pilot

from gpud.model.live_views import Feed
from gpud.testing.scripted_feed import BEGIN_NS, Script, node_row
from gpud.tui.feed import Ended, Lost, Remark, Step
from tests.tui.rig import STEPS, FakeAsker, Rig, device, drive, full, job, press, rig, settle

S = 10**9


def test_the_timeline_tells_who_had_a_device_and_which_decision_made_it_so() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "2")
        assert "#5 etl had its turn" in made.text
        assert "and still does" in made.text
        await press(pilot, *["left"] * 9)
        assert "device 0 at 14:13:35.000" in made.text
        assert "#2 train had its turn from 14:13:34.962 for 3.0s" in made.text
        (under,) = [line for line in made.app.page.paper.lines if line.over == "cursor"]
        assert "grant" in "".join(span.text for span in under.spans)
        await press(pilot, "down", "down")
        assert "device 1 at 14:13:35.000" in made.text
        assert "#4 sweep had its turn" in made.text
        await press(pilot, "end")
        assert "device 1 at 14:13:39.500" in made.text

    drive(made, steps)


def test_the_timeline_is_zoomed_and_moved_beyond_its_edge() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "2", "minus")
        assert "1.0s a cell" in made.text
        await press(pilot, "plus", "plus")
        assert "200ms a cell" in made.text
        before = made.text
        await press(pilot, *["pageup"] * 9)
        assert "now" not in made.text.splitlines()[6]
        assert made.text != before
        await press(pilot, *["pagedown"] * 12)
        assert made.app.page.window.end_ns is None

    drive(made, steps)


def test_the_policy_tab_shows_the_caret_of_what_was_refused() -> None:
    made = rig([evolve(full(job(1)), node=node_row(rejected=True))])

    async def steps(pilot: Pilot[int]) -> None:
        assert "policies: the last change was refused" in made.text
        await press(pilot, "3")
        lines = made.text.splitlines()
        at = next(y for y, line in enumerate(lines) if "^^^^ did you mean" in line)
        column = lines[at].index("^^^^")
        assert lines[at - 1][column : column + 4] == "quit"
        assert "2" in made.text
        assert "preempt-mix(quiet = 5ms)" in made.text

    drive(made, steps)


def test_dry_run_history_reload_and_rollback() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "3", "d")
        assert "what a reload would do now (nothing is changed)" in made.text
        assert "~ preempt-mix:9  quiet = 5ms → 2ms" in made.text
        await press(pilot, "d", "h")
        assert "what a reload" not in made.text
        assert "a tick took 40 ms" in made.text
        await press(pilot, "l")
        assert "Read the policies again?" in made.dialog
        assert "/etc/gpud/policies" in made.dialog
        await press(pilot, "n")
        assert made.asker.reloaded == 0
        await press(pilot, "l", "y")
        assert made.asker.reloaded == 1
        assert "loaded: set 5 runs on 2 devices" in made.text
        await press(pilot, "b", "y")
        assert "there is no earlier set" in made.text

    drive(made, steps)


def test_the_journal_follows_and_is_searched() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "4")
        last = made.app.live.decisions[-1]
        assert last.text in made.text.splitlines()[-2]
        await pilot.press("slash", *"overrun", "enter")
        await settle(pilot)
        body = [line for line in made.text.splitlines()[3:-1] if line.strip()]
        assert len(body) == 2
        assert all("overrun" in line for line in body)
        await press(pilot, "slash", "escape")
        await press(pilot, "home")
        top = made.text.splitlines()[3]
        for feed in list(Script().steps(STEPS + 10))[STEPS:]:
            made.inbox.post(Step(feed))
        await settle(pilot)
        assert made.text.splitlines()[3] == top
        await press(pilot, "end")
        assert made.app.page.first is None

    drive(made, steps, size=(100, 20))


def test_a_daemon_that_goes_away_is_told_and_so_is_its_return() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        made.inbox.post(Lost("the daemon at /run/gpud/control.sock ended before it answered"))
        await settle(pilot)
        assert "NO DAEMON" in made.text
        assert "trying again; this was at 14:13:39" in made.text
        assert "train" in made.text
        again = evolve(full(job(9, name="reborn"), at_ns=BEGIN_NS + 60 * S), node=evolve(node_row(), pid=999))
        made.inbox.post(Step(again))
        await settle(pilot)
        assert "NO DAEMON" not in made.text
        assert "reborn" in made.text

    drive(made, steps, size=(160, 40))


@pytest.mark.parametrize("width", [40, 80, 160])
def test_in_the_past_too_one_is_told_that_the_daemon_is_gone(width: int) -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "left_square_bracket")
        made.inbox.post(Lost("no gpud daemon listens at /run/x"))
        await settle(pilot)
        told = made.text.splitlines()[2]
        assert told.startswith(" PAST  2026-09-21 14:13:38  NO DAEMON")
        assert ("trying again" in told) is (width > 40)
        assert ("Esc back to now" in told) is (width > 80)
        made.inbox.post(Step(full(job(9, name="reborn"), at_ns=BEGIN_NS + 60 * S)))
        made.inbox.post(Ended("it is over", bad=False))
        await settle(pilot)
        assert made.text.splitlines()[2].startswith(" PAST  2026-09-21 14:13:38  it is over")
        await press(pilot, "escape")
        assert made.text.splitlines()[2].rstrip() == " it is over"

    drive(made, steps, size=(width, 24))


def test_before_the_first_answer_it_says_so() -> None:
    made = rig([Lost("no gpud daemon listens at /run/x")])

    async def steps(pilot: Pilot[int]) -> None:
        assert "no daemon has answered yet" in made.text
        assert "NO DAEMON  trying again   no gpud daemon listens at /run/x" in made.text
        for key in "234":
            await press(pilot, key)
        await press(pilot, "1", "p", "w", "x", "t", "space", "left_square_bracket", "g", "down", "enter")

    drive(made, steps, size=(100, 24))


def test_the_end_of_a_recording_and_remarks_are_told() -> None:
    made = rig([full(job(1)), Ended("the recording was cut off", bad=True), Remark("the disk is full")])

    async def steps(pilot: Pilot[int]) -> None:
        assert "the recording was cut off" in made.text
        assert "the disk is full" in made.text

    drive(made, steps)


def test_a_clock_that_is_set_back_while_it_runs() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        for feed in list(Script().steps(STEPS + 10))[STEPS:]:
            made.inbox.post(Step(evolve(feed, at_ns=feed.at_ns - 7200 * S, decisions=())))
        for key in "1234":
            await press(pilot, key)
            assert "12:13:44" in made.text

    drive(made, steps)


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (39, 30), (80, 9)])
def test_a_tiny_terminal_says_so_and_recovers(size: tuple[int, int]) -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.resize_terminal(*size)
        for key in ("2", "3", "4", "1"):
            await press(pilot, key)
            assert "too small"[: size[0] - 1] in made.text
        await press(
            pilot, "down", "p", "escape", "question_mark", "escape", "k", "escape", "s", "escape", "slash", "escape"
        )
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        assert "STATE" in made.text

    drive(made, steps, size=(80, 24))


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (133, 37), (200, 60), (300, 20)])
def test_no_line_is_longer_than_the_terminal(size: tuple[int, int]) -> None:
    from gpud.tui.text import width_of, width_of_spans

    name = "日本語🚀" * 60 + "\x1b[31m\x07\n"
    hostile = job(1, name=name, command="x " * 2048, user="\u202euser", labels=(("a\tb", "c" * 500),), trace="\x00" * 9)
    made = rig([evolve(full(hostile, job(2)), decisions=tuple(Script().decisions(6)))])

    async def steps(pilot: Pilot[int]) -> None:
        for key in ("1", "2", "3", "4"):
            await press(pilot, key)
            lines = made.app.page.paper.lines
            assert len(lines) == size[1]
            assert max(width_of_spans(line.spans) for line in lines) <= size[0]
            assert all(span.text.isprintable() for line in lines for span in line.spans)
        await press(pilot, "1", "t", "enter", "k")
        assert "\x1b" not in made.dialog
        assert len({width_of(line) for line in made.dialog.splitlines()}) == 1  # its frame is whole

    drive(made, steps, size=size)


async def click(pilot: Pilot[int], x: int, y: int) -> None:
    await pilot.click(offset=(x, y))
    await settle(pilot)


def place_of(made: Rig, text: str) -> tuple[int, int]:
    lines = made.text.splitlines()
    return next((line.index(text), y) for y, line in enumerate(lines) if text in line)


def test_the_mouse_chooses_sorts_and_changes_tabs() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        x, y = place_of(made, "batch")
        await click(pilot, x, y)
        assert made.app.view.cursor == 3
        x, y = place_of(made, " MEM")
        await click(pilot, x + 2, y)
        assert (made.app.view.sort.key, made.app.view.sort.down) == ("mem", True)
        await click(pilot, x + 2, y)
        assert made.app.view.sort.down is False
        assert made.app.view.cursor == 3
        for name, tab in (("Timeline", 1), ("Policy", 2), ("Journal", 3), ("Jobs", 0)):
            await click(pilot, *place_of(made, name))
            assert made.app.page.tab == tab

    drive(made, steps)


def test_the_wheel_moves_what_is_long() -> None:
    made = rig()

    def wheel(down: bool) -> events.Event:
        kind = events.MouseScrollDown if down else events.MouseScrollUp
        return kind(None, 5, 12, 0, 0, 0, False, False, False)

    async def steps(pilot: Pilot[int]) -> None:
        made.app.post_message(wheel(down=True))
        await settle(pilot)
        assert made.app.view.cursor == 4
        made.app.post_message(wheel(down=False))
        await settle(pilot)
        assert made.app.view.cursor == 1
        await press(pilot, "2")
        made.app.post_message(wheel(down=True))
        await settle(pilot)
        assert "1.0s a cell" in made.text
        await press(pilot, "4")
        before = made.text.splitlines()[3]
        made.app.post_message(wheel(down=False))
        await settle(pilot)
        assert made.text.splitlines()[6] == before
        await press(pilot, "question_mark")
        made.app.post_message(wheel(down=True))
        await settle(pilot)
        assert "↑↓" in made.dialog

    drive(made, steps, size=(100, 16))


def test_the_mouse_answers_dialogs() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        from gpud.tui.widgets.paper import Paper

        await press(pilot, "p")
        box = made.app.screen.query_one(Paper).region
        await click(pilot, box.x + 11, box.bottom - 2)
        assert made.asker.changed == []
        assert len(made.app.screen_stack) == 1
        await press(pilot, "p")
        await click(pilot, box.x + 2, box.bottom - 2)
        assert len(made.asker.changed) == 1
        await press(pilot, "k")
        box = made.app.screen.query_one(Paper).region
        await click(pilot, box.x + 4, box.y + 2 + 3)
        assert "Send KILL" in made.dialog

    drive(made, steps)


def test_the_mouse_moves_the_cursor_of_the_timeline() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "2")
        await click(pilot, 100, 5)
        assert made.app.page.window.row == 1
        assert made.app.page.window.cursor == 19
        assert made.text.splitlines()[5][100] == "┃"

    drive(made, steps)


def test_only_changed_cells_are_drawn_again() -> None:
    made = rig([full(job(1), job(2))])

    async def steps(pilot: Pilot[int]) -> None:
        before = made.app.page.paper.redrawn
        made.app.redraw()
        assert made.app.page.paper.redrawn == before
        made.inbox.post(Step(Feed(number=2, at_ns=BEGIN_NS + 1000, full=False, jobs=(job(2, state="idle"),))))
        await settle(pilot)
        regions = made.app.page.paper.redrawn - before
        assert 1 <= regions <= 6  # its state, what the top line counts; neither the other job nor the heads

    drive(made, steps)


def test_a_reload_that_is_rejected_is_told_as_bad() -> None:
    made = rig(asker=FakeAsker(rejects=True))

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "3", "l", "y")
        assert "rejected: 1 error in 1 file" in made.text
        assert made.app.told.remark_bad

    drive(made, steps)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_sentence_is_told_in_full_at_every_width_and_scrolled_line_by_line(width: int) -> None:
    sentence = "gave device 0 back, three milliseconds after it was asked, and nobody waits"
    one = next(Script().decisions(0))
    told = [
        evolve(one, number=number, at_ns=BEGIN_NS - 1, device=0, job=1, text=f"{sentence} ({number})")
        for number in range(1, 30)
    ]
    made = rig([evolve(full(job(1), devices=(device(0),)), decisions=tuple(told))])

    def shown() -> str:
        return " ".join(" ".join(line[14:] for line in made.text.splitlines()[3:-1]).split())

    async def steps(pilot: Pilot[int]) -> None:
        for key in "24":
            await press(pilot, key)
            assert f"{sentence} (29)" in shown(), key
        lines = [made.text.splitlines()[3:-1]]
        for _ in range(6):
            await press(pilot, "up")
            lines.append(made.text.splitlines()[3:-1])
        assert all(after[1:] == before[:-1] for before, after in pairwise(lines)), "one line, not a decision, at a time"
        await press(pilot, "home")
        assert f"{sentence} (1)" in shown()

    drive(made, steps, size=(width, 24))
