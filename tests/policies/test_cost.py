"""GP503: what a tick costs, counted; GP504: how much there may be."""

import re
from pathlib import Path

import pytest

from gpud.policies.check.cost import steps
from gpud.policies.library import read_directory
from gpud.policies.plugins.declare import Argument, Duration, Function, Number, Plugin
from gpud.policies.resolve import resolve_policy
from tests.policies.checking import found_in, ir_of, policy_text, quoted

SPEC = Path(__file__).parent / "spec"


def cost(body: str) -> int:
    return steps(ir_of(policy_text(body)))


def test_every_node_is_a_step() -> None:
    empty = cost("")
    assert empty == 1
    assert cost("low.pause = true") == empty + 2  # binding, value
    assert cost("when low.active {}") == empty + 4  # rule, held condition, signal, body
    assert cost("when low.active for 3s until not low.active for 1s {}") == empty + 7
    assert cost("when low.busy > 3% { low.pause = true } else {}") == empty + 9
    assert cost("let x = low.busy + high.busy  when x > 3% {}") == empty + 4 + 6
    assert cost('timezone "UTC"  hours day = daily 08:00..22:00  during day {}') == empty + 3  # rule, hours, body
    assert cost("when low.active and mid.active and high.active {}") == empty + 3 + 4


def test_an_operator_costs_what_the_schema_says_and_its_arguments() -> None:
    assert cost("let x = ewma(low.busy, half_life = 1s)  when x > 3% {}") == 1 + 1 + 4 + 2 + 6
    assert cost("let x = max(low.busy, high.busy)  when x > 3% {}") == 1 + 1 + 3 + 6


def test_all_of_an_each_costs_thirty_two_times_as_much() -> None:
    outside = cost("when low.idle_for > 3s until low.active { low.residency = host }") - 1
    inside = cost("each low as n { when n.idle_for > 3s until n.active { n.residency = host } }") - 1
    assert inside == 32 * (outside + 2)  # the `each` and its body
    one = "each low as n { let x = n.busy  when x > 3% {} }"
    two = "each low as n { let x = n.busy + n.busy  when x > 3% {} }"
    assert cost(two) - cost(one) == 64


def test_a_plugin_says_what_its_functions_cost() -> None:
    slow = Function(
        "slow", (Argument("x", Number), Argument("span", Duration)), Number, lambda: None, lambda *_: (0, 0), 70
    )
    plugins = {"more": Plugin(name="more", functions=(slow,))}
    text = policy_text("let x = more.slow(low.queued, span = 1s)  when x > 3 {}").replace("gpol 1", "gpol 1\nuse more")
    from gpud.policies.library import from_texts

    policy, file = from_texts({"p": text}).policies["p"]
    resolved, problems = resolve_policy(policy, file, (), plugins)
    assert resolved is not None
    assert not problems
    assert steps(resolved, plugins) == 1 + 1 + 70 + 2 + 6
    assert steps(resolved, {}) == 1 + 1 + 8 + 2 + 6


def test_the_specification_counts_the_same() -> None:
    """`explain` of tidal-mix, §2.7: 44 of 2000 steps."""
    library = read_directory(SPEC)
    resolved, _ = resolve_policy(*library.policies["tidal-mix"], (), {})
    assert resolved is not None
    assert steps(resolved) == 44


def test_too_much_names_the_most_expensive_part() -> None:
    few = "each low as n {\n" + "when n.idle_for > 1min { n.residency = host }\n" * 5 + "}"
    assert found_in(policy_text(few)) == []
    many = "each low as n {\n" + "when n.idle_for > 1min { n.residency = host }\n" * 8
    many += "when n.idle_for > 2min until n.active for 3s { n.residency = host }\n}"
    (one,) = found_in(policy_text(many))
    total = steps(ir_of(policy_text(many)))
    assert total > 2000
    assert one.code == "GP503"
    assert one.message == f"a tick of this policy would cost {total} steps; 2000 are allowed"
    assert quoted(one.primary) == "when n.idle_for > 2min"
    assert one.primary.text == "the most expensive: this rule costs 320"


@pytest.mark.parametrize(
    ("body", "marked", "what"),
    [
        ("let x = " + " + ".join(["low.busy"] * 30), "x", "let"),
        ("low.max_launch_rate = 100/s * max(" + ", ".join(["low.queued"] * 30) + ")", "low.max_launch_rate", "binding"),
        ("guard " + " or ".join(["low.active"] * 30) + " until high.active { low.pause = true }", None, "rule"),
    ],
)
def test_the_most_expensive_may_be_of_any_kind(body: str, marked: str | None, what: str) -> None:
    rules = "\n".join(f"when high.busy > {n % 90 + 1}% {{ mid.pause = true }}" for n in range(250))
    text = policy_text(f"{body}\n{rules}")
    found = [one for one in found_in(text) if one.code == "GP503"]
    assert len(found) == 1
    assert re.fullmatch(rf"the most expensive: this {what} costs \d+", found[0].primary.text)
    if marked:
        assert quoted(found[0].primary) == marked


# ------------------------------------------------------------------------------------------------------------- GP504


def bounds(text: str) -> list[tuple[str, str]]:
    return [(one.message, quoted(one.primary)) for one in found_in(text) if one.code == "GP504"]


def test_nesting() -> None:
    four = "when high.active { during day { when mid.active { when low.active { low.pause = true } } } }"
    hours = 'timezone "UTC"  hours day = daily 08:00..22:00  '
    assert bounds(policy_text(hours + four)) == []
    five = hours + f"when low.busy > 3% {{ {four} }}"
    assert bounds(policy_text(five)) == [("rules are nested more than 4 deep", "when low.active")]
    six = hours + f"when low.busy > 2% {{}} else {{ when low.busy > 3% {{ {four} }} }}"
    assert bounds(policy_text(six)) == [("rules are nested more than 4 deep", "when mid.active")]


def test_classes() -> None:
    def text(count: int) -> str:
        classes = "".join(f'  class c{n} {{ match label("n") == "{n}" }}\n' for n in range(count))
        return policy_text("", classes=classes)

    assert bounds(text(32)) == []
    assert bounds(text(40)) == [("40 classes; 32 are allowed", "c32")]


def test_rules() -> None:
    many = "\n".join(f"when low.busy > {n % 90}.{n}% {{ low.pause = true }}" for n in range(1, 300))
    assert bounds(policy_text(many)) == [("299 rules; 256 are allowed", "when low.busy > 77.257%")]
    assert bounds(policy_text("\n".join(many.splitlines()[:256]))) == []
