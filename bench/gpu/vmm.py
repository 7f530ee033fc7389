"""What device memory costs below gpud: the calls that put it behind an address, by size of the piece, with handles made
for it and with handles that are kept; and plain copies to and from pinned host memory, one way and both ways at once.

No daemon and no hook: this is what the pool of chunks and the swap are built on, and compared with.
"""

import json
import subprocess
from pathlib import Path

from bench.gpu.place import PROGRAMS, Parts, Place, options_of, place
from bench.harness import program
from bench.report import Row
from gpud.testing.node import Node

SIZES_MIB = (2, 32, 64, 256)
ROUNDS, QUICK_ROUNDS = 50, 3
PIECE_MIB, PIECES = 32, 64
"""2 GiB each way."""
QUICK_PIECES = 4


def said(node: Node, binary: Path, *words: object) -> dict[str, dict[str, dict[str, float]]]:
    """What a program prints, run without gpud. Raises RuntimeError where it fails."""
    job = node.run([str(word) for word in (binary, *words)], managed=False, stderr=subprocess.PIPE)
    out, err = job.communicate(timeout=120)
    if job.returncode:
        raise RuntimeError(f"{binary.name} ended with {job.returncode}: {err.strip()[-1000:]}")
    return dict(json.loads(out))


def bare_node(here: Place) -> Node:
    """Without a daemon."""
    return Node(profile=str(here.profile) if here.profile else None)


def calls(here: Place, rounds: int) -> list[Row]:
    """A row for each call, kind and size; then what all of it costs for a GiB."""
    node = bare_node(here)
    try:
        with program(PROGRAMS / "vmm.c") as binary:
            found = said(node, binary, rounds, *SIZES_MIB)
    finally:
        node.close()
    rows = []
    for size, kinds in found.items():
        for kind, costs in kinds.items():
            rows += [
                Row(name=f"vmm_{size}mib_{kind}_{call}_us", value=ns / 1e3, unit="µs") for call, ns in costs.items()
            ]
            value = sum(costs.values()) / 1e6 * (1024 / int(size))
            rows.append(Row(name=f"vmm_{size}mib_{kind}_ms_per_gib", value=value, unit="ms"))
    return rows


def plain(here: Place, pieces: int, rounds: int) -> list[Row]:
    """GB/s of plain copies."""
    node = bare_node(here)
    try:
        with program(PROGRAMS / "copies.c") as binary:
            found = said(node, binary, PIECE_MIB, pieces, rounds)
    finally:
        node.close()
    return [
        Row(name=f"copy_{way}_gb_per_s", value=float(rate) / 1e9, unit="GB/s", better="higher")  # type: ignore[arg-type]
        for way, rate in found.items()
    ]


def main() -> None:
    options = options_of(__doc__ or "", seconds=0.0)
    parts = Parts("vmm", options)
    with place(options) as here:
        parts.device = f"simulated, profile {here.profile.stem}: a rehearsal" if here.profile else "the device"
        with parts.part("calls"):
            parts.rows += calls(here, QUICK_ROUNDS if options.quick else ROUNDS)
        with parts.part("copies"):
            quick = options.quick
            parts.rows += plain(here, QUICK_PIECES if quick else PIECES, QUICK_ROUNDS if quick else 5)
    parts.end()


if __name__ == "__main__":
    main()
