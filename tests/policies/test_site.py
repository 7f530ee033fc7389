"""Which devices get which policies."""

import pytest

from gpud.policies.diagnostics import Diagnostic
from gpud.policies.library import Library, from_texts
from gpud.policies.placement import DeviceFacts, Placement
from gpud.policies.site import place
from tests.policies.checking import quoted

UUIDS = ("GPU-5f3a0000-11", "GPU-5f3b0000-22", "GPU-77aa0000-33", "MIG-5f3a0000-44")
DEVICES = [DeviceFacts(index, uuid) for index, uuid in enumerate(UUIDS)]
POLICIES = """
policy "one"    { param quiet = 3ms  param most = unlimited  class low { match any }
                  arbitrate preempt { order = [low]  resume_after = quiet  max_inflight = 4 }
                  when low.idle_for > most { low.pause = true } }
policy "two"    { class low { match any } arbitrate open {} }
policy "quotas" { class low { match any } low.max_inflight = 4 }
policy "night"  { class low { match any } low.pause = true }
"""


ALL = "known policies: `night`, `one`, `quotas`, `two`"


def library(site: str, **more: str) -> Library:
    return from_texts({"policies.gpol": f"gpol 1\n{POLICIES}", "site.gpol": f"gpol 1\n{site}"} | more)


def shown(placement: Placement, device: DeviceFacts) -> str:
    """`one(quiet = 5000000), quotas`"""
    texts = []
    for applied in placement.of(device).policies:
        arguments = ", ".join(f"{name} = {value}" for name, value in applied.arguments)
        texts.append(f"{applied.policy.name}({arguments})" if arguments else applied.policy.name)
    return ", ".join(texts)


def placed(site: str, devices: list[DeviceFacts] | None = DEVICES, default: str | None = None) -> list[str]:
    """What each of the four devices has, when nothing is wrong."""
    placement, found = place(library(site), devices, {}, default)
    assert found == []
    assert [device for device, _ in placement.stacks] == (devices or [])
    return [shown(placement, device) for device in DEVICES]


def findings(site: str, devices: list[DeviceFacts] | None = DEVICES, default: str | None = None) -> list[Diagnostic]:
    return place(library(site), devices, {}, default)[1]


def said(
    site: str, devices: list[DeviceFacts] | None = DEVICES, default: str | None = None
) -> list[tuple[str, str, str]]:
    """(code, message, marked text)"""
    return [(one.code, one.message, quoted(one.primary)) for one in findings(site, devices, default)]


@pytest.mark.parametrize("devices", [DEVICES, None, []])
def test_named_beats_every(devices: list[DeviceFacts] | None) -> None:
    site = 'apply "two" to gpu *  apply "one"(quiet = 5ms), "quotas" to gpu 0..1  apply "quotas" to gpu "GPU-77"'
    placement, found = place(library(site), devices, {})
    assert [one.code for one in found] == (["GP312", "GP312"] if devices == [] else [])
    assert [shown(placement, device) for device in DEVICES] == [
        "one(quiet = 5000000), quotas", "one(quiet = 5000000), quotas", "quotas", "two",
    ]  # fmt: skip
    later = DeviceFacts(9, "GPU-9999")
    assert shown(placement, later) == "two"


def test_arguments_are_sorted_and_as_the_policy_keeps_them() -> None:
    assert placed('apply "one"(quiet = 2 * 1ms, most = 3s) to gpu *')[0] == "one(most = 3000000000, quiet = 2000000)"
    placement, _ = place(library('apply "one"(quiet = 5ms) to gpu *'), DEVICES, {})
    (applied,) = placement.every.policies
    assert applied.policy.arbiter is not None
    assert applied.policy.arbiter.settings["resume_after"].value == 5_000_000
    assert placement.every.arbiter is applied


def test_without_an_arbiter_nobody_is_held() -> None:
    placement, _ = place(library('apply "quotas", "night" to gpu *'), DEVICES, {})
    assert placement.every.arbiter is None
    assert [applied.policy.name for applied in placement.every.policies] == ["quotas", "night"]
    assert [policy.name for policy in placement.policies] == ["quotas", "night"]


def test_devices_that_are_not_named_have_nothing() -> None:
    assert placed('apply "one" to gpu 1') == ["", "one", "", ""]


def test_targets_of_all_kinds_in_one_line() -> None:
    assert placed('apply "two" to gpu 0, "mig-5F3A", 2..2') == ["two", "", "two", "two"]


def test_without_apply_lines_preempt_mix_runs_everywhere() -> None:
    mix = POLICIES.replace('"one"', '"preempt-mix"')
    placement, found = place(from_texts({"p": f"gpol 1\n{mix}"}), DEVICES, {})
    assert found == []
    assert [shown(placement, device) for device in (*DEVICES, DeviceFacts(9, "GPU-9"))] == ["preempt-mix"] * 5
    placement, found = place(from_texts({"p": f"gpol 1\n{POLICIES}"}), DEVICES, {})
    assert found == []
    assert placement.every.policies == ()


def test_two_policies_on_one_device_share_what_was_resolved() -> None:
    known = place(library('apply "one" to gpu *'), DEVICES, {})[0].every.policies[0].policy
    again, _ = place(library('apply "one" to gpu *'), DEVICES, {}, None, {"one": known})
    assert again.every.policies[0].policy is known


# ------------------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("site", "message", "marked", "label"),
    [
        ('apply "one" to gpu 0..2 apply "two" to gpu 2', "GPU 2 is named twice", "2", "0..2"),
        ('apply "one" to gpu 0..2 apply "two" to gpu 1..3', "GPUs 1..2 are named twice", "1..3", "0..2"),
        ('apply "one" to gpu 0, 0', "GPU 0 is named twice", "0", "0"),
        ('apply "one" to gpu 0 apply "two" to gpu "GPU-5f3a"', "GPU 0 is named twice", '"GPU-5f3a"', "0"),
        ('apply "one" to gpu "GPU-77" apply "two" to gpu 2..3', "GPU 2 is named twice", "2..3", '"GPU-77"'),
        ('apply "one" to gpu "GPU-77" apply "two" to gpu "GPU-77aa"', "GPU 2 is named twice", '"GPU-77aa"', '"GPU-77"'),
        ('apply "one" to gpu * apply "two" to gpu *', "`*` is named twice", "*", "*"),
        ('apply "one", "two" to gpu 0', "both `one` and `two` arbitrate", '"two"', '"one"'),
        ('apply "two", "two" to gpu *', "`two` is applied twice to the same devices", '"two"', '"two"'),
    ],
)  # fmt: skip
def test_a_device_claimed_twice(site: str, message: str, marked: str, label: str) -> None:
    (one,) = findings(site)
    assert (one.code, one.message, quoted(one.primary)) == ("GP310", message, marked)
    assert quoted(one.labels[0]) == label
    assert one.primary.span.start > one.labels[0].span.start
    assert one.helps


@pytest.mark.parametrize(
    "site",
    [
        'apply "one" to gpu "GPU-5f" apply "two" to gpu "GPU-5f3a"',
        'apply "one" to gpu "GPU-5f3a" apply "two" to gpu "gpu-5F"',
        'apply "one" to gpu "GPU-5f" apply "two" to gpu "GPU-5f"',
        'apply "one" to gpu 1 apply "two" to gpu 0..7',
    ],
)
def test_claimed_twice_whatever_devices_there_are(site: str) -> None:
    assert [one.code for one in findings(site, None)] == ["GP310"]


def test_not_claimed_twice_as_far_as_is_known() -> None:
    assert findings('apply "one" to gpu 0..3 apply "two" to gpu "GPU-5f" apply "two" to gpu "GPU-6"', None) == []


def test_a_prefix_that_fits_two_devices() -> None:
    (one,) = findings('apply "one" to gpu "GPU-5f3"')
    assert (one.code, one.message) == ("GP313", "`GPU-5f3` fits 2 GPUs")
    assert one.primary.text == "GPU 0, GPU 1"
    assert one.helps == ("write `GPU-5f3a0000` or `GPU-5f3b0000`",)


def test_a_prefix_must_tell_devices_apart_in_the_help_too() -> None:
    devices = [DeviceFacts(0, "GPU-5f3a0000-11"), DeviceFacts(1, "GPU-5f3a0000-12")]
    (one,) = findings('apply "one" to gpu "GPU-5f3a"', devices)
    assert one.helps == ("write `GPU-5f3a0000-11` or `GPU-5f3a0000-12`",)


@pytest.mark.parametrize(
    ("site", "message", "marked"),
    [
        ('apply "one" to gpu 0..7', "GPUs 4..7 are not present", "0..7"),
        ('apply "one" to gpu 4', "GPU 4 is not present", "4"),
        ('apply "one" to gpu "GPU-99"', "no GPU is present whose UUID begins with `GPU-99`", '"GPU-99"'),
    ],
)
def test_an_absent_device_waits_for_its_policies(site: str, message: str, marked: str) -> None:
    placement, found = place(library(site), DEVICES, {})
    (one,) = found
    assert (one.code, one.message, quoted(one.primary)) == ("GP312", message, marked)
    assert one.is_warning
    assert one.helps == ("present now: 0..3",)
    assert shown(placement, DeviceFacts(4, "GPU-9999")) == "one"
    assert shown(placement, DeviceFacts(8, "GPU-8888")) == ""


def test_absent_devices_between_others() -> None:
    devices = [DeviceFacts(index, f"GPU-{index}") for index in (0, 1, 3, 6)]
    (one,) = findings('apply "one" to gpu 0..6', devices)
    assert one.message == "GPUs 2, 4..5 are not present"
    assert one.helps == ("present now: 0..1, 3, 6",)


@pytest.mark.parametrize(
    ("site", "code", "message", "marked", "help"),
    [
        ('apply "ome" to gpu 0', "GP201", "no policy is called `ome`", '"ome"', "did you mean `one`?"),
        ('apply "zzzzzz" to gpu 0', "GP201", "no policy is called `zzzzzz`", '"zzzzzz"', ALL),
        ('apply "one" to cpu 0', "GP201", "policies are applied to `gpu`, not to `cpu`", "cpu", "did you mean `gpu`?"),
        ('apply "one" to gpu 3..0', "GP206", "this range runs backwards", "3..0", "write 0..3"),
        ('apply "one" to gpu 0..5000', "GP206", "there can be no GPU 5000", "0..5000", None),
        ('apply "one" to gpu "5f3a"', "GP206", "no UUID of a GPU begins with `5f3a`", '"5f3a"', None),
        ('apply "one" to gpu "GPU-"', "GP206", "no UUID of a GPU begins with `GPU-`", '"GPU-"', None),
        ('apply "one" to gpu ""', "GP206", "no UUID of a GPU begins with ``", '""', None),
        ('apply "one" to gpu "GPU-xyz"', "GP206", "no UUID of a GPU begins with `GPU-xyz`", '"GPU-xyz"', None),
        ('apply "one"(quite = 5ms) to gpu 0', "GP204", "`one` has no param `quite`", "quite", "did you mean `quiet`?"),
        ('apply "one"(quiet = 5) to gpu 0', "GP103", None, "5", None),
        ('apply "one"(quiet = 5%) to gpu 0', "GP202", None, "5%", None),
        ('apply "one"(5ms) to gpu 0', "GP204", None, "5ms", None),
        ('apply "quotas"(quiet = 5ms) to gpu 0', "GP204", "`quotas` has no param `quiet`", "quiet", None),
    ],
)  # fmt: skip
def test_bad_lines(site: str, code: str, message: str | None, marked: str, help: str | None) -> None:
    (one,) = findings(site)
    assert (one.code, quoted(one.primary)) == (code, marked)
    assert message is None or one.message == message
    assert help is None or help in one.helps
    assert one.helps


LIMITER = """gpol 1
policy "lim" {
  class low { match any }
  when low.active { low.yield = true  low.max_inflight = 1 } else { low.yield = false }
}
"""
PREEMPT = """gpol 1
policy "pre" { class low { match any } arbitrate preempt { order = [low]  resume_after = 3ms } }
"""


@pytest.mark.parametrize("line", ['"free", "lim"', '"lim"'])
def test_a_knob_without_effect_beside_the_arbiter_of_the_line(line: str) -> None:
    """The limiter alone cannot know; without any arbiter it is the built-in `open`."""
    free = 'gpol 1\npolicy "free" { class all { match any } arbitrate open {} }\n'
    site = f"gpol 1\napply {line} to gpu *\n"
    texts = {"lim.gpol": LIMITER, "pre.gpol": PREEMPT, "free.gpol": free, "site.gpol": site}
    _, (one,) = place(from_texts(texts), DEVICES, {})
    assert (one.code, one.message) == ("GP403", "`low.yield` of `lim` has no effect under `arbitrate open`")
    assert quoted(one.primary) == '"lim"'
    assert [(label.source.name, quoted(label)) for label in one.labels] == [("lim.gpol", "low.yield")]
    assert one.helps == ("`yield` acts under `arbitrate preempt`",)
    texts["site.gpol"] = 'gpol 1\napply "pre", "lim" to gpu *\n'
    assert place(from_texts(texts), DEVICES, {})[1] == []


def test_nothing_is_said_of_effects_where_the_arbiter_is_not_known() -> None:
    texts = {"lim.gpol": LIMITER, "site.gpol": 'gpol 1\napply "pree", "lim" to gpu *\n'}
    assert [one.code for one in place(from_texts(texts), DEVICES, {})[1]] == ["GP201"]


def test_what_is_wrong_with_several_lines_is_said_at_once() -> None:
    site = 'apply "ome", "two" to gpu 3..0, 7  apply "one"(quiet = 5) to gpu "nothing", 1'
    assert [one.code for one in findings(site)] == ["GP201", "GP206", "GP312", "GP103", "GP206"]


def test_a_policy_that_could_not_be_read_is_not_unknown() -> None:
    texts = library(
        'apply "broken" to gpu 0', **{"broken.gpol": 'gpol 1\npolicy "broken" {\n  klass a { match any }\n}\n'}
    )
    placement, found = place(texts, DEVICES, {})
    assert found == []
    assert placement.of(DEVICES[0]).policies == ()


def test_many_targets_take_little_time() -> None:
    import time

    prefixes = ", ".join(f'"GPU-{number:08x}"' for number in range(20_000))
    begin = time.process_time()
    assert findings(f'apply "one" to gpu {prefixes}', None) == []
    assert time.process_time() - begin < 60


# --------------------------------------------------------------------------------------------------------- --policy


def test_the_flag_takes_the_place_of_the_lines() -> None:
    site = 'apply "nowhere" to gpu 0..9'
    assert placed(site, default="two") == ["two"] * 4
    assert (
        placed(site, default=" one(quiet = 1ms, most = 3s) , quotas ")[0]
        == "one(most = 3000000000, quiet = 1000000), quotas"
    )
    assert placed(site, default='"one", quotas,night')[3] == "one, quotas, night"


@pytest.mark.parametrize(
    ("text", "code", "marked"),
    [
        ("ome", "GP201", '"ome"'),
        ("one(quite = 1ms)", "GP204", "quite"),
        ("one(quiet = 5%), quotas", "GP202", "5%"),
        ("one, two", "GP310", '"two"'),
        ("one, quotas, quotas", "GP310", '"quotas"'),
        ("", "GP101", "apply"),
        ("one,", "GP101", None),
        ("one two", "GP101", None),
        ("one(", "GP101", None),
        ("one)", "GP101", None),
        ('one"', "GP107", None),
        ("one # x", "GP101", None),
        ('one to gpu 0 policy "x" { }', "GP101", None),
        ("one\0", "GP106", None),
    ],
)
def test_a_bad_flag(text: str, code: str, marked: str | None) -> None:
    found = findings('apply "one" to gpu 0', default=text)
    assert found
    assert code in [one.code for one in found]
    for one in found:
        assert one.primary.source.name == "--policy"
        if marked is not None:
            assert quoted(one.primary) == marked
