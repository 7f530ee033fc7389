"""Programs that do what none should: the device process lives, rests when there is nothing to do, and others go on."""

import os
import random
import subprocess
import tempfile
import time
from pathlib import Path

from simnode import SEED, Node, eventually, line, main, node, read_log

ROGUE = os.environ.get("GPUD_TEST_SIM_ROGUE", "sim_rogue")
KERNEL, COPY = 1, 2


def rogue(n: Node, *arguments: object, limits: str = "") -> subprocess.Popen[str]:
    """A rogue on the node, under limits of the shell."""
    command = ["sh", "-c", f"{limits} exec {ROGUE} " + " ".join(map(str, arguments))]
    process = subprocess.Popen(command, env=n.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    n.started.append(process)
    return process


def ticks(pid: int) -> int:
    """Processor time that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(words[11]) + int(words[12])


def resident_kib(pid: int) -> int:
    """Memory that a process has to itself."""
    (row,) = [row for row in Path(f"/proc/{pid}/status").read_text().splitlines() if row.startswith("RssAnon:")]
    return int(row.split()[1])


def files_of(pid: int) -> int:
    """How many descriptors a process has."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_nonsense() -> None:
    """Commands and requests that are well-formed and make no sense, in every mode."""
    rng = random.Random(SEED)
    for mode in ("timeslice", "mps", "mig:3g,2g"):
        with tempfile.TemporaryDirectory() as folder, node(f"nonsense-{mode[:3]}", GPUD_SIM_MODE=mode) as n:
            log_file = Path(folder) / "log.json"
            n.env |= {"GPUD_SIM_LOG": str(log_file)}
            keeper = n.start("hold", 1 << 20)
            line(keeper)
            free, count, pid = n.info()
            for _ in range(25):
                process = rogue(n, "nonsense", rng.randrange(1 << 30), rng.randrange(20, 1500))
                if rng.random() < 0.3:
                    time.sleep(rng.random() * 0.1)
                    process.kill()
                out, err = process.communicate(timeout=120)
                assert process.returncode == -9 or out in ("served\n", "thrown out\n"), (out, err)
            eventually("all is given back", lambda start=(free, count, pid): n.info() == start)  # type: ignore[misc]
            n.end()
            assert read_log(log_file)[-1]["type"] == "end"


def test_a_stopped_program_keeps_nobody_from_the_device() -> None:
    """What it has submitted and does not compute holds a copy engine, or the device under MPS, for a second, once."""
    for mode in ("timeslice", "mps"):
        for kind, blocks in ((COPY, 1), (KERNEL, 100_000)):
            with node(f"stuck-{mode}-{kind}", GPUD_SIM_MODE=mode) as n:
                stuck = rogue(n, "stuck", kind, blocks)
                line(stuck)
                out, err = rogue(n, "late", kind, blocks, 20).communicate(timeout=120)
                assert int(out) < 12000, (mode, kind, out, err)
                assert stuck.poll() is None


def test_queues_that_end_twice() -> None:
    """A queue that is closed and runs dry because a fault ended its context is gone once, and nobody waits for it."""
    with node("ends") as n:
        out, err = rogue(n, "ends", 50).communicate(timeout=120)
        assert out == "ended\n", (out, err)


def test_names_of_programs_that_are_gone() -> None:
    """A node that lives long holds no more names of kernels than its programs do."""
    with node("names") as n:
        line(rogue(n, "stuck", KERNEL, 1))
        _, _, pid = n.info()
        resident = []
        for first in range(4):
            process = rogue(n, "names", first, 20_000)
            assert line(process) == "named"
            resident.append(resident_kib(pid))
            files = files_of(pid)
            process.kill()
            process.communicate()
            eventually("it is gone", lambda files=files: files_of(pid) < files)  # type: ignore[misc]
        assert resident[3] - resident[0] < 2500, resident  # each has as much; a sanitizer keeps some


def test_no_descriptors_left() -> None:
    """A device process that can take no more says so at once, rests, and goes on when there is room."""
    with node("full") as n:
        keeper = rogue(n, "stuck", KERNEL, 1, limits="ulimit -n 40;")
        line(keeper)
        _, _, pid = n.info()
        crowd = rogue(n, "silent", 60)
        line(crowd)
        start = time.monotonic()
        (said,) = n.run("info", expected=3)
        assert "ulimit -n" in said, said
        assert time.monotonic() - start < 30
        before = ticks(pid)
        time.sleep(1)  # the time over which it is measured
        assert ticks(pid) - before < 20
        crowd.kill()
        crowd.communicate()
        eventually("there is room again", lambda: files_of(pid) < 25)
        assert n.info()[2] == pid


def test_the_starters_limits_are_its_own() -> None:
    """The device process does not end when the program that started it has used up its processor time."""
    with node("soft") as n:
        line(rogue(n, "stuck", KERNEL, 1, limits="ulimit -S -t 60; ulimit -S -v 30000000000;"))
        _, _, pid = n.info()
        rows = Path(f"/proc/{pid}/limits").read_text().splitlines()
        for name in ("Max cpu time", "Max address space"):
            (row,) = [row for row in rows if row.startswith(name)]
            soft, hard = row[len(name) :].split()[:2]
            assert soft == hard, row


def test_forks_while_the_node_starts() -> None:
    """Children that have a copy of the way back from the device process do not hold its starter up."""
    with node("forks") as n:
        out, err = rogue(n, "forks").communicate(timeout=120)
        assert int(out) < 8000, (out, err)


def test_a_full_disk() -> None:
    """What does not fit into the log is counted, and what is there is whole, also behind it."""
    with tempfile.TemporaryDirectory() as folder, node("disk") as n:
        try:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            print("no file systems can be mounted here: not tested")
            return
        try:
            log_file = Path(folder) / "log.json"
            ballast = Path(folder) / "ballast"
            ballast.write_bytes(b"x" * 1_000_000)  # larger than the log: its room holds what is buffered
            n.env |= {"GPUD_SIM_LOG": str(log_file), "GPUD_SIM_PROFILE": "a100-40gb-demo"}
            keeper = n.start("hold", 1 << 20)
            line(keeper)
            for _ in range(3):
                n.run("rounds", 300, 1, "short_step")
            eventually("the disk is full", lambda: os.statvfs(folder).f_bavail == 0)
            ballast.unlink()
            n.run("rounds", 20, 1, "short_step")
            n.end()
            log = read_log(log_file)
            kernels = sum(e["type"] == "kernel" for e in log)
            assert log[-1]["type"] == "end"
            assert not log[-1]["valid"]
            assert kernels < log[-1]["kernels"] == 920
            assert log[-1]["lost_lines"] >= 920 - kernels
        finally:
            subprocess.run(["umount", folder], check=True)


if __name__ == "__main__":
    main(dict(globals()))
