"""The daemon as a process."""

import contextlib
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gpud.model import refusals
from gpud.model.errors import GpudError, NoDaemon, UsageError
from gpud.native import sim_dir
from gpud.testing.fake_hook import FakeHook, launch
from tests.daemon.conftest import GIB, PATIENCE_S, UUID, Daemon, until

GATE_PREEMPT, GATE_WINDOW = 2, 4


def test_a_job_from_launch_to_end(daemon: Daemon) -> None:
    program = daemon.program("online")
    program.attach()
    with daemon.client() as client:
        (job,) = client.ps()
        assert (job.job_class, job.name, job.state, job.launcher_pid) == ("high", "online", "idle", program.pid)
        assert job.labels == {"tier": "online"}
        program.do("set_active", 0, True)
        assert client.ps()[0].state == "active"
        assert client.job_of(job.pids[0]).id == job.id
        assert client.job_of(program.pid).id == job.id
        with pytest.raises(UsageError, match=rf"process {os.getpid()} belongs to no job"):
            client.job_of(os.getpid())
        with pytest.raises(UsageError, match=r"there is no job 99"):
            client.stats(99)
        status = client.status()
        assert (status.jobs, status.clients) == (1, 1)
        assert [applied.name for applied in status.policies[0].policies] == ["preempt-mix"]
        assert status.attach_ns is not None
        program.end()
        until(lambda: not client.ps(), "the job is gone")


def test_why(daemon: Daemon) -> None:
    low, high = daemon.program("batch"), daemon.program("online")
    low.attach()
    high.attach()
    until(lambda: low.gate()[0] == GATE_PREEMPT | GATE_WINDOW, "low looks at high")
    low.do("pump_all")
    (entry,) = low.do("peer_table", 0)
    high.do("set_active", 0, True)
    assert low.do("sees_active", 0)
    with daemon.client() as client:
        high_job = next(job for job in client.ps() if job.job_class == "high")
        low_job = next(job for job in client.ps() if job.job_class == "low")
        fields = {"holding": 1, "hold_reason": GATE_PREEMPT, "hold_peer": entry[3]}
        low.do("set_slot", 0, fields | {"hold_since_ns": time.monotonic_ns()})
        (stats,) = client.stats(low_job.id)
        assert stats.job.state == "held"
        assert stats.job.why is not None
        assert (stats.job.why.code, stats.job.why.held_by) == ("preempt", high_job.id)
        assert f"job {high_job.id} (online, high) is active" in stats.job.why.text


def test_a_second_daemon_names_the_first(daemon: Daemon) -> None:
    assert daemon.process
    for lose_lock in (False, True):
        if lose_lock:
            daemon.config.lock_file.unlink()
        second = daemon.spawn()
        _, said = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 125
        assert f"another gpud daemon (pid {daemon.process.pid}) serves {daemon.directory}" in said
        assert "gpud stop" in said
        assert "Traceback" not in said
        assert daemon.answers()


def test_what_a_killed_daemon_leaves_is_replaced(daemon: Daemon) -> None:
    daemon.kill()
    assert daemon.config.hook_socket.exists()
    daemon.start()
    daemon.program().attach()


def test_what_is_in_the_way_is_named(fresh: Daemon) -> None:
    fresh.directory.mkdir(mode=0o700)
    fresh.config.hook_socket.write_text("mine")
    process = fresh.spawn()
    assert process.wait(PATIENCE_S) == 125
    assert "hook.sock is in the way and is no socket" in fresh.log()
    assert fresh.config.hook_socket.read_text() == "mine"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_leaves_the_pages(daemon: Daemon, number: signal.Signals) -> None:
    low, high = daemon.program("batch"), daemon.program("online")
    low.attach()
    high.attach()
    until(lambda: low.gate()[0] == GATE_PREEMPT | GATE_WINDOW, "low looks at high")
    before = low.gate()
    assert daemon.terminate(number) == 0
    assert low.gate() == before
    assert not low.do("is_let_go")
    assert "Traceback" not in daemon.log()
    assert not daemon.config.hook_socket.exists()
    assert not daemon.config.control_socket.exists()
    assert daemon.config.lock_file.read_text() == ""


def test_stop_opens_the_gates(daemon: Daemon) -> None:
    low, high = daemon.program("batch"), daemon.program("online")
    low.attach()
    high.attach()
    until(lambda: low.gate()[0] == GATE_PREEMPT | GATE_WINDOW, "low looks at high")
    before = low.gate()
    with daemon.client() as client:
        assert client.stop() == 2
    after = low.gate()
    assert (after[0], after[4]) == (0, 0)
    assert after[1] > before[1]  # who was held is woken
    assert daemon.ends() == 0
    with pytest.raises(NoDaemon):
        daemon.client()


def test_stop_and_serve_in_one_breath(daemon: Daemon) -> None:
    for _ in range(5):
        with daemon.client() as client:
            client.stop()
        ending = daemon.process
        daemon.process = None
        daemon.start()  # fails when the new one finds the old one's lock
        assert ending
        assert ending.wait(PATIENCE_S) == 0


def test_restart_with_adoption(daemon: Daemon) -> None:
    """Killed, not ended: nobody loses rank, class, number or counters."""
    low, high = daemon.program("batch"), daemon.program("online")
    low.attach()
    high.attach()
    high.do("set_active", 0, True)
    low.do("set_slot", 0, {"entered": 12, "left": 12})
    until(lambda: low.gate()[0] == GATE_PREEMPT | GATE_WINDOW, "low looks at high")
    before = low.gate()
    table = low.do("peer_table", 0)
    with daemon.client() as client:
        jobs = {job.id: (job.job_class, job.pids, job.name, job.labels) for job in client.ps()}
    daemon.kill()
    assert low.gate() == before
    daemon.start()
    low.do("disconnect")
    low.do("attach", True)
    # Its new control page says at once what the old one said, though high is not back yet and it has told of no
    # device yet.
    gate = low.gate()
    assert (gate[0], *gate[2:]) == (before[0], *before[2:])
    assert low.do("peer_table", 0) == table
    low.do("report_devices", [(UUID.hex(), GIB)])  # whose answer comes after the peers
    assert low.do("sees_active", 0)
    high.do("disconnect")
    high.attach(again=True)
    with daemon.client() as client:
        status = client.status()
        assert (status.adopted, status.clients, status.jobs) == (2, 2, 2)
        assert {job.id: (job.job_class, job.pids, job.name, job.labels) for job in client.ps()} == jobs
        (stats,) = [stats for stats in client.stats() if stats.job.job_class == "low"]
        assert stats.launches == 12
        # The kernel still says who is who: the launcher's end is seen by the new daemon.
        high.end()
        until(lambda: [job.job_class for job in client.ps()] == ["low"], "high is gone")
        until(lambda: low.gate()[0] == GATE_WINDOW, "low is free of it")


def test_who_comes_back_from_another_process_is_not_believed(daemon: Daemon) -> None:
    program = daemon.program("online")
    program.attach()
    welcome = program.do("attribute", "welcome")
    daemon.kill()
    daemon.start()
    with FakeHook(daemon.config.hook_socket) as liar:
        first = liar.attach()  # it needs pages to show
        liar.disconnect()
        liar.welcome = first._replace(client=welcome[1], generation=welcome[2])
        with pytest.raises(GpudError, match=r"is another process"):
            liar.attach(again=True)
    program.do("disconnect")
    program.attach(again=True)
    with daemon.client() as client:
        assert client.status().adopted == 1
        assert [job.job_class for job in client.ps()] == ["high"]


def test_a_state_file_that_cannot_be_read_costs_its_content(daemon: Daemon) -> None:
    program = daemon.program("online")
    program.attach()
    daemon.kill()
    daemon.config.state_file.write_text("{nonsense")
    daemon.start()
    assert "the state file cannot be read" in daemon.log()
    assert daemon.config.state_file.with_name("state.json.bad").read_text() == "{nonsense"
    program.do("disconnect")
    program.attach(again=True)  # its pages go on
    assert daemon.answers()


STEPS: list[list[tuple[object, ...]]] = [
    [],
    [("connect",)],
    [("connect",), ("attach",)],
    [("attach",), ("report_devices", [(UUID.hex(), GIB)])],
    [("attach",), ("report_devices", [(UUID.hex(), GIB)]), ("set_active", 0, True)],
]


@pytest.mark.parametrize("step", range(len(STEPS)))
def test_kill_9_of_a_client_at_each_step(daemon: Daemon, step: int) -> None:
    bystander = daemon.program("batch")
    bystander.attach()
    for tier in ("online", None):
        victim = daemon.program(tier)
        for name, *rest in STEPS[step]:
            victim.do(str(name), *rest)
        victim.kill()
    with daemon.client() as client:
        until(lambda: client.status().clients == 1, "the dead are forgotten")
        until(lambda: len(client.ps()) == 1, "their jobs too")
    until(lambda: bystander.gate()[0] == GATE_WINDOW, "nobody is looked at")
    bystander.do("report_devices", [(UUID.hex(), GIB)])
    assert daemon.process
    fds = os.listdir(f"/proc/{daemon.process.pid}/fd")
    links = []
    for fd in fds:
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/{daemon.process.pid}/fd/{fd}"))
    assert sum("memfd:" in link for link in links) == 1  # the bystander's presence page


def test_the_longest_path(tmp_path: Path) -> None:
    room = 107 - len("/control.sock") - len(str(tmp_path)) - 1
    daemon = Daemon(tmp_path / ("d" * room))
    assert len(str(daemon.config.control_socket)) == 107
    try:
        daemon.start()
        daemon.program().attach()
    finally:
        daemon.close()


def test_a_misspelt_variable_is_named(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "run", environment={"GPUD_RUNTIM_DIR": "/x"})
    try:
        daemon.start()
        assert "GPUD_RUNTIM_DIR is set, but nothing in gpud reads it" in daemon.log()
    finally:
        daemon.close()


def test_ulimit_f_0(fresh: Daemon) -> None:
    process = fresh.spawn(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 125
    assert "ulimit -f" in said
    assert "Traceback" not in said


def test_a_daemon_in_a_pid_namespace_of_its_own(fresh: Daemon) -> None:
    """It refuses who it cannot see, with the remedy, instead of taking everybody for the same process."""
    try:
        subprocess.run(["unshare", "--pid", "--fork", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("PID namespaces are not allowed here")
    spawn = subprocess.Popen

    def inside(command: list[str], **rest: object) -> subprocess.Popen[str]:
        return spawn(["unshare", "--pid", "--fork", "--kill-child", *command], **rest)  # type: ignore[call-overload, no-any-return]

    subprocess.Popen = inside  # type: ignore[assignment, misc]
    try:
        fresh.process = fresh.spawn()
    finally:
        subprocess.Popen = spawn  # type: ignore[misc]
    until(fresh.config.hook_socket.exists, "the daemon listens")
    with FakeHook(fresh.config.hook_socket) as hook:
        with pytest.raises(GpudError, match=r"PID namespace of its own.*--pid=host"):
            hook.attach()
        assert hook.refused is not None
        assert hook.refused.code == refusals.IDENTITY


def switches(pid: int) -> int:
    """How often the process's threads have gone to sleep so far: each timer that fires adds at least one."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("voluntary"))
    return total


def test_timers(daemon: Daemon) -> None:
    """None without clients; with idle ones at most five a second, at most two lease refreshes among them; < 100 MiB."""
    assert daemon.process
    pid = daemon.process.pid
    until(lambda: _is_quiet(pid, 2), "the start is over, and there is no timer")
    program = daemon.program("batch")
    program.attach()
    until(lambda: _is_quiet(pid, 0.3), "the attach is over")
    leases = {program.do("lease_until_ns")}
    before, began = switches(pid), time.monotonic()
    while time.monotonic() - began < 3:
        time.sleep(0.05)
        now = time.monotonic_ns()
        leases.add(program.do("lease_until_ns"))
        assert max(leases) > now
    seconds = time.monotonic() - began
    assert (switches(pid) - before) / seconds <= 5
    assert 1 <= len(leases) - 1 <= seconds * 2
    with open(f"/proc/{pid}/status") as file:
        resident = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    assert resident < 100 * 1024
    program.kill()
    until(lambda: _is_quiet(pid, 1.5), "no timer is left")


def _is_quiet(pid: int, seconds: float) -> bool:
    before = switches(pid)
    time.sleep(seconds)
    return switches(pid) == before


def test_a_simulated_node_that_is_not_built(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "run", sim="a100-40gb", environment={"GPUD_NATIVE_DIR": str(tmp_path)})
    process = daemon.spawn()
    assert process.wait(PATIENCE_S) == 125
    assert "the simulated driver is not there" in daemon.log()
    assert "Traceback" not in daemon.log()


@pytest.mark.e2e
@pytest.mark.skipif(not (sim_dir() / "libnvidia-ml.so.1").exists(), reason="the simulator is not built: make build")
def test_a_simulated_node(tmp_path: Path) -> None:
    name = f"test-daemon-{os.getpid()}"
    daemon = Daemon(tmp_path / "run", sim="a100-40gb", environment={"GPUD_SIM_NODE": name, "GPUD_SIM_DEVICES": "2"})
    try:
        daemon.start()
        with daemon.client() as client:
            status = client.status()
        assert (status.simulated, status.driver) == ("a100-40gb", "ok")
        assert [device.slot for device in status.devices] == [0, 1]
        assert all("simulated" in device.name for device in status.devices)
        launcher, job = launch(daemon.config.hook_socket, ())
        launcher.close()
        environment = dict(job.environment)
        assert environment["GPUD_SIM_NODE"] == name
        assert environment["GPUD_SIM_DEVICES"] == "2"
        assert Path(environment["LD_LIBRARY_PATH"], "libcuda.so.1").exists()
    finally:
        daemon.close()


@pytest.mark.e2e
@pytest.mark.skipif(not (sim_dir() / "libnvidia-ml.so.1").exists(), reason="the simulator is not built: make build")
def test_an_unknown_profile_is_named(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "run", sim="no-such-gpu")
    process = daemon.spawn()
    assert process.wait(PATIENCE_S) == 125
    assert "no-such-gpu" in daemon.log()
    assert "Traceback" not in daemon.log()
