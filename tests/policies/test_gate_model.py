"""The Python model of the gate, by the table that drives the C gate."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from gpud.policies.simulate.gate import NEVER, NO_PEER, PAUSED, PREEMPT, WINDOW, Own, Peer, Words, decide

TABLE = Path(__file__).parents[1] / "contract" / "gate_cases.toml"
CASES = tomllib.loads(TABLE.read_text())["case"]
BITS = {"paused": PAUSED, "preempt": PREEMPT, "window": WINDOW}


def when(table: dict[str, Any], key: str, default: int) -> int:
    value = table.pop(key, default)
    return NEVER if value == "max" else value


def peer_of(row: dict[str, Any]) -> Peer:
    row = dict(row)
    known = row.pop("mapped", True) and not row.pop("stale", False)
    peer = Peer(row.pop("rank"), row.pop("active", False), when(row, "idle_since_ns", 0), known)
    assert not row, f"unknown keys: {row}"
    return peer


@pytest.mark.parametrize("row", CASES, ids=[case["name"] for case in CASES])
def test_the_model_decides_as_the_table_says(row: dict[str, Any]) -> None:
    case = dict(row)
    name = case.pop("name")
    peers = [peer_of(peer) for peer in case.pop("peers", [])]
    asking = dict(case.pop("own", {}))
    own = Own(when(asking, "held_since_ns", 0), asking.pop("passes", 0), asking.pop("inflight", 0))
    words = Words(
        gate=sum(BITS[word] for word in case.pop("gate", [])),
        rank=case.pop("rank", 1),
        resume_after_ns=when(case, "resume_after_ns", 1_000_000),
        max_pause_ns=when(case, "max_pause_ns", NEVER),
        max_inflight=case.pop("max_inflight", 0),
        others_active=case.pop("others_active", False),
        detach=case.pop("detach", False),
        lease_until_ns=when(case, "lease_until_ns", 2**62),
        failsafe_opens=case.pop("failsafe", "open") == "open",
        failsafe_after_ns=when(case, "failsafe_after_ns", 30_000_000_000),
    )
    now = when(case, "now_ns", 1_000_000_000_000)
    hold, why = case.pop("expect") == "hold", case.pop("why")
    until, peer = when(case, "until_ns", NEVER), case.pop("peer", NO_PEER)
    assert not case | asking, f"{name}: unknown keys {case} {asking}"

    decided = decide(words, peers, own, now)

    assert (decided.hold, decided.why) == (hold, why)
    if hold:
        assert (decided.until_ns, decided.peer) == (until, peer)


def test_the_table_names_every_reason() -> None:
    assert {case["why"] for case in CASES} == {
        "open", "detached", "paused", "peer", "others", "window", "max_pause", "failsafe",
    }  # fmt: skip
