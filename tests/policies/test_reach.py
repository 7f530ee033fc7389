"""GP302: classes nobody can be in; GP304: rules that never hold, never end or always hold; GP309: `order`."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.policies.globs import covers, fits
from tests.policies.checking import codes, found_in, policy_text, quoted


def classes(*matches: str) -> str:
    return "".join(f"  class c{number} {{ match {match} }}\n" for number, match in enumerate(matches))


def unreachable(*matches: str) -> list[str]:
    """Names of classes found to be without members."""
    found = found_in(policy_text("", classes=classes(*matches)))
    assert {one.code for one in found} <= {"GP302"}
    return [one.message.split("`")[1] for one in found]


def test_after_a_catch_all_the_message_points_at_it() -> None:
    (one,) = found_in(policy_text("", classes=classes("any", 'user == "ann"')))
    assert one.message == "class `c1` can never have a member"
    assert quoted(one.primary) == "c1"
    assert [(quoted(label), label.text) for label in one.labels] == [
        ("any", "`match any` above already takes everyone")
    ]
    assert one.helps == ("classes are tried top to bottom; move the catch-all last",)


def test_after_the_same_condition_it_points_at_that() -> None:
    (one,) = found_in(policy_text("", classes=classes('user == "ann"', 'user == "ann" and pod == "a"', "any")))
    assert [(quoted(label), label.text) for label in one.labels] == [
        ('user == "ann"', "`c0` above already takes all that would fit")
    ]


@pytest.mark.parametrize(
    "matches",
    [
        ("any", "any"),
        ('user == "ann"', '"ann" == user'),
        ('user == "ann"', 'user == "ann" and namespace == "prod"'),
        ('user == "ann" or user == "bob"', 'user in ["bob", "ann"]'),
        ('user != "ann"', 'user == "bob"'),
        ('not (user == "ann")', 'user in ["bob", "eve"]'),
        ('user == "ann"', 'user != "ann"', 'namespace == "prod"'),
        ('user in ["ann", "bob"]', 'namespace == "prod"', 'user == "bob" and namespace != "prod"'),
        ('exe ~ "/opt/*"', 'exe ~ "/opt/ml/*"'),
        ('exe ~ "*"', 'exe == "/bin/sh"'),
        ('exe ~ "/opt/*"', 'exe == "/opt/x"'),
        ('label_bytes("size", default = 1GiB) > 4GiB', 'label_bytes("size", default = 1GiB) > 8GiB'),
        # contradictions
        ('user == "ann" and user == "bob"',),
        ('user == "ann" and user != "ann"',),
        ('exe ~ "/opt/*" and exe == "/bin/sh"',),
        ('label("a") == "1" and not (label("a") in ["1", "2"])',),
    ],
)
def test_unreachable(matches: tuple[str, ...]) -> None:
    assert unreachable(*matches) == [f"c{len(matches) - 1}"]


@pytest.mark.parametrize(
    "matches",
    [
        ('user == "ann"', 'user == "bob"', "any"),
        ('user == "ann" and namespace == "prod"', 'user == "ann"'),
        ('label("tier") == "online"', 'label("plan") == "online"'),
        ('user in ["ann", "bob"]', 'user in ["bob", "eve"]'),
        ('exe ~ "/opt/ml/*"', 'exe ~ "/opt/*"', 'exe ~ "*"'),
        ('exe ~ "/opt/*x"', 'exe ~ "/opt/?"'),
        ('exe ~ "*/python*"', 'exe ~ "*python*"'),
        ('label_bytes("size", default = 1GiB) > 8GiB', 'label_bytes("size", default = 1GiB) > 4GiB'),
        # its own default is another amount for those without the label
        ('label_bytes("size", default = 8GiB) > 4GiB', 'label_bytes("size", default = 9GiB) > 4GiB'),
        tuple(f'exe ~ "/opt/{n}/*"' for n in range(20)),
    ],
)
def test_reachable(matches: tuple[str, ...]) -> None:
    assert unreachable(*matches) == []


def test_a_match_that_could_not_be_made_out_takes_nobody_for_granted() -> None:
    assert codes(policy_text("", classes=classes("usr", 'user == "ann"', "any"))) == ["GP201"]


def test_many_classes_take_little_time() -> None:
    keys = ["a", "b", "c", "d", "e", "f"]
    matches = [" and ".join(f'label("{key}") == "{number}"' for key in keys) for number in range(31)]
    begin = time.process_time()
    assert unreachable(*matches, "any") == []
    assert time.process_time() - begin < 20


GLOB = st.text(alphabet="ab*?", max_size=6)
TEXT = st.text(alphabet="abc", max_size=8)


@given(TEXT, GLOB)
def test_globs(text: str, glob: str) -> None:
    import re

    pattern = "".join({"*": ".*", "?": "."}.get(char, char) for char in glob)
    assert fits(text, glob) is (re.fullmatch(pattern, text) is not None)


@given(GLOB, GLOB, TEXT)
def test_a_wider_glob_fits_whatever_the_narrower_does(wide: str, narrow: str, text: str) -> None:
    if covers(wide, narrow) and fits(text, narrow):
        assert fits(text, wide)


def test_a_hostile_glob_takes_little_time() -> None:
    begin = time.process_time()
    assert not fits("a" * 4000, "*a" * 200 + "b")
    assert time.process_time() - begin < 20


# ------------------------------------------------------------------------------------------------------------- GP304

HEAD = """
  timezone "Europe/Berlin"
  hours day    = mon..fri 08:00..22:00
  hours night  = daily 22:00..08:00
  hours always = daily
"""


def of_rules(body: str) -> list[tuple[str, str]]:
    """(message, marked text) of all errors."""
    found = found_in(policy_text(HEAD + body))
    return [(one.message, quoted(one.primary)) for one in found if not one.is_warning]


@pytest.mark.parametrize(
    ("body", "message", "marked"),
    [
        ("when false { low.pause = true }", "this `when` can never hold", "false"),
        ("when 3 > 4 { low.pause = true }", "this `when` can never hold", "3 > 4"),
        ("when low.active and not low.active { low.pause = true }", "this `when` can never hold", None),
        ("when low.busy > 80% and low.busy < 20% { low.pause = true }", "this `when` can never hold", None),
        ("when low.busy > 100% { low.pause = true }", "this `when` can never hold", "low.busy > 100%"),
        ("when low.queued < 0 { low.pause = true }", "this `when` can never hold", "low.queued < 0"),
        ("when low.tenants > 3 and low.tenants < 4 { low.pause = true }", "this `when` can never hold", None),
        ("when low.busy > low.busy { low.pause = true }", "this `when` can never hold", "low.busy > low.busy"),
        ("when day and night { low.pause = true }", "this `when` can never hold", "day and night"),
        ("guard low.busy < 0% until low.busy > 3% { low.pause = true }", "this `guard` can never hold", None),
        ("when true { low.max_inflight = 4 }", "this `when` always holds", "true"),
        ("when low.busy >= 0% { low.max_inflight = 4 }", "this `when` always holds", "low.busy >= 0%"),
        ("when low.busy > 3% or low.busy < 5% { low.max_inflight = 4 }", "this `when` always holds", None),
        ("when day or not day { low.max_inflight = 4 }", "this `when` always holds", "day or not day"),
        ("during always { low.max_inflight = 4 }", "this `during` always holds", "during always"),
        # `until`
        ("when low.busy > 5% until low.busy > 3% { low.pause = true }", "this `when` can never hold", "low.busy > 3%"),
        ("when low.busy > 5% until true { low.pause = true }", "this `when` can never hold", "true"),
        ("when low.busy > 5% until low.busy > 100% { low.pause = true }", "this `when` never ends once it holds", None),
        ("when low.busy > 5% until false { low.pause = true }", "this `when` never ends once it holds", "false"),
        # inside others
        ("during day { during night { low.pause = true } }", "this `during` can never hold", "during night"),
        ("during day {} else { when day and low.active { low.pause = true } }", "this `when` can never hold", None),
        (
            "when low.busy > 50% { when low.busy < 20% for 3s { low.pause = true } }",
            "this `when` can never hold",
            "when low.busy < 20% for 3s",
        ),
        (
            "when low.busy > 50% { when high.active { when low.busy < 20% { low.pause = true } } }",
            "this `when` can never hold",
            "when low.busy < 20%",
        ),
        # in each
        ("each low as n { when n.active and not n.active { n.residency = host } }", "this `when` can never hold", None),
        (
            "each low as n { let idle = n.idle_for > 3min  when idle and n.idle_for < 1min { n.residency = host } }",
            "this `when` can never hold",
            None,
        ),
    ],
)  # fmt: skip
def test_constant(body: str, message: str, marked: str | None) -> None:
    (one,) = of_rules(body)
    assert one[0] == message
    if marked is not None:
        assert one[1] == marked


@pytest.mark.parametrize(
    "body",
    [
        "when low.active { low.pause = true }",
        "when low.busy > 80% or low.busy < 20% { low.pause = true }",
        "when low.idle_for == unlimited { low.pause = true }",
        "when low.busy > 20% until low.busy < 10% { low.pause = true }",
        "when low.busy > 20% until low.busy <= 20% for 1s { low.pause = true }",
        "when low.busy > 20% until high.active { low.pause = true }",
        "when low.active until low.busy > 5% { low.pause = true }",
        "when gpu.temperature < 0 { low.pause = true }",
        "when low.tenants > 3 and low.tenants < 5 { low.pause = true }",
        "during day { when night or low.active { low.pause = true } }",
        # stays beyond its condition
        "when low.busy > 50% until high.active { when low.busy < 20% { low.pause = true } }",
        "when low.busy > 50% for 3s {} else { when low.busy > 60% { low.pause = true } }",
        "guard true { low.max_inflight = 4 }",
        # a switch for arguments
        "param strict = false  when strict { low.pause = true }",
        "param strict = true  when strict { low.pause = true }  when low.active until strict { low.pause = true }",
        "param least = 10%  when least > 20% { low.pause = true }",
    ],
)
def test_not_constant(body: str) -> None:
    assert of_rules(body) == []


# ------------------------------------------------------------------------------------------------------------- GP309


def of_order(order: str, mode: str = "preempt") -> list[tuple[str, str]]:
    settings = "resume_after = 3ms" if mode == "preempt" else "max_hold = 1min"
    found = found_in(policy_text("", mode=f"{mode} {{ order = {order}  {settings} }}"))
    assert {one.code for one in found} <= {"GP309"}
    return [(one.message, quoted(one.primary)) for one in found]


def test_every_class_is_in_order_once() -> None:
    assert of_order("[high, [mid, low]]") == []
    assert of_order("[high, low]") == [("`mid` is missing in `order`", "[high, low]")]
    assert of_order("[low]", "exclusive") == [("`high` and `mid` are missing in `order`", "[low]")]
    assert of_order("[high, [mid, low, high]]") == [("`high` is in `order` more than once", "high")]
    assert of_order("[high, mid, low, low, low]") == [("`low` is in `order` more than once", "low")]


def test_the_second_place_is_marked() -> None:
    (one,) = found_in(policy_text("", mode="preempt { order = [high, mid, low, high]  resume_after = 3ms }"))
    assert one.primary.span.start > one.labels[0].span.start
    assert quoted(one.labels[0]) == "high"


def test_a_long_list_of_names_takes_little_time() -> None:
    names = ", ".join(f'"u{number}"' for number in range(12_000))
    begin = time.process_time()
    assert unreachable(f"user in [{names}]", "any") == []
    assert time.process_time() - begin < 20
