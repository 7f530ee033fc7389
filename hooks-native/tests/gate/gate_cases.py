"""Turns tests/contract/gate_cases.toml into a C array for test_decide.c: gate_cases.py IN.toml OUT.h"""

import sys
import tomllib
from pathlib import Path
from typing import Any

NEVER = 2**64 - 1
GATES = {"paused": 1, "preempt": 2, "window": 4}
WHYS = ("open", "detached", "paused", "peer", "others", "window", "max_pause", "failsafe")
CASE_KEYS = {
    "name", "gate", "rank", "resume_after_ns", "max_pause_ns", "max_inflight", "others_active", "detach",
    "lease_until_ns",
    "failsafe", "failsafe_after_ns", "peers", "own", "now_ns", "expect", "why", "peer", "until_ns",
}  # fmt: skip
PEER_KEYS = {"rank", "active", "idle_since_ns", "stale", "mapped"}
OWN_KEYS = {"held_since_ns", "passes", "inflight"}


def known(table: dict[str, Any], keys: set[str], where: str) -> None:
    """Refuses keys that nobody reads: a misspelt one would silently test something else."""
    unknown = set(table) - keys
    if unknown:
        raise SystemExit(f"{where}: unknown key {', '.join(sorted(unknown))}; allowed: {', '.join(sorted(keys))}")


def time_of(table: dict[str, Any], key: str, default: int) -> str:
    value = table.get(key, default)
    return f"{NEVER if value == 'max' else value}ull"


def peer_of(peer: dict[str, Any], where: str) -> str:
    known(peer, PEER_KEYS, where)
    fields = (
        peer["rank"], int(peer.get("active", False)), time_of(peer, "idle_since_ns", 0), int(peer.get("stale", False)),
        int(peer.get("mapped", True)),
    )  # fmt: skip
    return "{ " + ", ".join(map(str, fields)) + " }"


def case_of(case: dict[str, Any]) -> str:
    name = case["name"]
    known(case, CASE_KEYS, f'case "{name}"')
    own = case.get("own", {})
    known(own, OWN_KEYS, f'case "{name}", own')
    peers = case.get("peers", [])
    lines = {
        "name": '"' + name.replace('"', '\\"') + '"',
        "gate": sum(GATES[word] for word in case.get("gate", [])),
        "rank": case.get("rank", 1),
        "resume_after_ns": time_of(case, "resume_after_ns", 1_000_000),
        "max_pause_ns": time_of(case, "max_pause_ns", NEVER),
        "max_inflight": case.get("max_inflight", 0),
        "others_active": int(case.get("others_active", False)),
        "detach": int(case.get("detach", False)),
        "lease_until_ns": time_of(case, "lease_until_ns", 2**62),
        "failsafe": ("open", "hold").index(case.get("failsafe", "open")),
        "failsafe_after_ns": time_of(case, "failsafe_after_ns", 30_000_000_000),
        "peer_count": len(peers),
        "peers": "{ " + ", ".join(peer_of(peer, f'case "{name}", peers') for peer in peers) + " }"
        if peers
        else "{ { 0 } }",
        "held_since_ns": time_of(own, "held_since_ns", 0),
        "passes": own.get("passes", 0),
        "inflight": own.get("inflight", 0),
        "now_ns": time_of(case, "now_ns", 1_000_000_000_000),
        "hold": ("pass", "hold").index(case["expect"]),
        "why": WHYS.index(case["why"]),
        "peer": f"{case.get('peer', 2**32 - 1)}u",
        "until_ns": time_of(case, "until_ns", NEVER),
    }
    return "{ " + ", ".join(f".{key} = {value}" for key, value in lines.items()) + " },"


def main(source: Path, target: Path) -> None:
    cases = tomllib.loads(source.read_text())["case"]
    text = "\n".join(["/* Generated from gate_cases.toml. */", *map(case_of, cases)])
    target.write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
