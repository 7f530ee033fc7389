"""How `gpud status` says what applies to a device."""

from gpud.cli.policy.changes import policies_text
from gpud.engine.report import policies
from gpud.engine.state import State
from gpud.testing.boards import board_from_texts

CLASSES = 'class a { match label("t") == "a" } class b { match label("t") == "b" } class c { match any }'


def shown(arbiter: str) -> str:
    text = f'gpol 1\npolicy "p" {{ {CLASSES} {arbiter} }}\napply "p" to gpu *'
    board = board_from_texts({"p.gpol": text}, default=None)
    return policies_text(policies(State(board=board, lease_ns=1))[-1])


def test_ranks_are_shown_from_high_to_low_with_equal_ones_together() -> None:
    preempt = "arbitrate preempt {{ order = {} resume_after = 1ms }}"
    assert shown(preempt.format("[c, [a, b]]")) == "p: c > [a, b]"
    assert shown(preempt.format("[b, c, a]")) == "p: b > c > a"
    assert shown("arbitrate open {} a.pause = true b.pause = true") == "p: a, b, c"
