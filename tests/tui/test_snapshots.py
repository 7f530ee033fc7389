"""Every screen at three sizes, and the first one in every look. `--snapshot-update` after a change that is meant; look
at what changed."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from textual.pilot import Pilot

from gpud.testing.scripted_feed import Script, node_row
from gpud.tui.draw.view import View
from gpud.tui.feed import Lost
from gpud.tui.model import NodeModel
from tests.tui.rig import SIZES, STEPS, Rig, press, rig

SCREENS = {
    "jobs": (),
    "detail-and-tree": ("down", "enter", "t"),
    "filter-wrong": ("slash", *"state:wait mem>lots"),
    "confirm": ("space", "down", "space", "e"),
    "signal": ("down", "k"),
    "set": ("down", "s"),
    "why": ("down", "w"),
    "help": ("question_mark",),
    "timeline": ("2", *["left"] * 9),
    "policy": ("3", "d", "h"),
    "journal": ("4",),
    "past": ("left_square_bracket",) * 3,
    "frozen": ("f",),
}
DIALOGS = ("confirm", "signal", "set", "why", "help")
Compare = Callable[..., bool]


def busy_node(jobs: int = 24, *, look: str = "dark", rejected: bool = False, more: tuple[Any, ...] = ()) -> Rig:
    steps = list(Script(jobs, 4).steps(STEPS))
    steps[0] = evolve(steps[0], node=node_row(rejected))
    return rig([*steps, *more], look=look)


def same(compare: Compare, made: Rig, keys: tuple[str, ...], size: tuple[int, int]) -> bool:
    async def before(pilot: Pilot[int]) -> None:
        await press(pilot, *keys)

    return compare(made.app, run_before=before, terminal_size=size)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCREENS)
def test_screen(snap_compare: Compare, name: str, size: tuple[int, int]) -> None:
    assert same(snap_compare, busy_node(8 if name in DIALOGS else 24, rejected=name == "policy"), SCREENS[name], size)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_without_a_daemon(snap_compare: Compare, size: tuple[int, int]) -> None:
    lost = Lost("the daemon at /run/gpud/control.sock ended before it answered; look at its log")
    assert same(snap_compare, busy_node(more=(lost,)), (), size)


@pytest.mark.parametrize("look", ["light", "none"])
@pytest.mark.parametrize("name", ["jobs", "timeline", "confirm"])
def test_look(snap_compare: Compare, name: str, look: str) -> None:
    assert same(snap_compare, busy_node(look=look), SCREENS[name], (120, 40))


def test_too_small(snap_compare: Compare) -> None:
    assert same(snap_compare, busy_node(), (), (20, 5))


def test_names_that_nobody_should_give(snap_compare: Compare) -> None:
    names = ("日本語の学習ジョブ", "🚀🔥🔥", "tab\there\x1b[31m", "x" * 300, "\u202eright", "e\u0301clair")
    steps = [
        evolve(
            step,
            jobs=tuple(
                evolve(row, name=names[row.id % 6], command=names[row.id % 6] + " y" * 2000) for row in step.jobs
            ),
        )
        for step in Script(6, 1).steps(4)
    ]
    assert same(snap_compare, rig(steps, view=View(NodeModel())), ("enter",), (100, 30))
