"""A thousand turns of three tenants that do not fit into the device together, and are killed at random: what is lost.

Each tenant adds to its memory in each turn and knows what every word must be; it is asked again and again, and at the
end. A kill (SIGKILL) meets a tenant that waits, works, has the device, or has its memory moved just then, and another
one takes its place. One is never killed: how much it and the daemon have grown is looked at before all leave. Then what
is left behind is counted against what there was before the first one came: device memory by the driver, the daemon's
descriptors and the memory behind them, files, shared memory.
"""

import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

from attrs import define, frozen

from bench.holders import BASE, MIB, Holder, Silent, device, moved, swapping, whole_log
from bench.report import Row, arguments, emit
from gpud.testing.node import Node, until

TENANTS, SIZE_MIB, PIECE_MIB = 3, 24, 8
CAPACITY_MIB = 48
KILL_EVERY = 30
"""Turns, on average."""
CHECK_EVERY = 25
SEED = 6
WARM_UP = 0.2
"""Of all turns: by then everybody has what it needs for good."""
GROWN_MIB = 8
"""Less than one piece of a tenant's memory: whatever stays behind of a turn is more after hundreds of them."""
END_S = 30.0


@frozen(kw_only=True)
class Left:
    """What there is beside programs."""

    device_bytes: int
    descriptors: int
    file_bytes: int
    """Memory behind the daemon's descriptors (memory files), as far as it is really there."""
    files: frozenset[str]
    """In the daemon's directories and in shared memory."""


@define(kw_only=True)
class Counts:
    """What has come to pass."""

    turns: int = 0
    kills: int = 0
    checks: int = 0
    wrong: int = 0
    silent: int = 0
    """Tenants that ended, or stood still, without having been killed."""


def device_used(node: Node) -> int:
    """By the (simulated) driver's tools, asked anew: what the daemon knows of it is some time old."""
    look = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetMemoryInfo(n.nvmlDeviceGetHandleByIndex(0)).used)"
    return int(node.run([sys.executable, "-c", look], managed=False).communicate(timeout=END_S)[0])


def left(node: Node) -> Left:
    """Now."""
    assert node.daemon is not None
    folder = Path(f"/proc/{node.daemon.pid}/fd")
    count = size = 0
    for entry in folder.iterdir():
        with contextlib.suppress(OSError):
            found = os.readlink(entry)
            if "socket:" in found:
                continue  # the command's own connection comes and goes
            count += 1
            if "memfd:" in found:
                size += entry.stat().st_blocks * 512
    files = {str(path) for path in node.directory.rglob("*") if path.suffix not in (".jsonl", ".log")}
    return Left(
        device_bytes=device_used(node),
        descriptors=count,
        file_bytes=size,
        files=frozenset(files | {str(path) for path in Path("/dev/shm").iterdir() if "gpud" in path.name}),
    )


def own_bytes(pid: int) -> int:
    """Memory of a process that is nobody else's: without files, and without what is shared (the simulated device's
    memory, what is swapped out)."""
    said = Path(f"/proc/{pid}/status").read_text()
    return int(said.partition("RssAnon:")[2].split()[0]) * 1024


class Soak:
    """Turns, kills and looks, by chance that is the same each time."""

    def __init__(self, node: Node, binary: Path) -> None:
        self._node, self._binary = node, binary
        self._chance = random.Random(SEED)
        self._made = 0
        self._next_kill = self._chance.randrange(KILL_EVERY)
        self.counts = Counts()
        self.pids: list[int] = []
        self._own_bytes: dict[int, int] = {}
        """Of who lives on, when all were warm."""
        self._holders = [self._new() for _ in range(TENANTS)]

    def run(self, turns: int) -> None:
        while self.counts.turns < turns:
            if not self._own_bytes and self.counts.turns >= turns * WARM_UP:
                self._own_bytes = {pid: own_bytes(pid) for pid in self._living()}
            order = self._chance.sample(range(TENANTS), TENANTS)
            asked = [index for index in order if self._say(index, "turn")]
            if self.counts.turns >= self._next_kill:
                self._next_kill += self._chance.randrange(KILL_EVERY // 2, KILL_EVERY + KILL_EVERY // 2)
                time.sleep(self._chance.uniform(0, 0.02))
                self._kill(self._chance.randrange(1, TENANTS), asked)
            for index in asked:
                self._hear(index, "turn")
            self.counts.turns += len(asked)
            if self.counts.turns % CHECK_EVERY < TENANTS:
                self._check(self._chance.randrange(TENANTS))

    def _living(self) -> tuple[int, int]:
        """The daemon, and the tenant that is not killed."""
        assert self._node.daemon is not None
        return self._node.daemon.pid, self._holders[0].pid

    def grown_bytes(self) -> int:
        """Since all were warm, whoever has grown most. One that was lost is not looked at: it counts as lost."""
        return max(own_bytes(pid) - self._own_bytes[pid] for pid in self._living() if pid in self._own_bytes)

    def end(self) -> None:
        """All are asked once more, and leave."""
        for index in range(TENANTS):
            self._check(index)
        for holder in self._holders:
            holder.finish()

    def _new(self) -> Holder:
        self._made += 1
        holder = Holder(self._node, self._binary, SIZE_MIB, PIECE_MIB, self._made)
        self.pids.append(holder.pid)
        return holder

    def _say(self, index: int, order: str) -> bool:
        try:
            self._holders[index].say(order)
        except Silent as error:
            self._lost(index, error)
            return False
        return True

    def _hear(self, index: int, word: str) -> list[int]:
        try:
            return self._holders[index].hear(word)
        except Silent as error:
            self._lost(index, error)
            return []

    def _check(self, index: int) -> None:
        if self._say(index, "check"):
            found = self._hear(index, "checked")
            self.counts.checks += 1
            self.counts.wrong += sum(found)

    def _kill(self, index: int, asked: list[int]) -> None:
        """The program itself; `gpud run` sees it end."""
        self.counts.kills += 1
        os.kill(self._holders[index].pid, signal.SIGKILL)
        self._holders[index].process.wait(END_S)
        if index in asked:
            asked.remove(index)
        self._holders[index] = self._new()

    def _lost(self, index: int, error: Silent) -> None:
        self.counts.silent += 1
        print(f"soak: tenant {self._holders[index].pid} {error}", file=sys.stderr)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._holders[index].pid, signal.SIGKILL)
        self._holders[index] = self._new()


def settled(node: Node, before: Left) -> Left:
    """What is left once the daemon has seen the last one go; where something stays, after as long as that may take."""

    def nobody() -> bool:
        with node.client() as client:
            return not client.ps()

    until(nobody, END_S, "the daemon has seen all of them go")
    with contextlib.suppress(TimeoutError):
        until(lambda: left(node) == before, END_S, "nothing is left", 0.2)
    return left(node)


def measure(turns: int) -> list[Row]:
    began = time.monotonic()
    with device(CAPACITY_MIB, TENANTS, swapping(idle_release="20ms")) as (node, binary):
        first = Holder(node, binary, PIECE_MIB, PIECE_MIB, 99)  # what stays once and for all is there afterwards
        first.finish()
        before = settled(node, left(node))
        soak = Soak(node, binary)
        soak.run(turns)
        grown = soak.grown_bytes()
        soak.end()
        after = settled(node, before)
        took = time.monotonic() - began
        log = whole_log(node)
    counts = soak.counts
    gone = [copy for copy in log.copies if copy.pid in soak.pids and copy.size != PIECE_MIB * MIB]
    files = after.files - before.files
    for name in sorted(files):
        print(f"soak: left behind: {name}", file=sys.stderr)
    return [
        Row(name="soak_turns", value=counts.turns, unit="turns", target=turns, better="higher"),
        Row(name="soak_kills", value=counts.kills, unit="tenants"),
        Row(name="soak_checks", value=counts.checks, unit="looks at all of a tenant's words"),
        Row(name="soak_moved_gib", value=moved(gone) / (1 << 30), unit="GiB", better="higher"),
        Row(name="soak_lost_words", value=counts.wrong, unit="words", target=0),
        Row(name="soak_lost_tenants", value=counts.silent, unit="tenants that were not killed", target=0),
        Row(name="soak_grown_mib", value=grown / MIB, unit="MiB", target=GROWN_MIB),
        Row(
            name="soak_left_device_mib",
            value=(after.device_bytes - before.device_bytes) / MIB,
            unit="MiB",
            target=0,
        ),
        Row(name="soak_left_host_mib", value=(after.file_bytes - before.file_bytes) / MIB, unit="MiB", target=0),
        Row(name="soak_left_descriptors", value=after.descriptors - before.descriptors, unit="descriptors", target=0),
        Row(name="soak_left_files", value=len(files), unit="files", target=0),
        Row(name="soak_took_s", value=took, unit="s"),
    ]


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    rows = measure(60 if options.quick else 1000)
    words = f"simulated, profile {BASE} with room for {CAPACITY_MIB} MiB, {TENANTS} tenants of {SIZE_MIB} MiB"
    emit("soak", words, rows, options.json, rehearsal=options.quick)
    sys.exit(0 if all(row.met is not False for row in rows) else 1)


if __name__ == "__main__":
    main()
