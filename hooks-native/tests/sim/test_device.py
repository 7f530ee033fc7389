"""The device process of a simulated node as its clients see it: start, sharing, the log, errors."""

import contextlib
import os
import tempfile
import time
from pathlib import Path

from simnode import (
    check_exclusive,
    eventually,
    line,
    main,
    node,
    read_log,
)


def test_one_client_and_the_end() -> None:
    with node("one") as n:
        n.run("rounds", 3)


def test_many_clients() -> None:
    for clients in (2, 8, 64):
        with tempfile.TemporaryDirectory() as folder, node(f"many{clients}") as n:
            log_file = Path(folder) / "log.json"
            n.env["GPUD_SIM_LOG"] = str(log_file)
            n.env |= {"GPUD_SIM_PROFILE": "a100-40gb-demo", "GPUD_SIM_TIME_SCALE": "0.2"}
            processes = [n.start("rounds", 5, 4, "train_step") for _ in range(clients)]
            for process in processes:
                out, err = process.communicate(timeout=120)
                assert process.returncode == 0, out + err
                assert len(out.splitlines()) == 5, out
            eventually("the device process ends", n.is_over)
            log = read_log(log_file)
            kernels = [e for e in log if e["type"] == "kernel"]
            assert len(kernels) == clients * 20
            assert all(2_000_000 <= e["run"] <= 2_000_000 + e["overrun"] for e in kernels)
            check_exclusive(log)
            end = log[-1]
            assert end["type"] == "end"
            assert end["kernels"] == clients * 20
            assert end["lost_lines"] == 0
            assert end["busy_ns"] == sum(e["run"] for e in kernels)
            assert sum(e["type"] == "client" and e["what"] == "attached" for e in log) == clients


def test_starts_race() -> None:
    """Whoever comes first starts the device process, and there is one."""
    for round_ in range(5):
        with node(f"race{round_}") as n:
            processes = [n.start("info") for _ in range(12)]
            pids = set()
            for process in processes:
                out, err = process.communicate(timeout=120)
                assert process.returncode == 0, out + err
                pids.add(out.split()[4])
            assert len(pids) == 1, pids


def test_detached() -> None:
    with node("detached", LD_PRELOAD="libm.so.6", ASAN_OPTIONS="verify_asan_link_order=0") as n:
        _, _, pid = n.info()
        holder = n.start("steady", "short_step")
        line(holder)
        _, _, pid = n.info()
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert os.getsid(pid) != os.getsid(0)
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"LD_PRELOAD" not in environment
        assert b"HOME=" not in environment
        for fd in range(3):
            assert os.readlink(f"/proc/{pid}/fd/{fd}") == "/dev/null"
        others = set()
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # one that is just being closed
                others |= {os.readlink(entry)} if int(entry.name) > 2 else set()
        assert others
        assert all(o.startswith(("socket:", "anon_inode:", "/memfd:gpud-sim")) for o in others), others


def test_idle_uses_nothing() -> None:
    with node("idle") as n:
        holder = n.start("hold", 1 << 20)
        line(holder)
        _, _, pid = n.info()

        def ticks() -> int:
            return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))

        def switches() -> int:
            return int(Path(f"/proc/{pid}/status").read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0])

        def rests() -> bool:
            before = ticks(), switches()
            time.sleep(1.5)  # the time over which it is measured
            return (ticks(), switches()) == before

        n.run("info")
        eventually("it does nothing", rests)


def test_log_is_complete_while_the_node_lives() -> None:
    with tempfile.TemporaryDirectory() as folder, node("log") as n:
        log_file = Path(folder) / "log.json"
        n.env["GPUD_SIM_LOG"] = str(log_file)
        keeper = n.start("hold", 1 << 20)
        line(keeper)
        n.run("rounds", 7)
        eventually("the log is written", lambda: sum(e["type"] == "kernel" for e in read_log(log_file)) == 7)
        header, *rest = read_log(log_file)
        assert header["type"] == "header"
        assert header["simulated"]
        assert header["profile"] == "a100-40gb"
        now_ns = (time.monotonic_ns() - header["epoch_ns"]) / header["time_scale"]
        assert all(0 < e["submit"] <= e["start"] < e["end"] <= now_ns for e in rest if e["type"] == "kernel")


def test_errors_say_where_and_what() -> None:
    with tempfile.TemporaryDirectory() as folder, node("errors") as n:
        broken = Path(folder) / "broken.toml"
        broken.write_text('[timing]\nslice_ms = "two"\n')
        (text,) = n.run("info", expected=3, GPUD_SIM_PROFILE=str(broken))
        assert f"{broken}:2: timing.slice_ms: must be a number from 0.01 to 10000" in text
        (text,) = n.run("info", expected=3, GPUD_SIM_PROFILE="none")
        assert "none.toml: No such file" in text
        for variable, value, said in [
            ("GPUD_SIM_DEVICES", "9", "a whole number from 1 to 8"),
            ("GPUD_SIM_DEVICES", "x", "a whole number from 1 to 8"),
            ("GPUD_SIM_TIME_SCALE", "0", "a number from 0.001 to 1000"),
            ("GPUD_SIM_TIME_SCALE", "nan", "a number from 0.001 to 1000"),
            ("GPUD_SIM_NODE", "a/b", "letters, digits"),
            ("GPUD_SIM_LOG", "/proc/none/log", "name a plain file"),
            ("GPUD_SIM_LOG", "/dev/null", "not a plain file"),
            ("GPUD_NATIVE_DIR", folder, "there is no gpud-sim-device"),
        ]:
            (text,) = n.run("info", expected=3, **{variable: value})
            assert said in text
            assert value in text or variable == "GPUD_NATIVE_DIR", text
        keeper = n.start("hold", 1 << 20)
        line(keeper)
        other = {"PROFILE": "a100-40gb-demo", "DEVICES": "2", "TIME_SCALE": "3", "LOG": folder + "/log"}
        for variable, value in other.items():
            (text,) = n.run("info", expected=3, **{f"GPUD_SIM_{variable}": value})
            assert text.startswith(f"error GPUD_SIM_{variable}={value}: node {n.name} already runs "), text


def test_several_devices() -> None:
    with node("several", GPUD_SIM_DEVICES="3") as n:
        assert len(n.run("info")) == 3


if __name__ == "__main__":
    main(dict(globals()))
