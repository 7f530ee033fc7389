"""Time slicing, MPS and MIG on a whole node, and what the time scale changes: nothing of the model's times."""

import itertools
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

from simnode import GIB, Node, check_exclusive, eventually, line, main, node, pieces, read_log

SMALL = {"GPUD_SIM_PROFILE": "test-small"}  # slices of 1 ms, a switch 0.1 ms


def logged(n: Node, *clients: tuple[object, ...]) -> list[dict[str, Any]]:
    """Runs the clients at once (those that `meet` begin together); the log of the node when all have ended."""
    with tempfile.TemporaryDirectory() as folder:
        log_file = Path(folder) / "log.json"
        n.env["GPUD_SIM_LOG"] = str(log_file)
        processes = [n.start(*client) for client in clients]
        for process, client in zip(processes, clients, strict=True):
            if client[0] == "meet":
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        for process in processes:
            process.send_signal(signal.SIGCONT)
        for process in processes:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, out + err
        eventually("the device process ends", n.is_over)
        return read_log(log_file)


def kernels_of(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [e for e in log if e["type"] == "kernel"]


def overlap(log: list[dict[str, Any]]) -> tuple[int, int]:
    """From when all programs have work to when the first has none left."""
    by_pid: dict[int, list[dict[str, Any]]] = {}
    for kernel in kernels_of(log):
        by_pid.setdefault(kernel["pid"], []).append(kernel)
    return max(min(k["start"] for k in ks) for ks in by_pid.values()), min(
        max(k["end"] for k in ks) for ks in by_pid.values()
    )


def test_no_capacity_is_lost() -> None:
    """While all have work, the device computes or switches at every nanosecond, and all get the same."""
    for clients, deep in ((2, 60), (8, 20), (64, 10)):
        with node(f"capacity{clients}", **SMALL, GPUD_SIM_TIME_SCALE="1") as n:
            log = logged(n, *[("meet", 1, deep, "ms10_step")] * clients)
        check_exclusive(log)
        first, last = overlap(log)
        assert last - first > clients * 20_000_000, "the programs did not meet"
        spans = [piece for k in kernels_of(log) for piece in pieces(k)]
        spans += [(e["start"], e["end"]) for e in log if e["type"] == "switch"]
        inside = sorted((max(a, first), min(b, last)) for a, b in spans if b > first and a < last)
        assert (inside[0][0], inside[-1][1]) == (first, last)
        assert all(one[1] == other[0] for one, other in itertools.pairwise(inside)), "a gap"
        assert all(e["end"] - e["start"] == 100_000 for e in log if e["type"] == "switch")
        shares = [
            sum(
                min(b, last) - max(a, first)
                for k in kernels_of(log)
                if k["pid"] == pid
                for a, b in pieces(k)
                if b > first and a < last
            )
            for pid in {k["pid"] for k in kernels_of(log)}
        ]
        assert max(shares) - min(shares) <= 1_000_000, shares
        assert log[-1]["kernels"] == clients * deep
        assert log[-1]["switches"] == sum(e["type"] == "switch" for e in log)


def test_mps() -> None:
    """Programs share the device like streams of one: nothing is switched, and it is never idle while one has work."""
    with node("mps", **SMALL, GPUD_SIM_MODE="mps") as n:
        log = logged(n, *[("meet", 1, 40, "ms10_step")] * 4)
    assert log[0]["mode"] == "mps"
    assert log[-1]["switches"] == 0
    first, last = overlap(log)
    inside = sorted(
        (max(k["start"], first), min(k["end"], last)) for k in kernels_of(log) if k["end"] > first and k["start"] < last
    )
    assert all(one[1] == other[0] for one, other in itertools.pairwise(inside)), (
        "kernels that fill the device follow each other"
    )
    assert all(k["run"] == 10_000_000 for k in kernels_of(log))


def test_mig() -> None:
    """An instance has its part of the memory and of the SMs."""
    whole = {
        "mig:7g": (1, 1.0, 8 / 7),
        "mig:4g,3g": (2, 0.5, 2.0),
        "mig:3g,2g,1g": (3, 0.5, 8 / 3),
        "timeslice": (1, 1.0, 1.0),
    }
    for mode, (count, memory, longer) in whole.items():
        with node(f"mig{count}", **SMALL, GPUD_SIM_MODE=mode) as n:
            info = [[int(word) for word in said.split()[1:3]] for said in n.run("info")]
            assert len(info) == count
            assert info[0][1] == int(GIB * memory)
            n.end()
            log = logged(n, ("rounds", 3, 2, "ms10_step"))
        assert log[0]["mode"] == mode
        assert {k["run"] for k in kernels_of(log)} == {-int(-10_000_000 * longer // 1)}, mode


def test_mode_is_the_nodes() -> None:
    with node("mode", **SMALL, GPUD_SIM_MODE="mig:3g,3g") as n:
        line(n.start("hold", 1 << 20))
        assert len(n.run("info", GPUD_SIM_MODE="mig:3g.1gb,3g")) == 2
        (text,) = n.run("info", expected=3, GPUD_SIM_MODE="mps")
        assert text.startswith(f"error GPUD_SIM_MODE=mps: node {n.name} already runs with mig:3g,3g;"), text
    with node("modes") as n:
        wrong = [
            ("mig:3g,3g,1g", 1, "the instances need 7 compute and 9 memory slices, and a device has 7 and 8"),
            ("x" * 70, 1, "must be timeslice, mps, or mig:"),
            ("mig:1g,1g,1g", 5, "5 devices of 3 MIG instances each are more than the 8 that a simulated node can have"),
        ]
        for mode, devices, said in wrong:
            (text,) = n.run("info", expected=3, GPUD_SIM_MODE=mode, GPUD_SIM_DEVICES=str(devices))
            assert said in text, text


def test_time_scale() -> None:
    """The model's times are the same, however long they take."""
    seen = set()
    for scale in ("0.2", "1", "3"):
        with node(f"scale{scale}", **SMALL, GPUD_SIM_TIME_SCALE=scale) as n:
            ends = [int(said.split()[2]) for said in n.run("rounds", 20, 3, "us200_step")]
        seen.add(tuple(b - a for a, b in itertools.pairwise(ends)))
    assert seen == {(605_000,) * 19}, "three kernels of 200 us and a launch latency of 5 us"


def test_host_time_enters() -> None:
    """What a program sleeps or works between its kernels is in the model's times, and the log says so."""
    for how in ("sleep", "spin"):
        with node(f"paced{how}", **SMALL) as n, tempfile.TemporaryDirectory() as folder:
            log_file = Path(folder) / "log.json"
            n.env["GPUD_SIM_LOG"] = str(log_file)
            ends = [int(said.split()[2]) for said in n.run("paced", 20, how)]
            eventually("the device process ends", n.is_over)
            end = read_log(log_file)[-1]
        # A round: the pause, the launch latency, the kernel.
        assert all(b - a >= 5_205_000 for a, b in itertools.pairwise(ends)), (how, ends)
        assert end["host_timed"] == 20
        assert end["moved"] == end["shifted_ns"] == 0


if __name__ == "__main__":
    main(dict(globals()))
