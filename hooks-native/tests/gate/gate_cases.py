"""Turns tests/contract/gate_cases.toml into a C array for test_decide.c: gate_cases.py IN.toml OUT.h"""

import sys
import tomllib
from pathlib import Path
from typing import Any

NEVER = 2**64 - 1
LOWEST = -(2**63)
GATES = {
    "paused": 1, "preempt": 2, "window": 4, "budget": 8, "grant": 16, "rate": 32, "charge": 64, "share": 128,
    "copy": 256,
}  # fmt: skip
WHYS = (
    "open", "detached", "paused", "peer", "others", "window", "max_pause", "failsafe", "budget", "rate", "share",
    "lock",
)  # fmt: skip
TURNS = ("none", "has", "asks")
CASE_KEYS = {
    "name", "gate", "rank", "tenant", "resume_after_ns", "max_pause_ns", "max_inflight", "max_inflight_ns",
    "others_active", "others_lag_ns", "detach", "lease_until_ns", "failsafe", "failsafe_after_ns", "cap", "share",
    "writing", "launch_rate", "block_rate", "copy_rate", "burst_ns", "peers", "own", "now_ns", "expect", "why", "peer",
    "until_ns", "turn", "grant_epoch",
}  # fmt: skip
CAP_KEYS = {"base_ns", "rate_ppm", "t0_ns", "burst_ns", "soft"}
SHARE_KEYS = {"base_ns", "rate_ppm", "t0_ns", "turn_ns"}
PEER_KEYS = {
    "rank", "active", "idle_since_ns", "stale", "mapped", "tenant", "own", "share", "writing", "spent_ns", "waiting",
    "turn", "full_ns",
}  # fmt: skip
OWN_KEYS = {
    "held_since_ns", "passes", "pass_ns", "elsewhere", "inflight", "inflight_ns", "full", "cost_ns", "blocks", "bytes",
    "spent_ns", "turn", "forfeit_ns", "gathers", "ignored", "launches_left", "blocks_left", "bytes_left",
    "memory", "epoch",
}  # fmt: skip
NOW = 1_000_000_000_000
BEYOND = 16


def known(table: dict[str, Any], keys: set[str], where: str) -> None:
    """Refuses keys that nobody reads: a misspelt one would silently test something else."""
    unknown = set(table) - keys
    if unknown:
        raise SystemExit(f"{where}: unknown key {', '.join(sorted(unknown))}; allowed: {', '.join(sorted(keys))}")


def time_of(table: dict[str, Any], key: str, default: int) -> str:
    value = table.get(key, default)
    return f"{NEVER if value == 'max' else value}ull"


def signed(table: dict[str, Any], key: str, default: int) -> str:
    value = table.get(key, default)
    value = LOWEST if value == "min" else value
    return "INT64_MIN" if value == LOWEST else f"{value}ll"


def level_of(table: dict[str, Any], keys: set[str], where: str) -> str:
    known(table, keys, where)
    return f"{{ {signed(table, 'base_ns', 0)}, {time_of(table, 't0_ns', NOW)}, {table.get('rate_ppm', 0)} }}"


def initialiser(fields: dict[str, Any]) -> str:
    return "{ " + ", ".join(f".{key} = {value}" for key, value in fields.items()) + " }"


def turn_of(table: dict[str, Any]) -> int:
    """A word of TURNS, or whatever number a page may hold."""
    turn = table.get("turn", "none")
    return TURNS.index(turn) if isinstance(turn, str) else int(turn)


def peer_of(peer: dict[str, Any], index: int, where: str) -> str:
    known(peer, PEER_KEYS, where)
    return initialiser({
        "rank": peer.get("rank", 1),
        "active": int(peer.get("active", False)),
        "idle_since_ns": time_of(peer, "idle_since_ns", 0),
        "stale": int(peer.get("stale", False)),
        "mapped": int(peer.get("mapped", True)),
        "tenant": peer.get("tenant", 100 + index),
        "flags": int(peer.get("own", False)) + 2 * ("share" in peer),
        "writing": int(peer.get("writing", False)),
        "share": level_of(peer.get("share", {}), SHARE_KEYS - {"turn_ns"}, where + ", share"),
        "spent_ns": time_of(peer, "spent_ns", 0),
        "waiting": peer.get("waiting", 0),
        "turn": turn_of(peer),
        "full_ns": time_of(peer, "full_ns", 0),
    })  # fmt: skip


def ignored(entries: list[int | str]) -> int:
    return sum(1 << (BEYOND if entry == "beyond" else int(entry)) for entry in entries)


def own_of(own: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "held_since_ns": time_of(own, "held_since_ns", 0),
        "passes": own.get("passes", 0),
        "pass_ns": time_of(own, "pass_ns", 0),
        "elsewhere": int(own.get("elsewhere", False)),
        "inflight": own.get("inflight", 0),
        "inflight_ns": time_of(own, "inflight_ns", 0),
        "full": int(own.get("full", False)),
        "cost_ns": time_of(own, "cost_ns", 1000),
        "blocks": time_of(own, "blocks", 1),
        "bytes": time_of(own, "bytes", 0),
        "memory": int(own.get("memory", False)),
        "epoch": own.get("epoch", 0),
        "spent_ns": time_of(own, "spent_ns", 0),
        "turn": TURNS.index(own.get("turn", "none")),
        "forfeit_ns": signed(own, "forfeit_ns", 0),
        "gathers": int(own.get("gathers", False)),
        "ignored": ignored(own.get("ignored", [])),
    }
    for left in ("launches_left", "blocks_left", "bytes_left"):
        if left in own:
            fields[left] = f"{{ {own[left]} * GPUD_BUCKET_UNIT, 1 }}"
    return fields


def case_of(case: dict[str, Any]) -> str:
    name = case["name"]
    where = f'case "{name}"'
    known(case, CASE_KEYS, where)
    own, peers, cap, share = case.get("own", {}), case.get("peers", []), case.get("cap", {}), case.get("share", {})
    known(own, OWN_KEYS, where + ", own")
    lines = {
        "name": '"' + name.replace('"', '\\"') + '"',
        "gate": sum(GATES[word] for word in case.get("gate", [])),
        "rank": case.get("rank", 1),
        "tenant": case.get("tenant", 7),
        "resume_after_ns": time_of(case, "resume_after_ns", 1_000_000),
        "max_pause_ns": time_of(case, "max_pause_ns", NEVER),
        "max_inflight": case.get("max_inflight", 0),
        "max_inflight_ns": time_of(case, "max_inflight_ns", 0),
        "others_active": int(case.get("others_active", False)),
        "others_lag_ns": signed(case, "others_lag_ns", LOWEST),
        "detach": int(case.get("detach", False)),
        "lease_until_ns": time_of(case, "lease_until_ns", 2**62),
        "failsafe": ("open", "hold").index(case.get("failsafe", "open")),
        "failsafe_after_ns": time_of(case, "failsafe_after_ns", 30_000_000_000),
        "writing": int(case.get("writing", False)),
        "cap": level_of(cap, CAP_KEYS, where + ", cap"),
        "cap_burst_ns": time_of(cap, "burst_ns", NEVER),
        "soft": int(cap.get("soft", False)),
        "share": level_of(share, SHARE_KEYS, where + ", share"),
        "share_turn_ns": time_of(share, "turn_ns", 10_000_000),
        "launch_rate": time_of(case, "launch_rate", NEVER),
        "block_rate": time_of(case, "block_rate", NEVER),
        "copy_rate": time_of(case, "copy_rate", NEVER),
        "grant_epoch": case.get("grant_epoch", 0),
        "burst_ns": time_of(case, "burst_ns", 10_000_000),
        "peer_count": len(peers),
        "peers": "{ " + ", ".join(peer_of(peer, i, f"{where}, peers") for i, peer in enumerate(peers)) + " }"
        if peers
        else "{ { 0 } }",
        "own": initialiser(own_of(own)),
        "now_ns": time_of(case, "now_ns", NOW),
        "hold": ("pass", "hold").index(case["expect"]),
        "why": WHYS.index(case["why"]),
        "peer": f"{case.get('peer', 2**32 - 1)}u",
        "until_ns": time_of(case, "until_ns", NEVER),
        "turn": TURNS.index(case.get("turn", "none")),
    }
    return initialiser(lines) + ","


def main(source: Path, target: Path) -> None:
    cases = tomllib.loads(source.read_text())["case"]
    names = [case["name"] for case in cases]
    if len(set(names)) != len(names):
        raise SystemExit(f"two cases are named {next(name for name in names if names.count(name) > 1)!r}")
    text = "\n".join(["/* Generated from gate_cases.toml. */", *map(case_of, cases)])
    target.write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
