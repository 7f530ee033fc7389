"""A daemon of the machine, run as root, and users who are not: they run jobs, see what they may, change their own."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gpud.model.errors import Refused, UsageError
from gpud.model.units import SECOND
from tests.daemon.conftest import PATIENCE_S, Daemon, Program, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
NOBODY, STRANGER, GAMES = 65534, 54321, 60
"""Users; and a group that every Unix has and nobody is in."""
BY_USER = """
gpol 1
policy "by-user" {
  class theirs { match user == "nobody" }
  class others { match any }
  arbitrate preempt { order = [theirs, others]  resume_after = 1ms }
}
"""
HOOK = """
import os, sys
from gpud.testing import fake_hook
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(*[int(sys.argv[1])] * 3)
raise SystemExit(fake_hook.main(sys.argv[2:]))
"""
ASKS = """
import json, os, sys
import msgspec
from gpud.config import load_config
from gpud.control import client, wire
from gpud.model.errors import GpudError
uid, groups, asks = json.loads(sys.argv[1])
config = load_config()  # what this imports may be where only root looks
os.setgroups(groups)
os.setresgid(65534, 65534, 65534)
os.setresuid(uid, uid, uid)
for name, arguments in asks:
    with client.Client(config) as daemon:
        try:
            if name == "set":
                arguments = [wire.AskSet(**arguments[0])]
            answer = getattr(daemon, name)(*arguments)
            print(json.dumps(["ok", msgspec.to_builtins(answer)]), flush=True)
        except GpudError as error:
            print(json.dumps([type(error).__name__, str(error)]), flush=True)
"""


RUN = """
import os, sys
from gpud.cli.run import run
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(*[int(sys.argv[1])] * 3)
sys.exit(run(sys.argv[2:]))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """Where everybody may go (pytest's own places are root's)."""
    directory = Path(tempfile.mkdtemp(prefix="gpud-users-"))
    directory.chmod(0o755)
    (directory / "policies").mkdir()
    (directory / "policies" / "by-user.gpol").write_text(BY_USER)
    yield directory
    shutil.rmtree(directory)


def started(place: Path, control: str = "") -> Daemon:
    (place / "config" / "gpud").mkdir(parents=True)
    (place / "config" / "gpud" / "gpud.toml").write_text(f"[control]\n{control}\n")
    daemon = Daemon(place / "run", policy="by-user", policies=place / "policies")
    before = os.umask(0o077)  # as careful as it gets
    try:
        daemon.start()
    finally:
        os.umask(before)
    return daemon


@pytest.fixture
def system(place: Path) -> Iterator[Daemon]:
    daemon = started(place)
    yield daemon
    daemon.close()


def program(daemon: Daemon, uid: int) -> Program:
    """A process of that user with a client in it."""
    command = [sys.executable, "-c", HOOK, str(uid), str(daemon.config.hook_socket)]
    made = Program(daemon.config, command)
    daemon.programs.append(made)
    made.attach()
    return made


def asks(daemon: Daemon, uid: int, *asked: tuple[str, list[Any]], groups: tuple[int, ...] = ()) -> list[Any]:
    """[`ok`, answer] or [error, text] of each."""
    done = subprocess.run(
        [sys.executable, "-c", ASKS, json.dumps([uid, groups, asked])],
        env=daemon.environment, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def job_of(daemon: Daemon, made: Program) -> int:
    with daemon.client() as client:
        return client.job_of(made.pid).id


def changes(job: int) -> list[tuple[str, list[Any]]]:
    return [
        ("set", [{"job": job, "job_class": "others"}]),
        ("set", [{"job": job, "memory_bytes": 1 << 30}]),
        ("pause", [job]),
        ("resume", [job]),
        ("evict", [job]),
        ("kill", [job, "KILL"]),
    ]


def audit(daemon: Daemon) -> list[str]:
    return [line for line in daemon.log().splitlines() if re.search(r"\(uid \d+, pid \d+\): ", line)]


def test_everybody_may_come_in_and_nobody_else_may_write(system: Daemon) -> None:
    program(system, NOBODY)
    modes: dict[str, int] = {}
    for path in (system.directory, *system.directory.iterdir()):
        with suppress(FileNotFoundError):  # state.json.new is state.json by now
            modes[path.name] = stat.S_IMODE(path.lstat().st_mode)
    assert modes["run"] == 0o755
    assert (modes["hook.sock"], modes["control.sock"]) == (0o666, 0o666)
    assert (modes["daemon.lock"], modes["state.json"]) == (0o600, 0o600)
    assert [name for name, mode in modes.items() if mode & 0o022 and not name.endswith(".sock")] == []


def test_a_job_of_another_user(system: Daemon) -> None:
    """Its class by its user, pages by descriptor: what it writes is read, what is written it sees."""
    theirs, roots = program(system, NOBODY), program(system, 0)
    with system.client() as client:
        jobs = {job.user: job for job in client.ps()}
        assert (jobs["nobody"].job_class, jobs["root"].job_class) == ("theirs", "others")
        assert theirs.gate()[2] == 0
        assert roots.gate()[2] == 1
        theirs.do("set_active", 0, True)
        assert client.why(jobs["nobody"].id).job.state == "active"
        until(lambda: roots.do("sees_active", 0), "the hook of root's job sees that nobody's is active")
    # Over a restart of the daemon it is the same job.
    system.kill()
    system.start()
    theirs.do("attribute", "closed")
    theirs.attach(True)
    with system.client() as client:
        (again,) = [job for job in client.ps() if job.user == "nobody" and job.pids]
        assert (again.id, again.job_class) == (jobs["nobody"].id, "theirs")


@pytest.mark.usefixtures("read_by_others")
def test_gpud_run_of_another_user(system: Daemon) -> None:
    """It finds the daemon, is let in, and ends as its owner says."""
    shell = ["/bin/sh", "-c", "echo $LD_PRELOAD; read line"]
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(NOBODY), "--name", "theirs", "--", *shell],
        env=system.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        assert run.stdout is not None
        assert "libgpud_hook.so" in run.stdout.readline()
        with system.client() as client:
            (job,) = client.ps()
        assert (job.user, job.job_class, job.name, job.launcher_pid) == ("nobody", "theirs", "theirs", run.pid)
        (strangers,) = asks(system, STRANGER, ("kill", [job.id]))
        assert strangers[0] == "Refused"
        (killed,) = asks(system, NOBODY, ("kill", [job.id]))
        assert killed[0] == "ok", killed
        assert run.wait(PATIENCE_S) == 128 + signal.SIGTERM


@pytest.mark.usefixtures("read_by_others")
def test_a_claim_of_another_user_is_judged_by_the_configuration(system: Daemon) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(NOBODY), "--class", "theirs", "--", "/bin/true"],
        env=system.environment, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 77
    assert "nobody may not claim --class theirs: nobody may, by [claims] of gpud.toml" in done.stderr


def test_an_owner_changes_own_jobs(system: Daemon) -> None:
    theirs = program(system, NOBODY)
    job = job_of(system, theirs)
    paused, again, down, up, resumed = asks(
        system, NOBODY, ("pause", [job]), ("ps", []), ("set", [{"job": job, "job_class": "others", "compute_ppm": 5}]),
        ("set", [{"job": job, "job_class": None}]), ("resume", [job]),
    )  # fmt: skip
    assert paused[0] == "ok", paused
    assert f") is paused: launches wait until gpud resume {job}" in paused[1]["text"]
    assert (again[1][0]["state"], again[1][0]["paused_by"]) == ("paused", f"nobody (uid {NOBODY})")
    assert down[1]["job_class"] == "others"
    assert up[1]["job_class"] == "theirs"
    assert resumed[0] == "ok"
    lines = audit(system)
    assert len(lines) == 4
    assert all(f"nobody (uid {NOBODY}, pid " in line for line in lines)
    assert f"set job_class=others compute_ppm=5 of job {job}: done" in lines[1]


def test_a_user_tries_every_changing_verb_on_another_users_job(system: Daemon) -> None:
    roots = program(system, 0)
    job, before = job_of(system, roots), roots.gate()
    answers = asks(system, NOBODY, *changes(job))
    for name, answer in zip([name for name, _ in changes(job)], answers, strict=True):
        assert answer[0] == "Refused", (name, answer)
        assert answer[1].startswith(f"{name}: job {job} ("), answer
        assert answer[1].endswith(
            f") is root's, who may change it, and so may root or a member of the group gpud-operators; you are nobody "
            f"(uid {NOBODY})"
        )
    for name, arguments in (("stop", [False]), ("reload", []), ("rollback", [])):
        (answer,) = asks(system, NOBODY, (name, arguments))
        assert answer[0] == "Refused"
        assert answer[1].startswith(f"{name} is for operators: root or a member of the group gpud-operators; you are")
    assert roots.gate() == before
    assert roots.process.poll() is None
    lines = audit(system)
    assert len(lines) == 9
    assert all(": denied: " in line for line in lines)
    with system.client() as client:
        assert client.ps()[0].paused_by == ""


def test_denials_do_not_fill_the_log(system: Daemon) -> None:
    job = job_of(system, program(system, 0))
    asks(system, NOBODY, *[("pause", [job])] * 40)
    assert 10 <= len(audit(system)) <= 14


def test_a_member_of_the_group_changes_everything(place: Path) -> None:
    daemon = started(place, 'operators = "games"')
    try:
        roots = program(daemon, 0)
        job = job_of(daemon, roots)
        paused, reloaded, killed = asks(
            daemon, NOBODY, ("pause", [job]), ("reload", []), ("kill", [job, "KILL"]), groups=(GAMES,)
        )
        assert (paused[0], reloaded[0], killed[0]) == ("ok", "ok", "ok")
        assert roots.process.wait(PATIENCE_S) == -signal.SIGKILL
        (denied,) = asks(daemon, NOBODY, ("reload", []))
        assert denied[0] == "Refused"
    finally:
        daemon.close()


def test_where_users_see_their_own_jobs_only(place: Path) -> None:
    daemon = started(place, 'readers = "owners"')
    try:
        theirs, roots = program(daemon, NOBODY), program(daemon, 0)
        own, other = job_of(daemon, theirs), job_of(daemon, roots)
        listed, why, stats, of, status, paused = asks(
            daemon, NOBODY, ("ps", []), ("why", [other]), ("stats", [other]), ("job_of", [roots.pid]), ("status", []),
            ("pause", [other]),
        )  # fmt: skip
        assert [job["id"] for job in listed[1]] == [own]
        for answer in (why, stats):
            assert answer == ["UsageError", f"there is no job {other} of yours; jobs of yours now: {own} (gpud ps)"]
        assert of == ["UsageError", "that process belongs to no job of yours"]
        assert status[0] == "ok"
        assert str(other) not in str(status[1]["devices"][0]["jobs"])
        assert paused[:1] == ["Refused"]
        assert paused[1] == f"pause: there is no job {other} of yours; you are nobody (uid {NOBODY})"
        (strangers,) = asks(daemon, STRANGER, ("ps", []))
        assert strangers == ["ok", []]
    finally:
        daemon.close()


def test_where_only_operators_read(place: Path) -> None:
    daemon = started(place, 'readers = "operators"')
    try:
        theirs = program(daemon, NOBODY)
        job = job_of(daemon, theirs)
        listed, paused = asks(daemon, NOBODY, ("ps", []), ("pause", [job]))
        assert listed[0] == "Refused"
        assert "only root or a member of the group gpud-operators may read here" in listed[1]
        assert paused[0] == "ok"
    finally:
        daemon.close()


def test_what_an_operator_has_paused_its_owner_does_not_resume(system: Daemon) -> None:
    theirs = program(system, NOBODY)
    job = job_of(system, theirs)
    with system.client() as client:
        client.pause(job)
    (answer,) = asks(system, NOBODY, ("resume", [job]))
    assert answer[0] == "Refused"
    assert answer[1] == f"job {job}: it is paused by root (uid 0), an operator; only an operator takes that back"
    with system.client() as client:
        assert client.resume(job).job.paused_by == ""


def test_a_job_that_ended_a_moment_ago_cannot_be_killed(system: Daemon) -> None:
    theirs = program(system, NOBODY)
    job = job_of(system, theirs)
    (killed,) = asks(system, NOBODY, ("kill", [job, "TERM", [theirs.pid]]))
    assert killed[0] == "ok", killed
    assert f"SIGTERM was sent to pid {theirs.pid} of job {job}" in killed[1]["text"]
    assert theirs.process.wait(PATIENCE_S) == -signal.SIGTERM
    with system.client() as client:
        until(lambda: not client.ps(), "the job is gone")
        with pytest.raises(UsageError, match=f"job {job} has ended; there are no jobs now"):
            client.kill(job)


def test_a_signal_for_processes_that_are_others_by_now(system: Daemon) -> None:
    made = program(system, 0)
    job = job_of(system, made)
    with system.client() as client:
        with pytest.raises(
            Refused, match=rf"job {job} has other processes by now \(pid {made.pid}\): nothing was sent"
        ):
            client.kill(job, "KILL", (made.pid, made.pid + 1))
        for name in ("9; rm", "", "SIGTERM", "term", "KILL\0", "RTMIN", "\x1b[2J" * 1000):
            with pytest.raises(Refused, match="no signal that a job can be sent is called"):
                client.kill(job, name)
    assert made.process.poll() is None


def test_a_daemon_stopped_by_somebody_else_goes_on(system: Daemon) -> None:
    (answer,) = asks(system, STRANGER, ("stop", [False]))
    assert answer[0] == "Refused"
    assert f"you are {STRANGER} (uid {STRANGER})" in answer[1]
    with system.client() as client:
        assert client.status().uptime_ns < 600 * SECOND


def test_a_change_is_in_the_log_however_little_else_is(place: Path) -> None:
    daemon = Daemon(place / "run", policy="by-user", policies=place / "policies", environment={"GPUD_LOG": "error"})
    try:
        daemon.start()
        job = job_of(daemon, program(daemon, NOBODY))
        (paused,) = asks(daemon, NOBODY, ("pause", [job]))
        assert paused[0] == "ok", paused
        assert [line.partition("): ")[2] for line in audit(daemon)] == [f"pause of job {job}: {paused[1]['text']}"]
    finally:
        daemon.close()
