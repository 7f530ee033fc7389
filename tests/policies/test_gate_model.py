"""The Python model of the gate, by the table that drives the C gate."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from gpud.policies.simulate import gate_words
from gpud.policies.simulate.gate import decide
from gpud.policies.simulate.gate_words import (
    BEYOND,
    NEVER,
    NO_PEER,
    NONE_LAG,
    TURN_ASKS,
    TURN_HAS,
    TURN_NONE,
    UNLIMITED,
    Bucket,
    Level,
    Own,
    Peer,
    Words,
)

TABLE = Path(__file__).parents[1] / "contract" / "gate_cases.toml"
CASES = tomllib.loads(TABLE.read_text())["case"]
NOW = 1_000_000_000_000
TURNS = {"none": TURN_NONE, "has": TURN_HAS, "asks": TURN_ASKS}


def when(table: dict[str, Any], key: str, default: int) -> int:
    value = table.pop(key, default)
    return {"max": NEVER, "min": NONE_LAG}.get(value, value)


def turn_of(table: dict[str, Any]) -> int:
    turn = table.pop("turn", "none")
    return TURNS[turn] if isinstance(turn, str) else turn


def level_of(row: dict[str, Any]) -> Level:
    return Level(when(row, "base_ns", 0), row.pop("rate_ppm", 0), when(row, "t0_ns", NOW))


def peer_of(row: dict[str, Any], index: int) -> Peer:
    row = dict(row)
    known = row.pop("mapped", True) and not row.pop("stale", False)
    row.pop("writing", None)  # nobody writes while the model reads
    share = dict(row.pop("share")) if "share" in row else None
    peer = Peer(
        rank=row.pop("rank", 1),
        active=row.pop("active", False),
        idle_since_ns=when(row, "idle_since_ns", 0),
        known=known,
        tenant=row.pop("tenant", 100 + index),
        own=row.pop("own", False),
        share=level_of(share) if share is not None else None,
        spent_ns=when(row, "spent_ns", 0),
        waiting=row.pop("waiting", 0),
        turn=turn_of(row),
        full_ns=when(row, "full_ns", 0),
    )
    assert not row | (share or {}), f"unknown keys: {row} {share}"
    return peer


def own_of(row: dict[str, Any], case: dict[str, Any]) -> Own:
    burst = when(case, "burst_ns", 10_000_000)

    def bucket(rate: str, left: str, scale: int = 1) -> Bucket:
        allowed = when(case, rate, UNLIMITED)
        return Bucket(allowed if allowed == UNLIMITED else allowed * scale, burst, row.pop(left, None))

    own = Own(
        held_since_ns=when(row, "held_since_ns", 0),
        passes=row.pop("passes", 0),
        pass_ns=when(row, "pass_ns", 0),
        elsewhere=row.pop("elsewhere", False),
        inflight=row.pop("inflight", 0),
        inflight_ns=when(row, "inflight_ns", 0),
        full=row.pop("full", False),
        cost_ns=when(row, "cost_ns", 1000),
        blocks=when(row, "blocks", 1),
        bytes=when(row, "bytes", 0),
        memory=row.pop("memory", False),
        epoch=row.pop("epoch", 0),
        spent_ns=when(row, "spent_ns", 0),
        turn=turn_of(row),
        forfeit_ns=when(row, "forfeit_ns", 0),
        gathers=row.pop("gathers", False),
        ignored=frozenset(BEYOND if entry == "beyond" else entry for entry in row.pop("ignored", [])),
        launches=bucket("launch_rate", "launches_left"),
        block_bucket=bucket("block_rate", "blocks_left"),
        copied=bucket("copy_rate", "bytes_left", 1000),
    )
    assert not row, f"unknown keys: {row}"
    return own


@pytest.mark.parametrize("row", CASES, ids=[case["name"] for case in CASES])
def test_the_model_decides_as_the_table_says(row: dict[str, Any]) -> None:
    case = dict(row)
    name = case.pop("name")
    case.pop("writing", None)
    peers = [peer_of(peer, index) for index, peer in enumerate(case.pop("peers", []))]
    own = own_of(dict(case.pop("own", {})), case)
    cap, share = dict(case.pop("cap", {})), dict(case.pop("share", {}))
    words = Words(
        gate=sum(getattr(gate_words, word.upper()) for word in case.pop("gate", [])),
        rank=case.pop("rank", 1),
        tenant=case.pop("tenant", 7),
        resume_after_ns=when(case, "resume_after_ns", 1_000_000),
        max_pause_ns=when(case, "max_pause_ns", NEVER),
        max_inflight=case.pop("max_inflight", 0),
        max_inflight_ns=when(case, "max_inflight_ns", 0),
        others_active=case.pop("others_active", False),
        others_lag_ns=when(case, "others_lag_ns", NONE_LAG),
        soft=cap.pop("soft", False),
        cap_burst_ns=when(cap, "burst_ns", NEVER),  # what is above it is the caller's to forfeit
        cap=level_of(cap),
        turn_ns=when(share, "turn_ns", 10_000_000),
        share=level_of(share),
        detach=case.pop("detach", False),
        lease_until_ns=when(case, "lease_until_ns", 2**62),
        failsafe_opens=case.pop("failsafe", "open") == "open",
        failsafe_after_ns=when(case, "failsafe_after_ns", 30_000_000_000),
        grant_epoch=case.pop("grant_epoch", 0),
    )
    now = when(case, "now_ns", NOW)
    hold, why, turn = case.pop("expect") == "hold", case.pop("why"), turn_of(case)
    until, peer = when(case, "until_ns", NEVER), case.pop("peer", NO_PEER)
    assert not case | cap | share, f"{name}: unknown keys {case} {cap} {share}"

    decided = decide(words, peers, own, now)

    assert (decided.hold, decided.why, decided.turn) == (hold, why, turn)
    if hold:
        assert (decided.until_ns, decided.peer) == (until, peer)


def test_the_table_names_every_reason() -> None:
    assert {case["why"] for case in CASES} == {
        "open", "detached", "paused", "peer", "others", "window", "max_pause", "failsafe", "budget", "rate", "share",
        "lock",
    }  # fmt: skip


def test_the_bits_are_those_of_the_pages() -> None:
    from gpud.engine import publish

    for name in ("PAUSED", "PREEMPT", "WINDOW", "BUDGET", "GRANT", "RATE", "CHARGE", "SHARE", "COPY"):
        assert getattr(gate_words, name) == getattr(publish, f"GATE_{name}")
