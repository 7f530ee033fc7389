"""A daemon that is watched, as screens do."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpud.control import wire
from gpud.model.errors import NoDaemon, UsageError
from gpud.model.live_views import Feed
from tests.daemon.conftest import PATIENCE_S, Daemon, until
from tests.watched import Model

GATE_PREEMPT = 2


def follow(steps: Iterator[Feed], model: Model, condition: Callable[[], object], what: str) -> None:
    """Takes steps until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        model.apply(next(steps))


def states(model: Model) -> dict[str, str]:
    return {row.name: row.state for row in model.jobs.values()}


def kinds(model: Model) -> list[str]:
    return [one.kind for _, one in sorted(model.decisions.items())]


def test_what_jobs_do_is_shown_and_kept(daemon: Daemon) -> None:
    model = Model()
    with daemon.client() as watcher, daemon.client() as client:
        steps = watcher.feed(100)
        follow(steps, model, lambda: model.fulls, "the first step")
        assert model.jobs == {}
        low, high = daemon.program("batch"), daemon.program("online")
        for program in (low, high):
            program.attach()
        follow(steps, model, lambda: states(model) == {"batch": "idle", "online": "idle"}, "both jobs")
        follow(steps, model, lambda: kinds(model).count("attach") == 2, "who has attached")
        rows = {row.name: row for row in model.jobs.values()}
        assert (rows["batch"].job_class, rows["online"].job_class) == ("low", "high")
        low.do("pump_all")
        (entry,) = low.do("peer_table", 0)
        high.do("set_active", 0, True)
        fields = {"holding": 1, "hold_reason": GATE_PREEMPT, "hold_peer": entry[3]}
        low.do("set_slot", 0, fields | {"hold_since_ns": time.monotonic_ns()})
        follow(steps, model, lambda: states(model) == {"batch": "held", "online": "active"}, "one holds the other")
        why = model.jobs[rows["batch"].id].why
        assert why is not None
        assert (why.code, why.holder) == ("preempt", rows["online"].id)
        assert why.text.startswith(f"job {rows['online'].id} (online, high) is active; goes on 1ms after it is idle")
        assert why.by.startswith("preempt-mix.gpol:")
        both = {"batch", "online"}
        until(lambda: {row.name for row in client.past(time.time_ns()).jobs} == both, "a second is kept")
        then = time.time_ns()
        client.pause(rows["batch"].id)
        follow(steps, model, lambda: states(model)["batch"] == "paused", "it is paused")
        follow(steps, model, lambda: "audit" in kinds(model), "who has paused it")
        assert model.jobs[rows["batch"].id].paused_by.endswith(f"(uid {rows['batch'].uid})")
        follow(steps, model, lambda: "hold" in kinds(model), "that it is held")
        client.resume(rows["batch"].id)
        follow(steps, model, lambda: states(model)["batch"] == "held", "it goes on")
        low.end()
        high.end()
        follow(steps, model, lambda: not model.jobs, "both are gone")
        assert model.gaps == 0
        past = client.past(then)
        assert (past.past, past.full, {row.name for row in past.jobs}) == (True, True, both)
        ask = wire.AskJournal(since_at_ns=0, until_at_ns=time.time_ns(), job=rows["batch"].id)
        found = [one.kind for one in client.journal(ask).decisions]
        assert found[:2] == ["admit", "attach"]
        assert {"audit", "hold", "go", "detach"} <= set(found)
        with pytest.raises(UsageError, match="the journal knows nothing before"):
            client.past(1)


def test_a_daemon_that_goes_away_ends_the_feed(daemon: Daemon) -> None:
    with daemon.client() as client:
        steps = client.feed(100)
        assert next(steps).full
        daemon.kill()
        with pytest.raises(NoDaemon):
            list(steps)


def test_policies_that_are_rejected_are_a_decision(tmp_path: Path) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    file = policies / "p.gpol"
    file.write_text('gpol 1\npolicy "p" { doc "D."  class all { match any } }\napply "p" to gpu *\n')
    (tmp_path / "run").mkdir(mode=0o700)
    daemon = Daemon(tmp_path / "run", policy=None, policies=policies)
    daemon.start()
    try:
        with daemon.client() as client:
            model, steps = Model(), client.feed(100)
            model.apply(next(steps))
            file.write_text("gpol 1\nnonsense\n")
            follow(steps, model, lambda: "reject" in kinds(model), "the rejection")
            (rejected,) = [one for one in model.decisions.values() if one.kind == "reject"]
            assert rejected.text.startswith("policies rejected: 1 error")
            assert rejected.level == "warning"
            follow(steps, model, lambda: model.node and model.node.policy_set.rejected, "the node says so")
            file.write_text('gpol 1\npolicy "p" { doc "E."  class all { match any } }\napply "p" to gpu *\n')
            follow(steps, model, lambda: "reload" in kinds(model), "another set")
    finally:
        daemon.close()
