"""A set of files as a whole: all that is wrong in it, in order, each once."""

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.policies.check.whole import check_library, in_order
from gpud.policies.codes import CODES
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.library import from_texts
from gpud.policies.placement import DeviceFacts
from gpud.policies.render import human
from tests.policies.checking import policy_text, quoted

ROOT = Path(__file__).parent.parent.parent
SITE = 'gpol 1\napply "p" to gpu 0\n'


def found_in(files: dict[str, str], **options: object) -> list[Diagnostic]:
    return check_library(from_texts(files), {}, **options)


def places(files: dict[str, str], **options: object) -> list[tuple[str, str]]:
    return [(one.primary.source.name, one.code) for one in found_in(files, **options)]


def test_findings_come_by_file_and_place_whatever_finds_them() -> None:
    wrong = policy_text(
        """
        when low.active and not low.active { low.pause = true }
        when high.busy < 20% { low.share = fixed(60%) }
        when gpu.memory_free > 3GiB { low.share = fixed(70%) }
        guard high.wait_p99 > 20 { low.share = equal }
        """
    )
    files = {
        "b.gpol": wrong,
        "a.gpol": 'gpol 1\npolicy "q" { class low { match any }\n',
        "c.gpol": 'gpol 1\ntest "t" { policy "p"  at 1s expect true }\ntest "u" { policy "r"  at 1s expect true }\n',
        "d.gpol": 'gpol 1\napply "r", "p" to gpu 4..2\n',
    }
    assert places(files) == [
        ("a.gpol", "GP102"),
        ("b.gpol", "GP304"), ("b.gpol", "GP301"), ("b.gpol", "GP202"), ("b.gpol", "GP308"),
        ("c.gpol", "GP701"),
        ("d.gpol", "GP201"), ("d.gpol", "GP206"),
    ]  # fmt: skip


def test_all_errors_are_in_it_however_many() -> None:
    body = "\n".join(f"when low.nothing_{n} > 3 {{ low.pause = true }}" for n in range(60))
    assert places({"p.gpol": policy_text(body)}) == [("p.gpol", "GP201")] * 60


def test_what_several_uses_of_a_policy_find_is_said_once() -> None:
    text = policy_text("param a = 3ms  when low.wait_p99 > a + 3 { low.pause = true }")
    site = 'gpol 1\napply "p"(a = 4ms) to gpu 0\napply "p"(a = 5ms) to gpu 1\napply "p" to gpu *\n'
    test = 'gpol 1\ntest "t" { policy "p"(a = 6ms)  at 1s expect true }\n'
    assert places({"p.gpol": text, "site.gpol": site, "t.gpol": test}) == [("p.gpol", "GP202")]


def test_what_an_argument_makes_wrong() -> None:
    classes = 'class a { match user == "a"  share = fixed(60%) } class b { match any  share = fixed(part) }\n'
    text = policy_text("", classes="param part = 10%\n" + classes)
    assert places({"p.gpol": text}) == []
    assert places({"p.gpol": text, "s.gpol": 'gpol 1\napply "p" to gpu 0'}) == []
    site = {"s.gpol": 'gpol 1\napply "p"(part = 50%) to gpu 0'}
    assert [one.message for one in found_in({"p.gpol": text} | site)] == ["fixed shares promise 110% of the GPU"]
    assert places({"p.gpol": text} | site, default="p") == []
    assert places({"p.gpol": text}, default="p(part = 50%)") == [("p.gpol", "GP502")]


def test_a_place_that_is_fine_for_one_argument_is_judged_for_the_other() -> None:
    text = policy_text("param high_water = 50%  when low.busy > high_water until low.busy < 20% { low.pause = true }")
    site = {"s.gpol": 'gpol 1\napply "p"(high_water = 10%) to gpu 0\napply "p"(high_water = 100%) to gpu 1'}
    assert places({"p.gpol": text}) == []
    assert places({"p.gpol": text} | site) == [("p.gpol", "GP304")]


# -------------------------------------------------------------------------------------- bad input, as the issue has it


def test_one_policy_name_in_two_files() -> None:
    files = {"a.gpol": policy_text("low.pause = true"), "b.gpol": policy_text("when low.busi > 3% {}")}
    twice, wrong = found_in(files)
    assert (twice.code, twice.primary.source.name, twice.labels[0].source.name) == ("GP205", "b.gpol", "a.gpol")
    assert (wrong.code, wrong.primary.source.name) == ("GP201", "b.gpol"), "the second is looked at too"


def test_two_site_files() -> None:
    files = {"p.gpol": policy_text("low.pause = true"), "site.gpol": SITE, "old.gpol": SITE.replace("0", "1")}
    (one,) = found_in(files)
    assert (one.code, one.primary.source.name, one.labels[0].source.name) == ("GP311", "site.gpol", "old.gpol")


def test_a_prefix_that_fits_two_devices_and_a_device_that_is_absent() -> None:
    devices = [DeviceFacts(0, "GPU-5f3a00"), DeviceFacts(1, "GPU-5f3b00")]
    text = policy_text("low.pause = true") + 'apply "p" to gpu "GPU-5f3", 2\n'
    found = found_in({"p.gpol": text}, devices=devices)
    assert [(one.code, quoted(one.primary)) for one in found] == [("GP313", '"GPU-5f3"'), ("GP312", "2")]
    assert found_in({"p.gpol": text}) == [], "without devices nothing is absent"
    assert [one.code for one in found_in({"p.gpol": text}, devices=[])] == ["GP312", "GP312"]


def test_an_unknown_time_zone() -> None:
    text = policy_text('timezone "Europe/Belrin"\nhours day = daily 08:00..22:00\nduring day { low.pause = true }')
    (one,) = [one for one in found_in({"p.gpol": text}) if not one.is_warning]
    assert (one.code, quoted(one.primary), one.helps) == (
        "GP208",
        '"Europe/Belrin"',
        ("did you mean `Europe/Berlin`?",),
    )


def test_nothing_at_all() -> None:
    assert found_in({}) == []
    assert found_in({}, devices=[DeviceFacts(0, "GPU-00")]) == []


# ------------------------------------------------------------------------------------------------------ in every run


def test_each_once_and_by_place() -> None:
    found = found_in({"p.gpol": policy_text("when low.a > 3 {} when low.b > 3 {}")})
    assert len(found) == 2
    assert in_order([*reversed(found), *found]) == found


def test_the_same_findings_whatever_the_hash_seed() -> None:
    script = (
        "from pathlib import Path\n"
        "from tests.policies.goldens import found_in\n"
        "from gpud.policies.render import human\n"
        "paths = sorted(Path('tests/policies/golden').rglob('*.gpol'))\n"
        "files = {str(path): path.read_text(errors='replace') for path in paths}\n"
        "print(len(files), human(found_in(files)))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(outputs) == 1
    assert outputs.pop().count("error[") > 15


PIECES = st.sampled_from(
    [
        "when low.active {", "during day {", "}", "else {", "each low as n {",
        "guard high.busy > 3% until high.busy < 2% {",
        "low.share = fixed(60%)", "low.pause = true", "n.residency = host", "high.share = equal", "let x1 = high.busy",
        "when x1 > 3% until x1 < 2% {", "when day and not night {", "hours day = daily 08:00..22:00",
        "hours night = daily 22:00..08:00", 'timezone "Europe/Berlin"', "param p1 = 3%", "when low.busy < p1 {",
        "low.max_inflight = max(3, low.queued)", "limit { memory = 2GiB }", "class x { match user == \"a\" }",
        "let x2 = peak(x1, span = 3s)", "low.max_compute = aimd(hurt = x1 < x2, period = 1s, start = 3%, floor = 1%,"
        " ceiling = 50%, add = 1%, multiply = 90%)", "arbitrate open {}", "failsafe { daemon_lost = open }",
        'apply "p"(p1 = 4%) to gpu 0..2', 'test "t" { policy "p" at 1s expect low.pause }', "mid.residency = disk",
        "when gpu.memory_free < 2GiB until gpu.memory_free > 3GiB {", "admit { memory = 150% }",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=14), st.booleans())
def test_any_pieces_give_findings_and_nothing_else(pieces: list[str], closed: bool) -> None:
    body = "\n".join(pieces)
    if closed:
        body += "}" * max(0, body.count("{") - body.count("}"))
    found = found_in({"p.gpol": policy_text(body)}, devices=[DeviceFacts(0, "GPU-00")])
    assert all(one.code in CODES and one.message for one in found)
    assert found == in_order(found)
    assert human(found) == human(found_in({"p.gpol": policy_text(body)}, devices=[DeviceFacts(0, "GPU-00")]))
