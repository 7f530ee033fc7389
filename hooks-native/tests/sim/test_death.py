"""Clients that die, misbehave or come late, and the end of the device process: nothing is lost or left behind."""

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from simnode import (
    CLIENT,
    GIB,
    KILLS,
    SEED,
    check_exclusive,
    eventually,
    line,
    main,
    node,
    read_log,
)


def test_last_leaves_first_comes() -> None:
    """Clients that come while the device process is ending start another one, or are still served."""
    with node("turnover") as n:
        for _ in range(40):
            n.run("rounds", 1)
            time.sleep(random.random() * 0.01 + 0.295)  # around the end of its grace


def test_memory_is_given_back_and_zeroed() -> None:
    with node("memory") as n:
        keeper = n.start("steady", "short_step")
        line(keeper)
        free, count, _ = n.info()
        holder = n.start("hold", 64 << 20)
        line(holder)
        less, more, _ = n.info()
        assert more == count + 1
        assert free - less > 64 << 20
        assert n.run("hold", 40 * GIB, expected=5) == ["refused -12"]
        holder.kill()
        holder.wait()
        eventually("its memory is free", lambda: n.info()[:2] == (free, count))
        assert n.run("zero", 128 << 20) == ["dirty 0"]


def test_kills_at_random() -> None:
    """Killed clients leave nothing, and the others go on with the right times."""
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder, node("kills") as n:
        log_file = Path(folder) / "log.json"
        n.env |= {"GPUD_SIM_LOG": str(log_file), "GPUD_SIM_PROFILE": "a100-40gb-demo", "GPUD_SIM_TIME_SCALE": "1"}
        steady = [n.start("steady", "short_a"), n.start("steady", "short_b")]
        for process in steady:
            line(process)
        free, count, pid = n.info()
        for i in range(KILLS):
            victims = [n.start("victim", rng.randrange(1 << 30)) for _ in range(rng.choice([1, 1, 2, 3]))]
            if rng.random() < 0.8:
                for victim in victims:
                    line(victim)
            time.sleep(rng.random() * 0.02)
            for victim in victims:
                victim.kill()
            for victim in victims:
                victim.communicate()
            if i % 20 == 19:
                eventually("all is given back", lambda: n.info() == (free, count, pid))
            for process in steady:
                os.set_blocking(process.stdout.fileno(), True)  # type: ignore[union-attr]
                line(process)
        for process in steady:
            process.kill()
            process.communicate()
        eventually("the device process ends", n.is_over)
        log = read_log(log_file)
        check_exclusive(log)
        pids = {process.pid for process in steady}
        mine = [e for e in log if e["type"] == "kernel" and e["pid"] in pids and not e.get("dropped")]
        assert len(mine) > KILLS
        assert all(100_000 <= e["run"] <= 100_000 + e["overrun"] for e in mine)


def test_hostile_clients() -> None:
    """Whatever a client writes into what it shares or sends, the device process lives and its neighbour goes on."""
    with node("hostile") as n:
        steady = n.start("steady", "short_a")
        line(steady)
        free, count, pid = n.info()
        for i in range(40):
            hostile = n.start("hostile", SEED + i)
            with contextlib.suppress(subprocess.TimeoutExpired):
                hostile.wait(timeout=0.3)
            line(steady)
            hostile.kill()
            hostile.communicate()
        assert n.run("garbage", SEED) == ["survived"]
        eventually("all is given back", lambda: n.info() == (free, count, pid))
        for _ in range(20):
            line(steady)


def test_device_process_dies() -> None:
    """A killed device process is told to those who wait, and the next client starts another one."""
    with node("dies") as n:
        client = n.start("steady", "short_a")
        line(client)
        _, _, pid = n.info()
        os.kill(pid, signal.SIGKILL)
        out, _ = client.communicate(timeout=120)
        assert (client.returncode, out.splitlines()[-1]) == (4, "gone -32")
        assert n.info()[2] != pid


def test_fork() -> None:
    with node("fork") as n:
        process = n.start("fork")
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (-signal.SIGKILL, "freed\n"), err


def test_overrun() -> None:
    """A kernel that is computed late ends late, unless its program is alone: then the clock waits for it."""
    for alone in (False, True):
        with tempfile.TemporaryDirectory() as folder, node(f"late{alone}") as n:
            log_file = Path(folder) / "log.json"
            n.env |= {"GPUD_SIM_LOG": str(log_file), "GPUD_SIM_PROFILE": "a100-40gb-demo"}
            if not alone:
                neighbour = n.start("hold", 1 << 20)
                line(neighbour)
            assert n.run("late", 5) == ["computed"]
            if not alone:
                neighbour.kill()
            eventually("the device process ends", n.is_over)
            log = read_log(log_file)
            (kernel,) = [e for e in log if e["type"] == "kernel"]
            end = log[-1]
            assert kernel["end"] - kernel["start"] == 100_000 + (0 if alone else kernel["overrun"])
            assert kernel["overrun"] >= 2_000_000
            assert end["overruns"] == 1
            assert end["overrun_ns"] == kernel["overrun"]
            assert end["shifted_ns"] == (0 if alone else kernel["overrun"])
            assert end["valid"] is False


def test_limits_of_the_starter() -> None:
    with node("limits") as n:
        for limit, said in [("ulimit -f 0", "ulimit -f"), ("ulimit -n 6", "ulimit -n"), ("ulimit -n 8", "ulimit -n")]:
            if limit == "ulimit -n 8":  # the device process has its files, this client has not
                line(n.start("hold", 1 << 20))
            command = ["sh", "-c", f"{limit}; exec {CLIENT} info"]
            done = subprocess.run(command, env=n.env, text=True, capture_output=True, timeout=120)
            assert done.returncode == 3, done
            assert said in done.stdout


if __name__ == "__main__":
    main(dict(globals()))
