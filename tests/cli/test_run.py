"""`gpud run`: exit codes, environment, what is refused, and what it says."""

import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpud.cli import run
from gpud.cli.launch import ask_for_job
from tests.cli.conftest import FakeDaemon, Gpud, message, text

PRINT_ENVIRONMENT = "import os, json; print(json.dumps(dict(os.environ)))"


def test_the_exit_code_is_the_programs_own(gpud: Gpud, daemon: FakeDaemon) -> None:
    assert gpud("run", "true").returncode == 0
    assert gpud("run", "sh", "-c", "exit 37").returncode == 37


def test_a_signal_is_reported_as_shells_do(gpud: Gpud, daemon: FakeDaemon) -> None:
    assert gpud("run", "sh", "-c", "kill -KILL $$").returncode == 128 + 9
    assert gpud("run", "sh", "-c", "kill -TERM $$").returncode == 128 + 15


def test_the_program_is_a_child_in_the_same_process_group(gpud: Gpud, daemon: FakeDaemon) -> None:
    code = "import os; print(os.getpgid(0) == os.getpgid(os.getppid()), open(f'/proc/{os.getppid()}/cmdline').read())"
    out = gpud("run", sys.executable, "-c", code).stdout
    assert out.startswith("True")
    assert "gpud.cli.main\0run" in out


def test_options_end_at_the_first_word_that_is_none(gpud: Gpud, daemon: FakeDaemon) -> None:
    done = gpud("run", "--label", "tier=online", "--name=web", "echo", "--label", "x", "--", "-v")
    assert done.stdout == "--label x -- -v\n"
    assert {"label.tier=online", "name=web", "command=echo --label x -- -v"} <= set(daemon.launches[0])


def test_a_double_dash_ends_options(gpud: Gpud, daemon: FakeDaemon) -> None:
    assert gpud("run", "--class", "high", "--", "echo", "--", "a").stdout == "-- a\n"
    assert "class=high" in daemon.launches[0]
    assert "name=echo" in daemon.launches[0]
    assert f"exe={shutil.which('echo')}" in daemon.launches[0]


def test_arguments_that_are_no_utf8_reach_the_program_untouched(gpud: Gpud, daemon: FakeDaemon) -> None:
    odd = os.fsdecode(b"a\xffb\nc")
    done = gpud("run", "sh", "-c", 'printf %s "$1" | od -An -tx1', "sh", odd)
    assert done.stdout.split() == ["61", "ff", "62", "0a", "63"]
    assert daemon.launches[0][-2].startswith("command=sh -c")


def test_hello_names_role_and_versions(gpud: Gpud, daemon: FakeDaemon) -> None:
    gpud("run", "true")
    assert daemon.hellos[0] == (0x4447, 1, 32, 1, 1, 2, 0, 4, 0, 0)


def test_the_hook_is_preloaded_before_what_was_there(gpud: Gpud, daemon: FakeDaemon, natives: Path, cc: str) -> None:
    hook = natives / "libgpud_hook.so"
    done = gpud("run", "sh", "-c", 'echo "$LD_PRELOAD $HOOK_LOADED"', LD_PRELOAD="libm.so.6")
    assert done.stdout == f"{hook}:libm.so.6 1\n"
    assert gpud("run", "sh", "-c", 'echo "$LD_PRELOAD"').stdout == f"{hook}\n"


def test_the_daemons_environment_reaches_the_program(gpud: Gpud, daemon: FakeDaemon, runtime: Path) -> None:
    daemon.answer = message(70, text(3, "GPUD_SIM_NODE=node-a\nLD_LIBRARY_PATH=/sim"))
    script = 'echo "$GPUD_SIM_NODE $LD_LIBRARY_PATH $GPUD_RUNTIME_DIR"'
    assert gpud("run", "sh", "-c", script, LD_LIBRARY_PATH="/mine").stdout == f"node-a /sim:/mine {runtime}\n"


def test_only_line_ends_part_the_daemons_lines(gpud: Gpud, daemon: FakeDaemon) -> None:
    daemon.answer = message(70, text(3, "GPUD_SIM_NODE=a\x0bb\u2028c\n"))
    assert gpud("run", "sh", "-c", 'printf %s "$GPUD_SIM_NODE"').stdout == "a\x0bb\u2028c"


def test_what_the_system_refuses_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(arguments: list[str]) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(run, "parse", full)
    assert run.run(["true"]) == 125
    said = capsys.readouterr().err
    assert "too many open files" in said
    assert "ulimit -n" in said


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("10s", 10), ("2min", 120), ("1h", 3600), ("90us", 9e-5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert run.duration_s(text) == pytest.approx(seconds)


def test_the_simulated_driver_comes_first_on_request(
    gpud: Gpud, daemon: FakeDaemon, natives: Path, tmp_path: Path
) -> None:
    refused = gpud("run", "--sim", "true")
    assert refused.returncode == 125
    assert f"{natives}/sim/libcuda.so.1" in refused.stderr
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "libcuda.so.1").write_text("")
    (tmp_path / "libgpud_hook.so").symlink_to(natives / "libgpud_hook.so")
    script = 'echo "$LD_LIBRARY_PATH $GPUD_SIM_NODE"'
    done = gpud("run", "--sim", "sh", "-c", script, GPUD_NATIVE_DIR=str(tmp_path), LD_LIBRARY_PATH="/mine")
    assert done.stdout == f"{tmp_path}/sim:/mine user-{os.getuid()}\n"
    daemon.answer = message(70, text(1, f"GPUD_SIM_NODE=theirs\nLD_LIBRARY_PATH={tmp_path}/sim\n"))
    done = gpud("run", "--sim", "sh", "-c", script, GPUD_NATIVE_DIR=str(tmp_path))
    assert done.stdout == f"{tmp_path}/sim theirs\n"


def test_the_device_is_chosen(gpud: Gpud, daemon: FakeDaemon) -> None:
    daemon.answer = message(70, text(1, "CUDA_VISIBLE_DEVICES=GPU-1\n"))
    script = 'echo "$CUDA_VISIBLE_DEVICES"'
    assert gpud("run", "--gpu", "1", "sh", "-c", script, CUDA_VISIBLE_DEVICES="7").stdout == "GPU-1\n"
    assert "gpu=1" in daemon.launches[0]
    assert gpud("run", "--gpus", "3", "sh", "-c", script).stdout == "GPU-1\n"
    assert "gpus=3" in daemon.launches[1]


def test_limits_are_asked_for_in_plain_numbers(gpud: Gpud, daemon: FakeDaemon) -> None:
    assert gpud("run", "--mem", "1.5GiB", "--compute=12.5%", "true").returncode == 0
    assert {"mem=1610612736", "compute=125000"} <= set(daemon.launches[0])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--mem", "8"), "--mem: '8' has no unit"),
        (("--mem", "4kB"), "--mem 4kB is less than 1MiB"),
        (("--compute", "101%"), "--compute: '101%' is more than 100%"),
        (("--compute", "0%"), "--compute 0%: every launch would wait"),
        (("--gpus", "0"), "--gpus '0' is not a number from 1 to 8"),
        (("--gpus", "two"), "--gpus 'two' is not a number"),
        (("--gpus", "9"), "--gpus '9' is not"),
        (("--gpus", "1", "--gpu", "0"), "--gpu and --gpus exclude each other"),
        (("--timeout", "soon"), "not a duration: 'soon'"),
    ],
)
def test_a_request_that_cannot_be_meant(gpud: Gpud, daemon: FakeDaemon, options: tuple[str, ...], says: str) -> None:
    done = gpud("run", *options, "true")
    assert done.returncode == 2
    assert says in done.stderr
    assert not daemon.launches


def test_no_daemon(gpud: Gpud, runtime: Path) -> None:
    done = gpud("run", "true")
    assert done.returncode == 75
    assert f"{runtime}/hook.sock" in done.stderr
    assert "gpud serve" in done.stderr


def test_a_socket_that_nobody_listens_on(gpud: Gpud, runtime: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(runtime / "hook.sock"))
    done = gpud("run", "true")
    assert done.returncode == 75
    assert "nobody listens" in done.stderr


def test_a_socket_that_nobody_reads(gpud: Gpud, runtime: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.bind(str(runtime / "hook.sock"))
        silent.listen(1)
        done = gpud("run", "--timeout", "200ms", "true")
    assert done.returncode == 124
    assert "did not answer within 0.2 s" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plain_file_where_the_socket_should_be(gpud: Gpud, runtime: Path) -> None:
    (runtime / "hook.sock").write_text("")
    done = gpud("run", "true")
    assert done.returncode == 75
    assert "Traceback" not in done.stderr


QUEUED = message(76, text(300, "the class gold has 2 jobs"))


def test_a_job_that_waits_in_line_says_so_and_goes_on(gpud: Gpud, daemon: FakeDaemon) -> None:
    daemon.before_answer = [QUEUED, message(76, text(0xFFFFFFFF, "others wait before it"))]
    daemon.go_on.set()
    done = gpud("run", "echo", "here")
    assert (done.returncode, done.stdout) == (0, "here\n")
    assert done.stderr.splitlines() == [
        "gpud run: waits in line, for 5 min at most: the class gold has 2 jobs",
        "gpud run: waits in line: others wait before it",
    ]


def test_a_job_that_is_not_let_in_after_all(gpud: Gpud, daemon: FakeDaemon) -> None:
    daemon.before_answer, daemon.answer = [QUEUED], message(66, text(3, "it has waited for 5min: full"))
    daemon.go_on.set()
    done = gpud("run", "true")
    assert done.returncode == 77
    assert "refused by the policy: it has waited for 5min: full" in done.stderr


def test_it_waits_in_line_for_as_long_as_the_policy_lets_it(daemon: FakeDaemon, runtime: Path) -> None:
    """Where no --timeout is given, much longer than a daemon may take to answer."""
    daemon.before_answer = [QUEUED]
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        threading.Timer(1, daemon.go_on.set).start()

    job = ask_for_job(str(runtime / "hook.sock"), [], 0.5, patient=True, say=say)
    job.connection.close()
    assert (job.id, len(said)) == (7, 1)


def test_it_waits_in_line_no_longer_than_timeout(gpud: Gpud, daemon: FakeDaemon) -> None:
    daemon.before_answer = [QUEUED]
    done = gpud("run", "--timeout", "1s", "true")
    daemon.go_on.set()
    assert done.returncode == 124
    assert "the job was not let in within 1 s: the class gold has 2 jobs" in done.stderr


@pytest.mark.parametrize(
    ("code", "expected"),
    [(3, 77), (1, 125), (6, 75), (2, 125), (5, 125)],
    ids=["policy", "version", "draining", "id", "res"],
)
def test_refusals(gpud: Gpud, daemon: FakeDaemon, code: int, expected: int) -> None:
    daemon.answer = message(66, text(code, "there is no class 'hihg'; there are: high, low"))
    done = gpud("run", "--class", "hihg", "sh", "-c", "echo ran")
    assert done.returncode == expected
    assert "there is no class 'hihg'; there are: high, low" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        message(64, b"short"),
        message(70, struct.pack("<II", 1, 99) + b"x"),
        message(70, text(1, "no equals sign")),
        message(200, b""),
        message(64, struct.pack("<Q", 1))[:-1],
    ],
)
def test_garbage_from_the_socket(gpud: Gpud, daemon: FakeDaemon, answer: bytes) -> None:
    daemon.instead_of_ping = answer
    done = gpud("run", "sh", "-c", "echo ran")
    assert done.returncode == 125
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("gpud run: ")


def test_a_daemon_that_goes_away_while_the_program_runs(daemon: FakeDaemon, environment: dict[str, str]) -> None:
    code = "import sys; print('started', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-m", "gpud.cli.main", "run", sys.executable, "-c", code],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        daemon.close()
        process.communicate("", timeout=60)
    assert process.returncode == 0


def test_what_the_daemon_says_meanwhile_is_read(daemon: FakeDaemon, environment: dict[str, str]) -> None:
    """Each process of the job that attaches is told to gpud run: thousands may not stop the daemon's sending."""
    daemon.floods = 3000
    with subprocess.Popen(
        [sys.executable, "-m", "gpud.cli.main", "run", "cat"], env=environment, stdin=subprocess.PIPE, text=True
    ) as process:
        try:
            assert daemon.flooded.wait(20)
        finally:
            process.communicate("", timeout=60)
    assert process.returncode == 0


def test_no_runtime_dir_of_the_session(gpud: Gpud) -> None:
    done = gpud("run", "true", GPUD_RUNTIME_DIR="-unset-", XDG_RUNTIME_DIR="-unset-")
    assert done.returncode == 75
    expected = "/run/gpud/hook.sock" if os.getuid() == 0 else f"gpud-{os.getuid()}"
    assert expected in done.stderr or f"/run/user/{os.getuid()}" in done.stderr


def test_a_socket_path_that_is_too_long(gpud: Gpud, runtime: Path) -> None:
    done = gpud("run", "true", GPUD_RUNTIME_DIR=str(runtime / ("x" * 100)))
    assert done.returncode == 2
    assert "107 are allowed" in done.stderr
    assert "GPUD_RUNTIME_DIR" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GPUD_RUNTIME_DIR", "relative/dir"),
        ("GPUD_NATIVE_DIR", "here"),
        ("GPUD_LOG", "loud"),
        ("GPUD_DISABLE", "yes"),
        ("GPUD_SIM_DEVICES", "nine"),
        ("GPUD_SIM_DEVICES", "9"),
        ("GPUD_SIM_TIME_SCALE", "nan"),
        ("GPUD_SIM_TIME_SCALE", "-1"),
        ("GPUD_SIM_NODE", "a b"),
    ],
)
def test_garbage_in_variables(gpud: Gpud, daemon: FakeDaemon, name: str, value: str) -> None:
    done = gpud("run", "true", **{name: value})
    assert done.returncode == 2
    assert name in done.stderr
    assert value in done.stderr
    assert daemon.launches == []


def test_a_disabled_hook_is_said(gpud: Gpud, daemon: FakeDaemon) -> None:
    done = gpud("run", "true", GPUD_DISABLE="1")
    assert done.returncode == 0
    assert "GPUD_DISABLE=1" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no command"),
        (("--label", "tier", "true"), "KEY=VALUE"),
        (("--label", "=x", "true"), "KEY=VALUE"),
        (("--label",), "--label"),
        (("--nonsense", "true"), "--nonsense"),
        (("--timeout", "soon", "true"), "'soon'"),
        (("--timeout=-1s", "true"), "'-1s'"),
        (("--timeout", "nans", "true"), "'nans'"),
        (("--clas", "high", "true"), "--clas"),
    ],
)
def test_wrong_usage(gpud: Gpud, daemon: FakeDaemon, arguments: tuple[str, ...], said: str) -> None:
    done = gpud("run", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert daemon.launches == []


def test_help(gpud: Gpud) -> None:
    done = gpud("run", "--help")
    assert done.returncode == 0
    assert "--label KEY=VALUE" in done.stdout
    assert "75 no daemon" in done.stdout


def test_run_imports_the_standard_library_only(gpud: Gpud, daemon: FakeDaemon, environment: dict[str, str]) -> None:
    done = subprocess.run(
        # -S: what the path files of other packages import is not ours
        [sys.executable, "-S", "-X", "importtime", "-m", "gpud.cli.main", "run", "true"],
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    loaded = {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "gpud.cli.run" in loaded
    assert not loaded & {"click", "attr", "attrs", "msgspec", "trio", "rich", "typing", "pathlib", "subprocess"}
