"""The device process of a simulated node as its clients see it: start, sharing, death, hostile clients, the log.

Runs under pytest or by itself; `$GPUD_TEST_SIM_CLIENT` is the client program, `$GPUD_NATIVE_DIR` holds `sim/`.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

CLIENT = os.environ.get("GPUD_TEST_SIM_CLIENT", "sim_client")
SEED = int(os.environ.get("GPUD_TEST_SEED", str(random.SystemRandom().randrange(1 << 31))))
KILLS = int(os.environ.get("GPUD_TEST_KILLS", "200"))
DEADLINE_S = 20.0
GIB = 1 << 30
Process = subprocess.Popen[str]


def device_processes(node: str) -> list[int]:
    """Pids of the device processes of `node` that are alive."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"gpud-sim-device") and node.encode() in words:
                    found.append(int(entry.name))
    return found


def listening(node: str) -> bool:
    """Is the address of `node` taken?"""
    return f"@gpud-sim-{os.geteuid()}-{node}\n" in Path("/proc/net/unix").read_text()


def eventually(what: str, condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds, `DEADLINE_S` at most."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.002)


class Node:
    """A simulated node of this test's own."""

    def __init__(self, name: str, **environment: str) -> None:
        self.name = f"test-{os.getpid()}-{name}"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("GPUD_SIM_")}
        self.env |= {"GPUD_SIM_NODE": self.name, **environment}
        self.started: list[Process] = []

    def start(self, *arguments: object, **environment: str) -> Process:
        process = subprocess.Popen(
            [CLIENT, *map(str, arguments)],
            env=self.env | environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        self.started.append(process)
        return process

    def run(self, *arguments: object, expected: int = 0, **environment: str) -> list[str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=60)
        assert process.returncode == expected, f"{arguments}: exit {process.returncode}: {out}{err}"
        return out.splitlines()

    def info(self) -> tuple[int, int, int]:
        """Free bytes and processes of device 0, and the pid of the device process."""
        words = self.run("info")[0].split()
        return int(words[1]), int(words[3]), int(words[4])

    def end(self) -> None:
        """Nothing is left once the clients are gone."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        eventually("the device process ends with its last client", lambda: not device_processes(self.name))
        assert not listening(self.name)


@contextlib.contextmanager
def node(name: str, **environment: str) -> Iterator[Node]:
    """A node that leaves nothing behind."""
    made = Node(name, **environment)
    try:
        yield made
    finally:
        made.end()


def line(process: Process) -> str:
    """The next line of a client."""
    stream: IO[str] | None = process.stdout
    assert stream
    text = stream.readline()
    assert text, f"the client ended: {process.communicate()[1]}"
    return text.strip()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a device log, each of which must be whole."""
    return [json.loads(text) for text in path.read_text().splitlines()]


def pieces(entry: dict[str, Any]) -> list[tuple[int, int]]:
    """When a kernel was on the device."""
    return [(a, b) for a, b in entry.get("pieces", [[entry["start"], entry["end"]]])]


def check_exclusive(log: list[dict[str, Any]]) -> None:
    """No two contexts have a device at the same time, and a switch lies between two of them (unless the first is gone)."""
    switch = log[0]["switch_ns"]
    for device in range(log[0]["devices"]):
        spans = sorted(
            (a, b, e["context"]) for e in log if e["type"] in ("kernel", "memset") and e["device"] == device for a, b in pieces(e)
        )
        last = {context: b for _, b, context in spans}
        for (_, b, one), (a, _, other) in zip(spans, spans[1:], strict=False):
            cost = 0 if one == other or last[one] == b else switch
            assert one == other or a >= b + cost, f"contexts {one} and {other} overlap or switch for nothing: {b} {a}"


def test_one_client_and_the_end() -> None:
    with node("one") as n:
        n.run("rounds", 3)


def test_many_clients(count: int = 0) -> None:
    for clients in [count] if count else [2, 8, 64]:
        with tempfile.TemporaryDirectory() as folder, node(f"many{clients}") as n:
            log_file = Path(folder) / "log.json"
            n.env["GPUD_SIM_LOG"] = str(log_file)
            processes = [n.start("rounds", 5, 4, "train_step", GPUD_SIM_PROFILE="a100-40gb-demo", GPUD_SIM_TIME_SCALE="0.2")
                         for _ in range(clients)]
            for process in processes:
                out, err = process.communicate(timeout=120)
                assert process.returncode == 0, out + err
                assert len(out.splitlines()) == 5, out
            eventually("the device process ends", lambda n=n: not device_processes(n.name))
            log = read_log(log_file)
            kernels = [e for e in log if e["type"] == "kernel"]
            assert len(kernels) == clients * 20
            assert all(e["run"] == 2_000_000 + e["overrun"] for e in kernels)
            check_exclusive(log)
            end = log[-1]
            assert end["type"] == "end" and end["kernels"] == clients * 20 and end["lost_lines"] == 0
            assert end["busy_ns"] == sum(e["run"] for e in kernels)
            assert sum(e["type"] == "client" and e["what"] == "attached" for e in log) == clients


def test_starts_race(times: int = 5) -> None:
    """Whoever comes first starts the device process, and there is one."""
    for round_ in range(times):
        with node(f"race{round_}") as n:
            processes = [n.start("info") for _ in range(12)]
            pids = set()
            for process in processes:
                out, err = process.communicate(timeout=60)
                assert process.returncode == 0, out + err
                pids.add(out.split()[4])
            assert len(pids) == 1, pids


def test_last_leaves_first_comes() -> None:
    """Clients that come while the device process is ending start another one, or are still served."""
    with node("turnover") as n:
        for _ in range(40):
            n.run("rounds", 1)
            time.sleep(random.random() * 0.01 + 0.295)  # around the end of its grace


def test_detached() -> None:
    with node("detached", LD_PRELOAD="") as n:
        _, _, pid = n.info()
        holder = n.start("steady", "short_step")
        line(holder)
        _, _, pid = n.info()
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert os.getsid(pid) != os.getsid(0)
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"LD_PRELOAD" not in environment and b"HOME=" not in environment
        for fd in range(3):
            assert os.readlink(f"/proc/{pid}/fd/{fd}") == "/dev/null"
        others = {os.readlink(f"/proc/{pid}/fd/{e.name}") for e in Path(f"/proc/{pid}/fd").iterdir() if int(e.name) > 2}
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

        n.run("info")
        time.sleep(0.5)
        before = ticks(), switches()
        time.sleep(1.5)
        assert (ticks(), switches()) == before


def test_memory_is_given_back_and_zeroed() -> None:
    with node("memory") as n:
        keeper = n.start("steady", "short_step")
        line(keeper)
        free, count, _ = n.info()
        holder = n.start("hold", 64 << 20)
        line(holder)
        less, more, _ = n.info()
        assert more == count + 1 and free - less > 64 << 20
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
        eventually("the device process ends", lambda: not device_processes(n.name))
        log = read_log(log_file)
        check_exclusive(log)
        pids = {process.pid for process in steady}
        mine = [e for e in log if e["type"] == "kernel" and e["pid"] in pids and not e.get("dropped")]
        assert len(mine) > KILLS and all(e["run"] == 100_000 + e["overrun"] for e in mine if not e["overrun"])


def test_hostile_clients(rounds: int = 40) -> None:
    """Whatever a client writes into what it shares or sends, the device process lives and its neighbour goes on."""
    with node("hostile") as n:
        steady = n.start("steady", "short_a")
        line(steady)
        free, count, pid = n.info()
        for i in range(rounds):
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
        out, _ = client.communicate(timeout=20)
        assert client.returncode == 4 and out.splitlines()[-1] == "gone -32", out[-200:]
        assert n.info()[2] != pid


def test_fork() -> None:
    with node("fork") as n:
        process = n.start("fork")
        out, err = process.communicate(timeout=30)
        assert process.returncode == -signal.SIGKILL and out == "freed\n", out + err


def test_overrun() -> None:
    with tempfile.TemporaryDirectory() as folder, node("late") as n:
        log_file = Path(folder) / "log.json"
        assert n.run("late", 5, GPUD_SIM_LOG=str(log_file), GPUD_SIM_PROFILE="a100-40gb-demo") == ["computed"]
        eventually("the device process ends", lambda: not device_processes(n.name))
        log = read_log(log_file)
        (kernel,) = [e for e in log if e["type"] == "kernel"]
        assert kernel["end"] - kernel["start"] == 100_000 + kernel["overrun"] and kernel["overrun"] >= 2_000_000
        assert log[-1]["overruns"] == 1 and log[-1]["overrun_ns"] == kernel["overrun"] and log[-1]["valid"] is False


def test_log_is_complete_while_the_node_lives() -> None:
    with tempfile.TemporaryDirectory() as folder, node("log") as n:
        log_file = Path(folder) / "log.json"
        n.env["GPUD_SIM_LOG"] = str(log_file)
        keeper = n.start("hold", 1 << 20)
        line(keeper)
        n.run("rounds", 7)
        eventually("the log is written", lambda: sum(e["type"] == "kernel" for e in read_log(log_file)) == 7)
        header, *rest = read_log(log_file)
        assert header["type"] == "header" and header["simulated"] and header["profile"] == "a100-40gb"
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
            assert said in text and (value in text or variable == "GPUD_NATIVE_DIR"), text
        keeper = n.start("hold", 1 << 20)
        line(keeper)
        for variable, value in [("GPUD_SIM_PROFILE", "a100-40gb-demo"), ("GPUD_SIM_DEVICES", "2"), ("GPUD_SIM_TIME_SCALE", "3"),
                                ("GPUD_SIM_LOG", folder + "/log")]:
            (text,) = n.run("info", expected=3, **{variable: value})
            assert variable in text and "already runs" in text, text


def test_limits_of_the_starter() -> None:
    with node("limits") as n:
        for limit, said in [("ulimit -f 0", "ulimit -f"), ("ulimit -n 6", "ulimit -n"), ("ulimit -n 8", "ulimit -n")]:
            if limit == "ulimit -n 8":  # the device process has its files, this client has not
                line(n.start("hold", 1 << 20))
            done = subprocess.run(["sh", "-c", f"{limit}; exec {CLIENT} info"], env=n.env, text=True, capture_output=True, timeout=30)
            assert done.returncode == 3 and said in done.stdout, done


def test_several_devices() -> None:
    with node("several", GPUD_SIM_DEVICES="3") as n:
        assert len(n.run("info")) == 3


def main() -> None:
    """Each test of this file, or those named on the command line, `--times N` times."""
    times = int(sys.argv[sys.argv.index("--times") + 1]) if "--times" in sys.argv else 1
    tests = {k: v for k, v in globals().items() if k.startswith("test_") and (len(sys.argv) < 2 or k in sys.argv or times > 1)}
    named = [k for k in tests if k in sys.argv]
    print(f"seed {SEED}", flush=True)
    for _ in range(times):
        for name in named or tests:
            start = time.monotonic()
            tests[name]()
            print(f"{name} {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
