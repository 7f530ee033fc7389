"""Memory that leaves a real device and comes back: how fast, against a plain copy, and what going from one owner to the
next takes.

A program without gpud fills the device, but for a room of some GiB, so that filling and looking through all memory
takes seconds, not minutes. Two programs of 60 % of the room each take turns: what one lacks comes in while the other's
goes out. One way alone: out for a program whose memory holds nothing yet, in when the others have gone. Then two of
30 %, which both fit.
"""

import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.gpu.place import Parts, Place, options_of, place
from bench.harness import NATIVE, own_policies, program
from bench.holders import MIB, Holder, swapping, waits
from bench.report import Row, row_of_runs
from gpud.model.views import MemoryView
from gpud.testing.node import Node, until

PIECE_MIB = 64
ROOM_MIB, QUICK_ROOM_MIB = 8192, 640
CONTEXTS_MIB = 2048
"""Left for three contexts, on whichever device."""
FILLER_PIECE_MIB = 512
SWITCHES, QUICK_SWITCHES = 20, 4
WAITS_S = 60.0


def memory_of(node: Node, holder: Holder) -> MemoryView:
    """As the daemon knows it."""
    with node.client() as client:
        return client.job_of(holder.pid).memory[0]


def fill_up(node: Node, binary: Path, room_mib: int) -> int:
    """Fills the device but for about so much, by a program without gpud. How much room there is then, MiB: a small
    device is left as it is."""
    with node.client() as client:
        device = client.status().devices[0]
    free_mib = (device.total_bytes - (device.used_bytes or 0)) // MIB
    filler_mib = free_mib - room_mib - CONTEXTS_MIB
    if filler_mib < FILLER_PIECE_MIB:
        return free_mib
    Holder(node, binary, filler_mib, FILLER_PIECE_MIB, 0, managed=False)
    return room_mib


@contextmanager
def room(here: Place, room_mib: int) -> Iterator[tuple[Node, Path]]:
    """A node on a device that is full but for so much, and the program."""
    with own_policies(swapping(host=f"{3 * room_mib}MiB")) as policies, program(NATIVE / "memory.c") as binary:
        profile = str(here.profile) if here.profile else None
        variables = {"GPUD_OPTIONAL": "1", "GPUD_SIM_PYTHON": sys.executable}
        with Node(profile=profile, policy="bench", policies=policies, environment=variables) as node:
            fill_up(node, binary, room_mib)
            yield node, binary


def switched(node: Node, holders: Sequence[Holder], count: int) -> Iterator[tuple[float, int]]:
    """µs from release to the first launch, and the bytes that had to come in, of so many switches. The first of the
    holders has the device before, the last one to get it keeps it."""
    for number in range(count):
        has, comes = holders[number % 2], holders[1 - number % 2]
        lacks = memory_of(node, comes).host
        comes.say("enter")
        until(lambda pid=comes.pid: waits(node, pid), WAITS_S, "the next one waits")  # type: ignore[misc]
        (released,) = has.ask("release", "released")
        first = comes.hear("entered")[2]
        yield (first - released) / 1000, lacks


def lacking(node: Node, binary: Path, room_mib: int, count: int) -> list[Row]:
    """Two that do not fit together."""
    size = room_mib * 6 // 10 // PIECE_MIB * PIECE_MIB
    lazy = Holder(node, binary, size, PIECE_MIB, 0)  # now: a context is made while there is room for it
    one, two = (Holder(node, binary, size, PIECE_MIB, seed) for seed in (1, 2))
    one.ask("enter", "entered")
    found = list(switched(node, (one, two), count + count % 2))[2:]
    one.ask("release", "released")
    both = [lacks / us * 1e6 / 1e9 for us, lacks in found if lacks]

    before = memory_of(node, one).host + memory_of(node, two).host
    asked, _, first, _ = lazy.ask("enter", "entered")
    gone = memory_of(node, one).host + memory_of(node, two).host - before
    out = gone / (first - asked)
    lazy.ask("release", "released")
    lazy.finish()
    lacks = memory_of(node, one).host
    asked, _, first, _ = one.ask("enter", "entered")
    into = lacks / (first - asked)
    one.ask("release", "released")

    wrong = sum(holder.ask("check", "checked")[0] for holder in (one, two))
    two.finish()
    one.ask("acquire", "acquired")
    out_ns, in_ns, _ = one.ask(f"plain {size}", "plain")
    one.finish()
    plain = {"out": size * MIB / out_ns, "in": size * MIB / in_ns}
    rows = [Row(name="swap_lost_words", value=wrong, unit="words", target=0)]
    if both:
        rows.append(row_of_runs("swap_both_gb_per_s", both, "GB/s each way", better="higher"))
        lacked = statistics.mean(lacks for _, lacks in found) / MIB
        rows.append(Row(name="swap_lacked_mib", value=lacked, unit="MiB a switch"))
    for way, rate in (("out", out), ("in", into)):
        rows.append(Row(name=f"swap_{way}_gb_per_s", value=rate, unit="GB/s", better="higher"))
        rows.append(Row(name=f"swap_{way}_plain_gb_per_s", value=plain[way], unit="GB/s", better="higher"))
        of_plain = 100 * rate / plain[way]
        rows.append(Row(name=f"swap_{way}_percent", value=of_plain, unit="% of plain", target=90, better="higher"))
    return rows


def fitting(node: Node, binary: Path, room_mib: int, count: int) -> list[Row]:
    """Two that both fit: nothing moves."""
    size = room_mib * 3 // 10 // PIECE_MIB * PIECE_MIB
    holders = [Holder(node, binary, size, PIECE_MIB, seed) for seed in (3, 4)]
    holders[0].ask("enter", "entered")
    found = list(switched(node, holders, count + count % 2))
    holders[0].ask("release", "released")
    wrong = sum(holder.ask("check", "checked")[0] for holder in holders)
    for holder in holders:
        holder.finish()
    return [
        row_of_runs("switch_fits_us", [us for us, _ in found], "µs", 1000.0),
        Row(name="switch_fits_lacked_bytes", value=sum(lacks for _, lacks in found), unit="bytes", target=0),
        Row(name="switch_fits_lost_words", value=wrong, unit="words", target=0),
    ]


def main() -> None:
    options = options_of(__doc__ or "", seconds=0.0)
    parts = Parts("swap", options)
    room_mib, count = (QUICK_ROOM_MIB, QUICK_SWITCHES) if options.quick else (ROOM_MIB, SWITCHES)
    with place(options) as here:
        parts.device = f"simulated, profile {here.profile.stem}: a rehearsal" if here.profile else "the device"
        with parts.part("fits"), room(here, room_mib) as (node, binary):
            parts.rows += fitting(node, binary, room_mib, count)
        with parts.part("lacks"), room(here, room_mib) as (node, binary):
            parts.rows += lacking(node, binary, room_mib, count)
    parts.end()


if __name__ == "__main__":
    main()
