"""The other verbs: what they print, and what they say when something is missing."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest
from attrs import evolve

from gpud.cli import act, ps, stats, verbs, why
from gpud.cli import set as set_verb
from gpud.cli.checks import parts
from gpud.cli.demo import prerequisites
from gpud.cli.failure import Failure
from gpud.cli.gpu_time import brief, lines
from gpud.cli.policy import history
from gpud.cli.policy.changes import plan_lines, rejected_text, set_line
from gpud.cli.verbs import VERBS
from gpud.control import wire
from gpud.model.errors import UsageError
from gpud.model.policy_views import ChangeView, DevicePlanView, HistoryView, RejectedView, SetView
from gpud.model.views import HoldView, JobStats, JobView, TimeView, UnmanagedView, WhyView
from gpud.native import shipped_policies
from tests.cli.conftest import Gpud
from tests.cli.control import stats_of


def test_help_lists_every_verb(gpud: Gpud) -> None:
    done = gpud("--help")
    assert done.returncode == 0
    for verb in VERBS:
        assert f"  {verb} " in done.stdout


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_has_help(gpud: Gpud, verb: str) -> None:
    done = gpud(verb, "--help")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_version(gpud: Gpud) -> None:
    from gpud import __version__

    assert gpud("--version").stdout == f"gpud {__version__}\n"


def test_no_verb_shows_help(gpud: Gpud) -> None:
    done = gpud()
    assert done.returncode == 2
    assert "Verbs:" in done.stdout + done.stderr


def test_an_unknown_verb(gpud: Gpud) -> None:
    done = gpud("serv")
    assert done.returncode == 2
    assert "serv" in done.stderr


@pytest.mark.parametrize(
    "verb",
    [
        *("ps", "status", "stop", "why 1", "set 1 class=low"),
        *("policy show", "policy diff", "policy reload", "policy rollback", "policy history"),
    ],
)
def test_no_daemon(gpud: Gpud, verb: str, runtime: Path) -> None:
    done = gpud(*verb.split())
    assert done.returncode == 75
    assert str(runtime) in done.stderr
    assert "gpud serve" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--resume-after", "2ms"), "write --policy 'preempt-mix(quiet = 2ms)'"),
        (("--max-inflight", "4"), "write --policy 'preempt-mix(window = 4)'"),
        (("--max-pause", "1s"), "write --policy 'preempt-mix(patience = 1s)'"),
        (("--sim", "--sim-devices", "9"), "GPUD_SIM_DEVICES"),
        (("--time-scale", "2"), "--sim"),
        (("--log", "loud"), "--log"),
        (("--runtime-dir", "here"), "--runtime-dir"),
    ],
)
def test_serve_refuses_garbage(gpud: Gpud, arguments: tuple[str, ...], said: str) -> None:
    done = gpud("serve", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_names_what_is_missing_and_the_remedy(gpud: Gpud, tmp_path: Path) -> None:
    done = gpud("doctor", "--json", GPUD_NATIVE_DIR=str(tmp_path))
    findings = {finding["check"]: finding for finding in json.loads(done.stdout)}
    assert done.returncode == 1
    assert findings["hook"]["result"] == "fail"
    assert "make build" in findings["hook"]["remedy"]
    assert findings["simulator"]["result"] == "warn"
    assert findings["daemon"]["result"] == "warn"
    assert "gpud serve" in findings["daemon"]["remedy"]
    assert findings["kernel"]["result"] in ("ok", "warn")


def test_doctor_finds_a_hook_that_exports_nothing(gpud: Gpud) -> None:
    done = gpud("doctor")
    assert done.returncode == 1
    assert "does not export cuLaunchKernel" in done.stdout


def test_doctor_looks_at_the_policies(gpud: Gpud, tmp_path: Path) -> None:
    (tmp_path / "p.gpol").write_text("gpol 1\npolicy {")
    findings = {}
    for directory in (shipped_policies(), tmp_path):
        done = gpud("doctor", "--json", GPUD_POLICIES=str(directory))
        findings[directory] = {finding["check"]: finding for finding in json.loads(done.stdout)}["policies"]
    assert findings[shipped_policies()]["result"] == "ok"
    assert findings[tmp_path]["result"] == "fail"
    assert findings[tmp_path]["remedy"] == f"see: gpud policy check {tmp_path}"


def test_doctor_tells_of_mps(gpud: Gpud, tmp_path: Path) -> None:
    """Without a server whatever the pipe says; with one, what that means and how to be rid of it."""
    os.mkfifo(tmp_path / "control")
    binary = tmp_path / "nvidia-cuda-mps-control"
    shutil.copy(shutil.which("cat") or "/bin/cat", binary)

    def finding(directory: Path) -> dict[str, str]:
        done = gpud("doctor", "--json", CUDA_MPS_PIPE_DIRECTORY=str(directory))
        return {finding["check"]: finding for finding in json.loads(done.stdout)}["mps"]

    with subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as control:
        assert finding(tmp_path / "elsewhere")["result"] == "ok"
        found = finding(tmp_path)
        control.communicate()
    assert found["result"] == "warn"
    assert str(tmp_path) in found["text"]
    assert "side by side" in found["text"]
    assert "nvidia-cuda-mps-control" in found["remedy"]


def test_doctor_names_a_misspelt_variable(gpud: Gpud) -> None:
    assert "GPUD_LGO" in gpud("doctor", GPUD_LGO="debug").stdout


def test_doctor_survives_garbage_in_a_variable(gpud: Gpud) -> None:
    done = gpud("doctor", GPUD_LOG="loud")
    assert done.returncode == 1
    assert "GPUD_LOG" in done.stdout


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_doctor_names_a_directory_of_somebody_else(gpud: Gpud, runtime: Path) -> None:
    os.chown(runtime, 65534, 65534)
    done = gpud("doctor")
    assert done.returncode == 1
    assert "owner 65534" in done.stdout


def test_without_a_terminal_output_is_plain(gpud: Gpud) -> None:
    assert "\x1b" not in gpud("doctor").stdout
    assert "\x1b" not in gpud("doctor", FORCE_COLOR="1", NO_COLOR="1").stdout


def test_the_demo_names_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites, "PACKAGES", {"no_such_module": "numba-cuda", "no_such.module": "cuda-bindings"})
    with pytest.raises(Failure, match="numba-cuda, cuda-bindings") as caught:
        prerequisites.check(simulated=True)
    assert caught.value.remedy == "pip install 'gpud[demo]'"


def test_the_demo_refuses_a_linker_that_makes_cubins(
    monkeypatch: pytest.MonkeyPatch, natives: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUD_NATIVE_DIR", str(natives))
    monkeypatch.setattr(prerequisites, "PACKAGES", {})
    info = tmp_path / "nvidia_nvjitlink-13.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-nvjitlink\nVersion: 13.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Failure, match="nvidia-nvjitlink is installed") as caught:
        prerequisites.check(simulated=True)
    assert "pip uninstall nvidia-nvjitlink" in caught.value.remedy
    monkeypatch.setattr(prerequisites, "missing_packages", lambda: [])
    assert [finding.result for finding in parts.demo()] == ["warn"]


def test_the_demo_needs_a_c_compiler(monkeypatch: pytest.MonkeyPatch, natives: Path) -> None:
    monkeypatch.setattr(prerequisites, "COMPILERS", ("no-such-compiler",))
    monkeypatch.delenv("CC", raising=False)
    assert prerequisites.compiler() is None


def test_the_demo_refuses_a_picture_in_no_directory(gpud: Gpud) -> None:
    done = gpud("demo", "--out", "/nowhere/x.svg")
    assert done.returncode == 125
    assert "/nowhere/x.svg" in done.stderr


def test_the_demo_without_a_driver_and_asked_for_a_real_device(gpud: Gpud) -> None:
    if prerequisites.real_driver():
        pytest.skip("there is a driver here")
    done = gpud("demo", "--device", "real")
    assert done.returncode == 125
    assert "--device sim" in done.stderr


def test_show_and_status_of_a_daemon_that_could_load_nothing() -> None:
    running = SetView(
        number=0, digest="", directory="/d", applied=None, since_ns=1, how="struck out", probation_ns=0,
        differs="set 3f2a was given up: policy p: it is slow",
    )  # fmt: skip
    assert set_line(running) == "none: every gate is open"
    rejected = RejectedView(
        digest="77ab", at_ns=time.time_ns(), count=2, summary="1 error in 1 file", text="error[GP101]\n"
    )
    hour = time.strftime("%H", time.localtime(rejected.at_ns // 1_000_000_000))
    assert set_line(evolve(running, rejected=rejected)).startswith(f"none: every gate is open, 2 rejected {hour}")
    loaded = evolve(running, number=4, digest="3f2a" * 16, differs="", how="files")
    assert (
        set_line(loaded) == "set 3f2a, since 1970-01-01 " + time.strftime("%H:%M:%S", time.localtime(0)) + " by files"
    )
    assert "set 3f2a (last good)" in set_line(evolve(loaded, differs="x"))
    assert rejected_text(rejected) == "error[GP101]\n\n1 error in 1 file\n"


def test_plans_as_text() -> None:
    change = ChangeView(sign="~", policy="p", line=3, text="quiet = 1ms → 2ms")
    plan = DevicePlanView(devices=(0, 2), others=False, before="p", after="p", changes=(change,))
    assert plan_lines([plan]) == ["gpu 0, 2: p", "  ~ p:3  quiet = 1ms → 2ms"]
    assert plan_lines([evolve(plan, others=True, after="p, q")])[0] == "gpu 0, 2 and every other: p → p, q"
    assert plan_lines([evolve(plan, devices=(), others=True, before="")])[0] == "every gpu that comes: no policy → p"


JOB = JobView(
    id=3, name="[/x] [red]", user="ann", job_class="low", state="held", pids=(7,), launcher_pid=None, command="x",
    labels={}, devices=(0,), age_ns=1, used_bytes=0,
    why=HoldView(code="preempt", text="held: job 1 ([/high]) is active", held_by=1, for_ns=1, device=0),
)  # fmt: skip


class OneJob:
    """A daemon with one job, whose name looks like markup."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ps(self) -> list[JobView]:
        return [JOB]

    def unmanaged(self) -> list[UnmanagedView]:
        return []


def test_a_job_may_be_called_anything(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ps, "client", OneJob)
    assert verbs.dispatch(["ps"]) == 0
    said = capsys.readouterr().out
    assert "[/x] [red]" in said
    assert "([/high]) is active" in said


def test_why_names_the_code_and_the_line_of_the_policy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Held(OneJob):
        by = "[x].gpol:12"

        def why(self, job: int) -> WhyView:
            assert JOB.why is not None
            return WhyView(job=JOB, hold=evolve(JOB.why, by=self.by), devices=())

    monkeypatch.setattr(why, "client", Held)
    assert verbs.dispatch(["why", "3"]) == 0
    assert "  held: job 1 ([/high]) is active\n      preempt, [x].gpol:12\n" in capsys.readouterr().out
    assert verbs.dispatch(["why", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hold"]["by"] == "[x].gpol:12"
    monkeypatch.setattr(Held, "by", "")
    assert verbs.dispatch(["why", "3"]) == 0
    assert "      preempt\n" in capsys.readouterr().out


TIME = TimeView(
    device=0, spent_ns=12_300_000_000, busy=0.24, estimated=False, share=0.3, lag_ns=12_000_000, turn=False, limit=None,
    left_ns=0, stuck=False,
)  # fmt: skip


def test_gpu_time_in_a_few_words() -> None:
    assert brief(TIME) == "24% of 30%"
    assert brief(evolve(TIME, limit=0.25)) == "24% of 25%"
    assert brief(evolve(TIME, share=None)) == "24%"
    assert brief(evolve(TIME, busy=None)) == "12 s"
    assert brief(evolve(TIME, barred="words")) == "24% of 30%, passed over"
    assert lines(evolve(TIME, barred="claims"))[2:] == [
        "it takes no part in the turns of others for a while: it keeps others waiting and uses next to nothing"
    ]
    assert lines(TIME) == ["GPU time: 24.0% of the device now, 12.3 s in all", "share: 30%, 12ms behind"]
    assert (
        lines(evolve(TIME, share=1 / 3, lag_ns=-2_000_000, turn=True))[1]
        == "share: 33.333%, 2ms ahead; it has the turn"
    )
    assert lines(evolve(TIME, lag_ns=3))[1] == "share: 30%, even with it"
    assert lines(evolve(TIME, share=None, limit=0.4, left_ns=18_000_000))[1:] == ["limit: 40% of the device, 18ms left"]
    assert lines(evolve(TIME, share=None, limit=0.125, left_ns=-5_000_000))[1:] == [
        "limit: 12.5% of the device, 5ms owed"
    ]
    assert lines(evolve(TIME, share=None, busy=None, estimated=True, stuck=True)) == [
        "GPU time: 12.3 s in all, estimated: it was measured beside other jobs only",
        "it has lost its rank: it was active for ten seconds, used nothing and finished nothing",
    ]


def test_ps_shows_gpu_time_and_processes_without_gpud(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Two(OneJob):
        def ps(self) -> list[JobView]:
            return [evolve(JOB, time=(TIME,))]

        def unmanaged(self) -> list[UnmanagedView]:
            return [
                UnmanagedView(pid=99, user="eve", command="/opt/miner --fast", device=0, uuid="x", used_bytes=2**30)
            ]

    monkeypatch.setattr(ps, "client", Two)
    assert verbs.dispatch(["ps"]) == 0
    header, job, stranger = capsys.readouterr().out.splitlines()
    assert "gpu time" in header
    assert "24% of 30%" in job
    assert stranger.split()[:3] == ["–", "miner", "eve"]
    assert "unmanaged" in stranger
    assert "1 GiB" in stranger
    assert "99" in stranger


def test_what_the_system_refuses_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> None:
        raise OSError(24, "Too many open files", "/proc/x")

    monkeypatch.setattr(ps, "client", full)
    assert verbs.dispatch(["ps"]) == 125
    assert "gpud ps: the system refused: too many open files: /proc/x\n  look at ulimit -n" in capsys.readouterr().err


EVIL = "a\x1b]0;x\x07\x1b[31m\u202eb\nc"


def test_no_name_writes_to_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Job, class, file and policy names, and what an answer says of them."""

    class Evil(OneJob):
        def ps(self) -> list[JobView]:
            return [evolve(JOB, name=EVIL, user=EVIL, job_class=EVIL, pinned=True)]

        def set(self, change: wire.AskSet) -> JobView:
            return self.ps()[0]

        def stats(self, job: int | None = None) -> list[JobStats]:
            return [stats_of(self.ps()[0])]

        def pause(self, job: int) -> wire.DoneAnswer:
            return wire.DoneAnswer(job=self.ps()[0], text=EVIL)

        def history(self) -> list[HistoryView]:
            one = HistoryView(
                number=1, digest="ab", began_ns=0, how="start", files=(EVIL,), applied=EVIL, running=True, proved=True,
                failed=EVIL,
            )  # fmt: skip
            return [one]

        def why(self, job: int) -> object:
            raise UsageError(EVIL)

    for module in (act, ps, set_verb, stats, history, why):
        monkeypatch.setattr(module, "client", Evil)
    for words in (
        *(["ps"], ["set", "1", "class=high"], ["policy", "history"], ["why", "1"]),
        *(["stats"], ["stats", "1"], ["pause", "1"], ["why", EVIL]),
    ):
        verbs.dispatch(words)
        said = capsys.readouterr()
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", said.out + said.err), words
        assert "\\x1b]0;x\\x07" in said.out + said.err, words


def test_plans_write_nothing_to_the_terminal() -> None:
    change = ChangeView(sign="+", policy="p", line=1, text=f"because {EVIL}")
    plan = DevicePlanView(devices=(0,), others=False, before=EVIL, after="p", changes=(change,))
    for line in plan_lines([plan]):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", line)
