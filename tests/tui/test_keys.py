"""What keys do, driven as by a person."""

import threading

import pytest
from attrs import evolve
from textual.pilot import Pilot

from gpud.control import wire
from gpud.model.live_views import Feed
from gpud.testing.scripted_feed import BEGIN_NS, Script, node_row
from gpud.tui.feed import Step
from gpud.tui.look import DARK, LIGHT, NONE
from tests.tui.rig import STEPS, FakeAsker, Rig, drive, full, job, press, rig, settle

S = 10**9


def cursor_row(made: Rig) -> str:
    (line,) = [line for line in made.app.page.paper.lines if line.over == "cursor"]
    return "".join(span.text for span in line.spans)


def test_the_cursor_moves_and_stops_at_the_ends() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        assert made.app.view.cursor == 1
        await press(pilot, "down", "down")
        assert made.app.view.cursor == 3
        assert "batch" in cursor_row(made)
        await press(pilot, "end")
        assert made.app.view.cursor == 8
        await press(pilot, "down", "home", "up")
        assert made.app.view.cursor == 1

    drive(made, steps)


def test_a_sort_moves_the_rows_and_not_what_the_cursor_is_on() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "down", "down")
        before = [row.job for row in made.app.page.place.rows]
        while made.app.view.sort.key != "mem":
            await press(pilot, "greater_than_sign")
        assert [row.job for row in made.app.page.place.rows] == [6, 5, 4, 3, 2, 1, 8, 7]
        assert before == list(range(1, 9))
        assert made.app.view.cursor == 3
        await press(pilot, "r")
        assert [row.job for row in made.app.page.place.rows] == [7, 1, 8, 2, 3, 4, 5, 6]
        assert "batch" in cursor_row(made)

    drive(made, steps)


def test_a_key_meets_the_job_it_was_pressed_on_though_the_rows_move_under_it() -> None:
    """Each step turns the order round; whoever is confirmed and asked for is the one the cursor was on."""
    made = rig([full(job(1, used_bytes=10), job(2, used_bytes=20), job(3, used_bytes=30))])

    async def steps(pilot: Pilot[int]) -> None:
        made.app.view.sort = made.app.view.sort.by("mem")
        made.app.redraw()
        await press(pilot, "home", "down")
        assert made.app.view.cursor == 2
        turned = (job(1, used_bytes=90), job(2, used_bytes=5), job(3, used_bytes=50))
        made.inbox.post(Step(Feed(number=2, at_ns=BEGIN_NS + S, full=False, jobs=turned)))
        await pilot.press("e")
        await settle(pilot)
        assert "#2 serve  of bob  pid 4010, 4011" in made.dialog
        made.inbox.post(Step(Feed(number=3, at_ns=BEGIN_NS + 2 * S, full=False, jobs=(job(2, used_bytes=70),))))
        await press(pilot, "y")
        assert made.asker.changed == [wire.AskEvict(job=2)]

    drive(made, steps)


def test_the_filter_works_as_one_types_and_says_where_it_is_wrong() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("slash", *"state:wait")
        await settle(pilot)
        assert [row.job for row in made.app.page.place.rows] == [2, 3, 4, 5]
        await pilot.press("space", *"colour:x")
        await settle(pilot)
        assert made.app.told.hint_bad
        hint = made.app.page.paper.lines[-1].spans[0].text
        assert hint.index("^") == 1 + len("state:wait ")
        assert "^^^^^^ nothing is called 'colour'" in hint
        await press(pilot, *["backspace"] * len(" colour:x"), "enter")
        assert "filter state:wait" in made.text
        assert made.app.view.cursor == 2
        await press(pilot, "slash", "x", "escape")
        assert made.app.view.filter.text == "state:wait"
        await press(pilot, "escape")
        assert made.app.view.filter.text == ""
        assert len(made.app.page.place.rows) == 8

    drive(made, steps)


def test_a_job_that_leaves_the_filter_stays_under_the_cursor() -> None:
    made = rig([full(job(1), job(2, state="held"), job(3, state="held"))])

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("slash", *"state:held", "enter")
        await settle(pilot)
        assert made.app.view.cursor == 2
        made.inbox.post(Step(Feed(number=2, at_ns=BEGIN_NS + S, full=False, jobs=(job(2, state="active"),))))
        await settle(pilot)
        assert [row.job for row in made.app.page.place.rows] == [2, 3]
        await press(pilot, "e")
        assert "#2 serve" in made.dialog
        await press(pilot, "n", "down")
        assert [row.job for row in made.app.page.place.rows] == [3]

    drive(made, steps)


def test_pause_and_resume_ask_first_and_tell_what_was_done() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "p", "n")
        assert made.asker.changed == []
        await press(pilot, "p", "y")
        assert made.asker.changed == [wire.AskPause(job=1)]
        assert "job 1: done" in made.text
        await press(pilot, "down", "down", "down", "p", "y")
        assert made.asker.changed[1:] == [wire.AskResume(job=4)]
        await press(pilot, "up")
        assert "done" not in made.text

    drive(made, steps)


def test_the_kill_of_a_job_that_ended_a_moment_ago_shows_the_error() -> None:
    asker = FakeAsker(errors={2: "there is no job 2: it has ended"})
    made = rig(asker=asker)

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "down", "k", "down", "down", "down", "enter")
        assert "Send KILL to job #2?" in made.dialog
        assert "#2 train  of carol  pid 4020" in made.dialog
        made.inbox.post(Step(Feed(number=STEPS + 1, at_ns=BEGIN_NS + 30 * S, full=False, gone=(2,))))
        await press(pilot, "y")
        assert asker.changed == [wire.AskKill(job=2, signal="KILL", pids=(4020,))]
        assert "there is no job 2: it has ended" in made.text
        assert made.app.told.remark_bad

    drive(made, steps)


def test_a_question_says_user_and_pid_whatever_the_name() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        named = job(1, name="n" * 253, user="carol")
        made.inbox.post(Step(full(named, number=STEPS + 1, at_ns=BEGIN_NS + 30 * S)))
        await press(pilot, "p")
        assert "of carol" in made.dialog
        assert f"pid {named.processes[0].pid}" in made.dialog

    drive(made, steps, size=(80, 24))


def test_there_is_no_yes_to_what_cannot_be_read() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.resize_terminal(20, 5)
        await press(pilot, "p", "y")
        assert made.asker.changed == []
        await pilot.resize_terminal(80, 24)
        await press(pilot, "y")
        assert made.asker.changed == [wire.AskPause(job=1)]

    drive(made, steps)


def test_a_job_that_ended_under_the_cursor_keeps_its_place_until_one_moves_on() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "down")
        made.inbox.post(Step(Feed(number=STEPS + 1, at_ns=BEGIN_NS + 3600 * S, full=False, gone=(2,))))
        await settle(pilot)
        assert "ended" in cursor_row(made)
        assert "train" in cursor_row(made)
        await press(pilot, "down")
        made.inbox.post(Step(Feed(number=STEPS + 2, at_ns=BEGIN_NS + 3606 * S, full=False)))
        await settle(pilot)
        assert "ended" not in made.text
        assert 2 not in [row.job for row in made.app.page.place.rows]

    drive(made, steps)


def test_tagged_jobs_are_acted_on_together_and_each_failure_is_told() -> None:
    made = rig(asker=FakeAsker(errors={2: "job 2 is bob's"}))

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "space", "space", "end")
        assert made.app.view.tags == {1, 2}
        assert "2 tagged" in made.text
        await press(pilot, "e")
        assert "Take the device from 2 jobs?" in made.dialog
        assert "#1 serve" in made.dialog
        assert "#2 train" in made.dialog
        await press(pilot, "y")
        assert made.asker.changed == [wire.AskEvict(job=1), wire.AskEvict(job=2)]
        assert "job 2 is bob's" in made.text
        await press(pilot, "u", "space")
        assert made.app.view.tags == {8}

    drive(made, steps)


def test_a_change_is_typed_checked_and_confirmed() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "down", "s")
        assert "#2 train  of carol  pid 4020" in made.dialog
        assert "now: class=training  mem=no limit  compute=no limit" in made.dialog
        await pilot.press(*"class=low mem=lots", "enter")
        await settle(pilot)
        assert "mem: 'lots' is not an amount of memory" in made.dialog
        await pilot.press(*["backspace"] * 4, *"4GiB", "enter")
        await settle(pilot)
        assert "class = low, mem = 4GiB" in made.dialog
        await press(pilot, "y")
        assert made.asker.changed == [wire.AskSet(job=2, job_class="low", memory_bytes=4 * 2**30)]

    drive(made, steps)


def test_keys_typed_at_once_reach_the_line_and_the_dialog() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("slash", *"user:dave", "enter", "s", *"mem=1GiB", "enter", "y")
        await settle(pilot)
        assert made.app.view.filter.text == "user:dave"
        assert made.asker.changed == [wire.AskSet(job=3, memory_bytes=2**30)]

    drive(made, steps)


@pytest.mark.parametrize("key", ["p", "e", "k", "s"])
def test_readonly_changes_nothing(key: str) -> None:
    made = rig(fixed="--readonly")

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, key)
        assert len(made.app.screen_stack) == 1
        assert "nothing can be changed: --readonly" in made.text
        assert "kill" not in made.text
        assert "read-only" in made.text

    drive(made, steps)


def test_who_may_change_nothing_is_told_why() -> None:
    node = evolve(node_row(), readonly="you are not in the group gpud")
    made = rig([evolve(full(job(1)), node=node)])

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "p")
        assert "nothing can be changed: you are not in the group gpud" in made.text

    drive(made, steps)


def test_the_tree_shows_the_processes() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "t")
        assert "├─ pid 4010" in made.text
        assert "└─ pid 4011" in made.text
        assert "python serve.py --rank 1" in made.text
        await press(pilot, "down")
        assert made.app.view.cursor == 2
        await press(pilot, "t")
        assert "└─" not in made.text

    drive(made, steps)


def test_the_detail_pane_comes_and_goes() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        assert "job #1" not in made.text
        await press(pilot, "enter")
        assert "─ job #1 serve" in made.text
        assert "python serve.py --config conf/serve.yaml" in made.text
        await press(pilot, "down")
        assert "─ job #2 train" in made.text
        assert "preempt-mix.gpol:9" in made.text
        await press(pilot, "enter")
        assert "job #2" not in made.text

    drive(made, steps, size=(100, 30))


def test_the_class_panel_comes_and_goes() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        assert "p95" not in made.text
        await press(pilot, "c")
        assert "of 70%" in made.text
        assert "p95" in made.text
        await press(pilot, "c")
        assert "p95" not in made.text

    drive(made, steps, size=(80, 24))


def test_why_is_asked_for_the_job_under_the_cursor() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "down", "w")
        assert "why #2" in made.dialog
        await press(pilot, "escape")
        assert len(made.app.screen_stack) == 1

    drive(made, steps)


def test_the_trace_is_shown_and_copied() -> None:
    made = rig([full(job(1, trace="ab" * 16), job(2, trace=""))])

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "x")
        assert "ab" * 16 in made.text
        assert made.app.clipboard == "ab" * 16
        await press(pilot, "down", "x")
        assert "job #2 has no trace" in made.text

    drive(made, steps)


def test_a_frozen_screen_stands_still_and_loses_nothing() -> None:
    feeds = list(Script().steps(STEPS))
    made = rig(feeds[:20])

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "f")
        assert "FROZEN" in made.text
        before = made.text
        for feed in feeds[20:]:
            made.inbox.post(Step(feed))
        await settle(pilot)
        assert made.text == before
        await press(pilot, "down")
        assert made.app.view.cursor == 2
        await press(pilot, "f")
        assert "FROZEN" not in made.text
        assert made.app.view.model.number == STEPS

    drive(made, steps)


def test_back_in_time_and_to_now() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "left_square_bracket", "left_square_bracket")
        assert " PAST  2026-09-21 14:13:37" in made.text
        assert made.app.view.model.gpu(made.app.view.model.jobs[1]) is not None
        await press(pilot, "p")
        assert "this is the past" in made.text
        assert made.asker.changed == []
        await press(pilot, "right_square_bracket")
        assert " PAST  2026-09-21 14:13:38" in made.text
        await press(pilot, "left_curly_bracket")
        assert "the journal does not go back so far" in made.text
        assert " PAST  2026-09-21 14:13:38" in made.text
        await press(pilot, "escape")
        assert "PAST" not in made.text
        await press(pilot, "left_square_bracket", "right_curly_bracket")
        assert "PAST" not in made.text
        assert made.app.view.model is made.app.live

    drive(made, steps)


def test_an_answer_that_comes_late_does_not_replace_a_later_one() -> None:
    now_ns = BEGIN_NS + (STEPS - 1) * S // 2
    late = threading.Event()
    made = rig(asker=FakeAsker(gates={now_ns - S: late}))

    async def shown(pilot: Pilot[int], at_ns: int) -> None:
        while made.app.view.model.at_ns != at_ns:
            await pilot.pause(0.01)

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("left_square_bracket", "left_square_bracket")
        await shown(pilot, now_ns - 2 * S)
        late.set()
        await settle(pilot)
        assert made.app.view.model.at_ns == now_ns - 2 * S
        assert sorted(now_ns - at_ns for at_ns in made.asker.asked_past) == [S, 2 * S]

    drive(made, steps)


def test_one_device_after_the_other() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "g")
        assert made.app.view.focus == 0
        assert [row.job for row in made.app.page.place.rows] == [1, 2, 5, 6]
        await press(pilot, "g")
        assert [row.job for row in made.app.page.place.rows] == [3, 4, 7, 8]
        assert made.app.view.cursor == 3
        await press(pilot, "g")
        assert made.app.view.focus is None
        assert len(made.app.page.place.rows) == 8

    drive(made, steps)


def test_looks_change_for_all_that_is_shown() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        assert made.app.page.paper.look is DARK
        await press(pilot, "T")
        assert made.app.page.paper.look is LIGHT
        await press(pilot, "T", "2")
        assert made.app.page.paper.look is NONE
        await press(pilot, "T", "1")
        assert made.app.page.paper.look is DARK

    drive(made, steps)


def test_help_names_every_key_of_the_tab() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await press(pilot, "question_mark")
        for word in ("signal", "tag the job", "state:wait", "WHY", "journal"):
            assert word in made.dialog, word
        await press(pilot, "escape", "2", "question_mark")
        assert "the cursor, in time" in made.dialog
        assert "signal" not in made.dialog

    drive(made, steps, size=(120, 90))


def test_any_column_can_be_sorted_by_shown_or_not() -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        assert "HOST" not in made.text
        await press(pilot, "o", *["down"] * 10)
        assert "▸ HOST" in made.dialog
        await press(pilot, "enter")
        assert (made.app.view.sort.key, made.app.view.sort.down) == ("host", True)
        assert made.app.page.place.rows[0].job == 5

    drive(made, steps, size=(80, 24))


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_quit_ends_with_zero(key: str) -> None:
    made = rig()

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press(key)

    drive(made, steps)
    assert made.app.return_value == 0
