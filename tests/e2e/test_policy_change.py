"""Policies that change under running programs, on the simulated GPU: the programs notice, and stay right."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpud.testing.command import gpud
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

PATIENCE_S = 60
"""What is waited for comes in a moment, or never."""
POLICY = """gpol 1
policy "p" {
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate preempt { order = [high, low]  resume_after = 1ms }
  BINDING
}
apply "p" to gpu *
"""


def write(directory: Path, binding: str = "") -> None:
    """As an editor saves."""
    fresh = directory / "fresh.tmp"
    fresh.write_text(POLICY.replace("BINDING", binding))
    fresh.rename(directory / "p.gpol")


def test_a_save_holds_a_running_program_and_lets_it_go(counter: list[str], tmp_path: Path) -> None:
    write(tmp_path)
    with Node(profile="a100-40gb", policies=tmp_path, policy=None) as node:
        lines = node.directory / "low.txt"
        with lines.open("w") as out:
            low = node.run([*counter, "1", "0"], stdout=out)

        def rounds() -> int:
            return lines.read_text().count("ok\n")

        def state() -> str:
            with node.client() as client:
                return client.ps()[0].state

        def said(*words: str) -> str:
            return gpud(node.environment, *words).stdout

        until(lambda: rounds() > 2, PATIENCE_S, "low computes")
        write(tmp_path, "low.pause = true")
        until(lambda: state() == "held", PATIENCE_S, "low is held")
        held = rounds()
        why = said("why", "1")
        assert "low.pause = true" in why
        assert f"{tmp_path}/p.gpol:6" in why
        write(tmp_path, "low.pause = maybe")  # rejected: it stays held
        until(lambda: "1 rejected" in said("status"), PATIENCE_S, "the daemon has seen it")
        assert rounds() == held
        write(tmp_path)
        until(_more(rounds, held), PATIENCE_S, "low goes on")
        assert said("policy", "rollback").startswith("set ")
        until(lambda: state() == "held", PATIENCE_S, "low is held again")
        held = rounds()
        assert gpud(node.environment, "policy", "reload").returncode == 0
        until(_more(rounds, held), PATIENCE_S, "low goes on")
        assert low.poll() is None  # it ends at the first word that is wrong


def _more(rounds: Callable[[], int], than: int) -> Callable[[], bool]:
    return lambda: rounds() >= than + 3
