"""Verbs about one job, against a control socket made of a script: what is asked for, what is printed, how they end."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from attrs import evolve

from gpud.cli.verbs import dispatch
from gpud.control import wire
from gpud.model.knobs import Explained
from gpud.model.views import ExplainView, MemoryView, TimeView, WhyDevice, WhyView
from tests.cli.control import Control, job, stats_of

JOBS = [job(3), job(5, "serve", "bob", "high"), job(7, "twin"), job(8, "twin", "bob")]


def answers(ask: wire.Ask) -> wire.Answer:
    """Of a daemon with four jobs."""
    match ask:
        case wire.AskPs():
            return wire.PsAnswer(jobs=JOBS)
        case wire.AskJobOf(pid=pid):
            found = [one for one in JOBS if pid in one.pids]
            return (
                wire.JobOfAnswer(job=found[0]) if found else wire.ErrorAnswer(code="unknown", text=f"{pid} in no job")
            )
        case wire.AskWhy(job=number):
            return wire.WhyAnswer(why=WhyView(job=_job(number), hold=None, devices=()))
        case wire.AskStats(job=number):
            return wire.StatsAnswer(stats=[stats_of(one) for one in JOBS if number in (None, one.id)])
        case wire.AskSet(job=number):
            return wire.SetAnswer(job=_job(number))
        case wire.AskPause() | wire.AskResume() | wire.AskEvict() | wire.AskKill():
            return wire.DoneAnswer(job=_job(ask.job), text=f"{type(ask).__name__} of job {ask.job}: done.")
    raise AssertionError(ask)


def _job(number: int) -> object:
    return next(one for one in JOBS if one.id == number)


@pytest.fixture
def control(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Control]:
    monkeypatch.setenv("GPUD_RUNTIME_DIR", str(runtime))
    made = Control(runtime, answers)
    yield made
    made.close()


Said = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("pause 3", wire.AskPause(job=3)),
        ("resume train", wire.AskResume(job=3)),
        ("evict pid:105", wire.AskEvict(job=5)),
        ("kill serve", wire.AskKill(job=5, signal="TERM")),
        ("kill --signal KILL 3", wire.AskKill(job=3, signal="KILL")),
        ("kill --signal sigusr1 3", wire.AskKill(job=3, signal="USR1")),
        ("kill --signal 2 3", wire.AskKill(job=3, signal="INT")),
        ("why train", wire.AskWhy(job=3)),
        ("stats", wire.AskStats(job=None)),
        ("stats serve", wire.AskStats(job=5)),
        ("set 3 class=high", wire.AskSet(job=3, job_class="high")),
        ("set train class=auto", wire.AskSet(job=3, job_class=None)),
        ("set 3 mem=8GiB", wire.AskSet(job=3, memory_bytes=8 << 30)),
        ("set 3 compute=30%", wire.AskSet(job=3, compute_ppm=300_000)),
        ("set 3 mem=auto compute=auto", wire.AskSet(job=3, memory_bytes=None, compute_ppm=None)),
        (
            "set 3 class=low mem=512MiB compute=0.5%",
            wire.AskSet(job=3, job_class="low", memory_bytes=512 << 20, compute_ppm=5000),
        ),
    ],
)
def test_what_is_asked_for(control: Control, words: str, asked: wire.Ask, capsys: Said) -> None:
    assert dispatch(words.split()) == 0
    assert control.asked[-1] == asked
    said = capsys.readouterr()
    assert said.out
    assert not said.err
    assert dispatch([*words.split(), "--json"]) == 0
    assert control.asked[-1] == asked
    json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("pause trian", "there is no job 'trian'; did you mean 'train'? jobs now: 3 (train), 5 (serve)"),
        ("pause twin", "2 jobs are called 'twin': 7 of ann, 8 of bob; give the number of one"),
        ("pause pid:9", "9 in no job"),
        ("pause pid:x", "'pid:x' names no process; write pid: and its number"),
        ("pause 99999999999999999999", "there is no job '99999999999999999999'"),
        ("kill --signal WINCH 3", "--signal: 'WINCH' is none of TERM, INT"),
        ("kill --signal 11 3", "--signal: '11' is none of"),
        ("set 3 colour=red", "nothing called 'colour' can be set"),
        ("set 3 class", "'class' is no change"),
        ("set 3 mem=", "'mem=' is no change"),
        ("set 3 mem=8", "mem: '8' has no unit"),
        ("set 3 mem=1GiB mem=2GiB", "mem is given twice"),
        ("set 3 compute=130%", "more than 100%"),
        ("set 3 compute=0%", "gpud pause does that"),
    ],
)
def test_wrong_usage_ends_with_2_and_changes_nothing(control: Control, words: str, says: str, capsys: Said) -> None:
    assert dispatch(words.split()) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert not said.out
    assert all(isinstance(ask, wire.AskPs | wire.AskJobOf) for ask in control.asked)


@pytest.mark.parametrize("words", ["pause 3", "resume 3", "evict 3", "kill 3", "set 3 class=high"])
@pytest.mark.parametrize(
    ("code", "ends"), [("refused", 77), ("unknown", 2), ("internal", 125), ("version", 125), ("busy", 125)]
)
def test_what_the_daemon_says_no_to(control: Control, words: str, code: str, ends: int, capsys: Said) -> None:
    control.script = lambda ask: wire.ErrorAnswer(code=code, text="job 3 is bob's; ask him, or an operator")
    assert dispatch(words.split()) == ends
    assert f"gpud {words.split()[0]}: job 3 is bob's; ask him, or an operator" in capsys.readouterr().err


def test_what_holds_after_a_change_is_said(control: Control, capsys: Said) -> None:
    memory = MemoryView(
        device=0, used=9 << 30, reserved=0, limit=8 << 30, overhead=None, over=True, place="set by ann (uid 1000)"
    )
    time = TimeView(
        device=0, spent_ns=0, busy=None, estimated=False, share=None, lag_ns=0, turn=False, limit=0.125, left_ns=0,
        stuck=False,
    )  # fmt: skip
    changed = evolve(job(3), memory=(memory, evolve(memory, device=1, limit=None, over=False)), time=(time,))
    control.script = lambda ask: wire.SetAnswer(job=evolve(changed, pinned=True))
    assert dispatch(["set", "3", "class=low", "mem=8GiB", "compute=12.5%"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "job 3 (train) is low, pinned",
        "job 3 (train) has at most 8 GiB of memory on gpu 0 (set by ann (uid 1000)); it holds 9 GiB and may only free",
        "job 3 (train) has no limit of memory on gpu 1",
        "job 3 (train) has at most 12.5% of GPU time on gpu 0",
    ]
    control.script = lambda ask: wire.SetAnswer(job=job(3))
    assert dispatch(["set", "3", "mem=8GiB"]) == 0
    assert capsys.readouterr().out == "job 3 (train): set; it has no device yet\n"


def test_why_names_who_has_set_what_no_policy_says(control: Control, capsys: Said) -> None:
    limit = Explained(
        policy="", file="", line=0, knob="memory", value="8GiB", rule="", by="ann (uid 1000)"
    )  # fmt: skip
    built_in = evolve(limit, knob="low.window", value="16", by="")
    looser = evolve(built_in, policy="quotas", file="quotas.gpol", line=12, knob="low.memory", value="9GiB")
    device = WhyDevice(
        device=0, uuid="GPU-1", policies=("quotas",), arbiter="open", rank=0,
        knobs=tuple(ExplainView(because=one, in_force=one is not looser) for one in (limit, built_in, looser)),
    )  # fmt: skip
    control.script = lambda ask: wire.WhyAnswer(why=WhyView(job=job(3), hold=None, devices=(device,)))
    assert dispatch(["why", "3"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[lines.index("memory = 8GiB") + 1] == "set by ann (uid 1000)"
    assert lines[lines.index("low.memory = 9GiB   (something else is tighter)") + 1] == "quotas.gpol:12"
    assert lines[-1] == "as built in: window"


def test_stats_of_all_and_of_one(control: Control, capsys: Said) -> None:
    assert dispatch(["stats"]) == 0
    header, first, *_ = capsys.readouterr().out.splitlines()
    assert re.split(r"  +", header) == [
        *("job", "name", "class", "gpu time", "launches", "in flight", "held", "held for", "p50", "p99", "errors")
    ]
    assert re.split(r"  +", first.strip()) == [
        *("3", "train", "low", "12 s", "12,345", "5", "9", "70ms", "< 16us", "< 2.048ms", "2")
    ]
    assert dispatch(["stats", "train"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "3 let through by the policy's patience" in lines[2]
    assert lines[7].split() == ["<", "16us", "█" * 40, "8"]
    assert lines[-1].split() == ["<", "2.048ms", "█" * 5, "1"]
    assert len(lines) == 7 + 8
    control.script = lambda ask: wire.StatsAnswer(stats=[])
    assert dispatch(["stats"]) == 0
    assert "no jobs" in capsys.readouterr().out


def test_json_is_what_came(control: Control, capsys: Said) -> None:
    assert dispatch(["pause", "3", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done == json.loads(msgspec.json.encode(answers(wire.AskPause(job=3)))) | {"type": "done"}
    assert dispatch(["stats", "train", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert one["job"]["id"] == 3
    assert one["held_histogram"][3] == 8
