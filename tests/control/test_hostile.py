"""Ten thousand messages that no gpud has sent, from another user where there is one: each is refused with a reason, and
nobody notices.
"""

import collections
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpud.control import wire
from tests.daemon.conftest import Daemon, Program, until

COUNT = 10_000
NOBODY = 65534
SEED = 7
WITHIN_S = 300
"""It takes ten seconds; this is for a machine that does much else."""
MOST_GROWTH_KIB = 24 << 10
TAGS = ["status", "ps", "unmanaged", "stats", "job_of", "why", "set", "pause", "resume", "evict", "kill", "past"]
TAGS += ["journal", "history", "show", "rollback", "dance", "", "stop;"]
FIELDS = ["job", "pid", "job_class", "memory_bytes", "compute_ppm", "signal", "pids", "at_ns", "since_at_ns", "file"]
FIELDS += ["until_at_ns", "most", "device", "number", "interval_ms", "type", "extra"]
STRANGE: list[Callable[[random.Random], Any]] = [
    lambda r: r.choice([0, -1, 1, 2, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, r.getrandbits(60)]),
    lambda r: r.choice([0.5, float("nan"), float("inf"), -0.0]),
    lambda r: r.choice([None, True, False]),
    lambda r: r.randbytes(r.choice([0, 1, 50])),
    lambda r: r.choice(["9; rm", "KILL", "\x1b[2J\x07", "high\nroot (uid 0)", "a" * 300, "‮evil", "\0", "日本", "auto"]),
    lambda r: "x" * r.choice([10_000, 200_000]),
    lambda r: [1] * r.choice([0, 3, 5_000]),
    lambda r: {"a": {"b": [None] * 5}},
    lambda r: _nested(r.choice([5, 900])),
]


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _framed(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


def _garbage(r: random.Random) -> bytes:
    return _framed(r.randbytes(r.choice([0, 1, 7, 64, 3000])))


def _wrong_types(r: random.Random) -> bytes:
    ask = {"type": r.choice(TAGS)} | {r.choice(FIELDS): r.choice(STRANGE)(r) for _ in range(r.randrange(6))}
    frame: Any = {"version": wire.VERSION, "id": r.choice([1, 2**64 - 1]), "ask": ask}
    if r.random() < 0.2:
        frame[r.choice(["version", "id", "ask"])] = r.choice(STRANGE)(r)
    if r.random() < 0.05:
        del frame[r.choice(list(frame))]
    return _framed(msgspec.msgpack.encode(frame))


def _flipped(r: random.Random) -> bytes:
    """A good one with some bits the wrong way round."""
    body = bytearray(
        msgspec.msgpack.encode({"version": wire.VERSION, "id": 5, "ask": {"type": r.choice(TAGS), "job": 1}})
    )
    for _ in range(r.randrange(1, 5)):
        body[r.randrange(len(body))] ^= 1 << r.randrange(8)
    return _framed(bytes(body))


def _cut(r: random.Random) -> bytes:
    return struct.pack("<I", r.choice([10, 1 << 20])) + r.randbytes(r.randrange(10))


def _too_long(r: random.Random) -> bytes:
    return struct.pack("<I", r.choice([(1 << 20) + 1, 2**31, 2**32 - 1])) + r.randbytes(20)


def _changes(r: random.Random) -> bytes:
    """Well-formed, and not theirs to ask."""
    asks: tuple[wire.Ask, ...] = (
        wire.AskSet(job=r.choice([1, 99, -5, 2**62]), job_class=r.choice(["high", "\x1b[2J", "x" * 5000])),
        wire.AskSet(job=1, memory_bytes=r.choice([0, -1, 5, 2**63, 1 << 30]), compute_ppm=r.choice([0, 2**60, 500])),
        wire.AskPause(job=1),
        wire.AskResume(job=1),
        wire.AskEvict(job=1),
        wire.AskKill(job=1, signal=r.choice(["KILL", "9; rm"])),
        wire.AskKill(job=1, pids=tuple(range(r.choice([1, 10_000])))),
        wire.AskStop(),
        wire.AskReload(),
        wire.AskRollback(number=r.choice([-1, 0, 2**60])),
    )
    return wire.encode(wire.Request(version=wire.VERSION, id=1, ask=r.choice(asks)))


KINDS = [_garbage, _wrong_types, _wrong_types, _flipped, _cut, _too_long, _changes, _changes]


def messages(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    r = random.Random(seed)
    for _ in range(count):
        kind = r.choice(KINDS)
        yield kind.__name__, kind(r)


def main(arguments: list[str]) -> int:
    """`UID SOCKET`: sends them all, and prints what came back: {kind: {outcome: count}}, one line of JSON."""
    uid, path = int(arguments[0]), arguments[1]
    list(messages(SEED, 50))  # whatever that imports, while we may read it
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    outcomes: dict[str, collections.Counter[str]] = {}
    for kind, data in messages(SEED, COUNT):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(path)
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it knows enough already
            got = bytearray()
            try:
                while more := connection.recv(65536):
                    got += more
            except ConnectionError:
                pass
        outcomes.setdefault(kind, collections.Counter())[_outcome(bytes(got))] += 1
    print(json.dumps(outcomes), flush=True)
    return 0


def _outcome(got: bytes) -> str:
    if not got:
        return "nothing"
    answer = wire.decode_reply(got[4:]).answer
    if not isinstance(answer, wire.ErrorAnswer):
        return "answered"
    return answer.code if answer.text and answer.text.isprintable() and len(answer.text) < 2000 else "without a reason"


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """One that everybody can reach."""
    place = Path(tempfile.mkdtemp(prefix="gpud-hostile-"))
    place.chmod(0o755)
    daemon = Daemon(place / "run")
    daemon.start()
    yield daemon
    daemon.close()
    shutil.rmtree(place)


def memory_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


class Work:
    """A job that works all the while, in a thread of its own: how often it did, and how long it waited at most."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.edges = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not self.ended.wait(0.002):
            self.program.do("set_active", 0, self.edges % 2 == 0)
            self.edges += 1

    def end(self) -> None:
        self.ended.set()
        self.thread.join(60)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_nothing_is_disturbed(daemon: Daemon) -> None:
    assert daemon.process is not None
    program = daemon.program()
    program.attach()
    gate = program.gate()
    with daemon.client() as client:
        before = client.ps()
    lease = until(lambda: program.do("lease_until_ns"), "its page has a lease")
    resident, work = memory_kib(daemon.process.pid), Work(program)
    root = Path(__file__).parents[2]
    code = "import sys; from tests.control.test_hostile import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, str(NOBODY), str(daemon.config.control_socket)]
    hostile = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
    slowest, latest = 0.0, time.monotonic() + WITHIN_S
    while hostile.poll() is None:
        began = time.monotonic()
        if began > latest:
            hostile.kill()
            pytest.fail(f"not within {WITHIN_S} s; the daemon says:\n{daemon.log()[-5000:]}")
        with daemon.client() as client:
            client.status()
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.05)
    assert hostile.stdout is not None
    outcomes = json.loads(hostile.stdout.read())
    hostile.stdout.close()
    work.end()
    assert hostile.returncode == 0
    print(outcomes, f"slowest answer to somebody else: {slowest:.3f} s; {work.edges} edges")
    assert sum(sum(of.values()) for of in outcomes.values()) == COUNT
    for kind, found in outcomes.items():
        assert set(found) <= {"refused", "unknown", "protocol", "version", "answered", "busy"}, (kind, found)
        if kind != "_flipped" and kind != "_wrong_types":  # of these, some are good
            assert "answered" not in found, (kind, found)
    assert set(outcomes["_cut"]) == set(outcomes["_too_long"]) == {"protocol"}
    assert set(outcomes["_changes"]) == {"refused", "unknown"}
    assert work.edges > 100
    assert program.gate() == gate
    assert program.do("attribute", "closed") is False
    assert program.do("lease_until_ns") > lease
    with daemon.client() as client:
        after = client.ps()
    assert [(job.id, job.job_class, job.pinned, job.paused_by, job.memory[0].limit) for job in after] == [
        (job.id, job.job_class, job.pinned, job.paused_by, job.memory[0].limit) for job in before
    ]
    assert memory_kib(daemon.process.pid) - resident < MOST_GROWTH_KIB
    assert len(daemon.log()) < 200_000, "and the log is as short as it was"


def test_messages_are_the_same_each_time() -> None:
    assert list(messages(SEED, 300)) == list(messages(SEED, 300))
    assert {kind for kind, _ in messages(SEED, 300)} == {kind.__name__ for kind in KINDS}
