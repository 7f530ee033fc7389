from attrs import evolve

from gpud.engine.board import OPEN, Board
from gpud.engine.plan import LONGEST, MOST, plan, stack_text
from gpud.model.policy_views import DevicePlanView
from gpud.testing.boards import board_from_texts
from tests.engine.conftest import UUID

OTHER = bytes(range(16, 32))
BODY = """
  param limit = 4  # launches
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate preempt { order = [high, low]  resume_after = 1ms }
  let smooth = ewma(high.launch_rate, half_life = 200ms)
  low.max_inflight = limit
  when smooth > 100/s for 1s until smooth < 50/s because "busy" {
    low.max_inflight = 2
    when high.queued > 3 { low.pause = true }
  }
  else { low.max_inflight = 8 }
"""


def board(body: str = BODY, site: str = 'apply "p" to gpu *', **others: str) -> Board:
    texts = {"p": f'policy "p" {{{body}}}'} | {name: f'policy "{name}" {{{text}}}' for name, text in others.items()}
    files = {f"{name}.gpol": f"gpol 1\n{text}\n" for name, text in (texts | {"site": site}).items()}
    return board_from_texts(files)


def changes(before: Board, after: Board) -> list[str]:
    (view,) = plan(before, after, [(0, UUID, 0)])
    assert (view.devices, view.others) == ((0,), True)
    return [f"{change.sign} {change.line} {change.text}" for change in view.changes]


def changed(old: str, new: str) -> list[str]:
    assert old in BODY
    return changes(board(), board(BODY.replace(old, new)))


def test_nothing() -> None:
    assert plan(board(), board(), [(0, UUID, 0)]) == ()


def test_words_only() -> None:
    assert changed("# launches", "# of them")[0] in ("! 0 its words change, what it does stays",)


def test_values() -> None:
    assert changed("limit = 4", "limit = 5") == ["~ 3 limit = 4 → 5"]
    assert changed("resume_after = 1ms", "resume_after = 2ms") == ["~ 6 arbitrate resume_after = 1ms → 2ms"]
    assert changed('== "online"', '== "on"') == ['~ 4 class high = label("tier") == "online" → label("tier") == "on"']
    when = "when smooth > 100/s for 1s"
    assert changed("max_inflight = 2", "max_inflight = 1") == [f"~ 10 low.max_inflight in `{when}` = 2 → 1"]
    assert changed("max_inflight = 8", "max_inflight = 9") == [f"~ 13 low.max_inflight in `{when} … else` = 8 → 9"]
    whole = f'{when} until smooth < 50/s because "busy"'
    assert changed("100/s", "90/s") == [f"~ 9 {whole} → {whole.replace('100', '90')}"]
    assert changed('because "busy"', 'because "so"') == [f"~ 9 {whole} → {whole.replace('busy', 'so')}"]


def test_what_comes_and_goes() -> None:
    inner = "when high.queued > 3 { low.pause = true }"
    assert changed(inner, "") == [f"- 11 {inner}"]
    assert changes(board(BODY.replace(inner, "")), board()) == [f"+ 11 {inner}"]
    assert changed("  low.max_inflight = limit\n", "  low.pause = limit > 5\n") == [
        "+ 8 low.pause = limit > 5",
        "- 8 low.max_inflight = limit",
    ]


def test_a_rule_is_said_once_with_all_that_is_in_it() -> None:
    found = changed("when smooth > 100/s", "when high.queued > 100")
    assert [line[0] for line in found[:2]] == ["+", "-"]
    assert all("low.max_inflight = 2" in line for line in found[:2])
    assert [line for line in found[2:] if not line.startswith("!")] == []


def test_what_starts_anew_is_said_beforehand() -> None:
    found = changes(board(), board(BODY.replace("smooth", "even")))
    assert any(line.startswith("! 0 ") and "even" in line and "starts anew" in line for line in found)
    assert not any("starts anew" in line for line in changed("half_life = 200ms", "half_life = 300ms"))


def test_order_of_classes_counts() -> None:
    mid = '  class mid  { match label("tier") == "mid" }\n'
    before = BODY.replace("  class low", f"{mid}  class low").replace("[high, low]", "[high, mid, low]")
    after = before.replace(mid, "").replace("  class high", f"{mid}  class high")
    assert changes(board(before), board(after)) == ["~ 0 in another order"]


LIMITER = """
  class all { match any }
  all.max_inflight = 64
"""


def test_policies_come_and_go() -> None:
    with_limiter = board(site='apply "p"(limit = 6), "quotas" to gpu *', quotas=LIMITER)
    assert changes(board(), with_limiter) == ["~ 3 limit = 4 → 6", "+ 2 quotas"]
    assert changes(with_limiter, board()) == ["~ 3 limit = 6 → 4", "- 2 quotas"]
    (view,) = plan(board(), with_limiter, [])
    assert (view.before, view.after) == ("p", "p(limit = 6), quotas")
    (view,) = plan(board(), OPEN, [(0, UUID, 0)])
    assert (view.before, view.after, [change.sign for change in view.changes]) == ("p", "", ["-"])


def views(before: Board, after: Board) -> list[tuple[tuple[int, ...], bool, str, str]]:
    found: tuple[DevicePlanView, ...] = plan(before, after, [(0, UUID, 0), (1, OTHER, 1), (5, bytes(16), 2)])
    return [(view.devices, view.others, view.before, view.after) for view in found]


def test_devices_that_get_the_same_are_one_group() -> None:
    named = board(site='apply "p"(limit = 6) to gpu 1\napply "p" to gpu *')
    assert views(board(), named) == [((1,), False, "p", "p(limit = 6)")]
    both = board(site='apply "p"(limit = 6) to gpu 0..1\napply "p"(limit = 7) to gpu *')
    assert views(board(), both) == [((0, 1), False, "p", "p(limit = 6)"), ((5,), True, "p", "p(limit = 7)")]


def test_long_texts_are_cut() -> None:
    long = BODY.replace('== "online"', f'== "{"x" * 1000}"')
    (line,) = changes(board(), board(long))
    assert line.endswith("…")
    assert len(line) < 2 * LONGEST


def test_text_of_a_stack() -> None:
    assert stack_text(board(site='apply "p"(limit = 6) to gpu *').others) == "p(limit = 6)"
    assert stack_text(evolve(OPEN).others) == ""


def test_changes_are_bounded() -> None:
    rules = "".join(f"\n  when high.queued > {number + 1000} {{ low.pause = true }}" for number in range(150))
    found = changes(board(), board(BODY + rules))
    assert len(found) == MOST + 1
    assert found[-1] == "! 0 and 50 more"


def test_memory_that_is_out_when_swapping_ends_is_remarked() -> None:
    turns = "class job { match any } arbitrate exclusive { max_hold = 1s } "
    swaps, plain = board(turns + "swap { tiers = [host(max = 1GiB)] }"), board(turns)

    def remarks(before: Board, after: Board, out: dict[int, set[int]]) -> list[str]:
        views = plan(before, after, [(0, UUID, 0), (1, OTHER, 1)], out)
        return [change.text for view in views for change in view.changes if change.sign == "!"]

    assert remarks(swaps, plain, {0: {7}, 1: {7, 8}}) == [
        "memory is not swapped any more: 2 jobs have memory out of the device, and they wait until there is room for it"
    ]
    assert remarks(swaps, OPEN, {1: {7}}) == [
        "memory is not swapped any more: 1 job has memory out of the device, and it waits until there is room for it"
    ]
    assert remarks(swaps, plain, {}) == []
    assert remarks(plain, swaps, {0: {7}}) == []
    assert remarks(swaps, board(turns + "swap { tiers = [host(max = 2GiB)] }"), {0: {7}}) == []
