"""What is said to be enforced is, and nothing else: each word of a policy changes what the engine does."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpud.engine import in_force, lock_words, signals
from gpud.engine.enforced import ENFORCED
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.units import SECOND
from gpud.policies.schema import BLOCKS, CLASS_SETTINGS, KNOBS, SIGNALS
from tests.engine.conftest import UUID, World, board, only

PREEMPT = {"order": "[high, low]", "resume_after": "3ms"}
REQUIRED = {"preempt": PREEMPT, "exclusive": {"max_hold": "10s"}}


def policy(
    body: str = "",
    mode: str = "preempt",
    arbitrate: Mapping[str, str] | None = None,
    low: str = "",
    failsafe: str = "",
    admit: str = "",
    limit: str = "",
) -> str:
    settings = arbitrate if arbitrate is not None else REQUIRED.get(mode, {})
    inside = "  ".join(f"{name} = {value}" for name, value in settings.items())
    return f"""
      class high {{ match label("tier") == "online"  {limit} }}
      class low  {{ match any  {low} }}
      {f"arbitrate {mode} {{ {inside} }}" if mode else ""}
      {f"failsafe {{ {failsafe} }}" if failsafe else ""}
      {f"admit {{ {admit} }}" if admit else ""}
      {body}
    """


class Watched(World):
    """Keeps all effects."""

    effects: list[Effect]

    def react(self, event: ev.Event) -> list[Effect]:
        found = super().react(event)
        self.effects = [*getattr(self, "effects", []), *found]
        return found


def done(body: str) -> Any:
    """All that the engine makes of a policy: what pages say, how time is divided, who is let in; at once, and once jobs
    have been there for two hours."""
    world = Watched(running=board(("p", body)))
    world.react(ev.DevicesFound(devices=((UUID, "A100", 1 << 30),)))
    clients = [world.high(), world.low(), world.low()]
    found: list[Any] = []
    for wait in (0, 7200 * SECOND):
        world.now += wait
        world.react(ev.Tick())
        world.ticks(SECOND)
        world.react(ev.Tick())
        state = world.state
        found.append([state.clients[c].words for c in clients])
        found.append([state.clients[c].failsafe for c in clients])
        found.append([e.division for e in only(world.effects, do.Divide)][-1:])
    found.append(_turns(world))
    asked = [world.launch(label_tier="online"), world.launch(), world.launch()]
    found.append([type(effect).__name__ for _, said in asked for effect in said])
    return found


def _turns(world: World) -> Any:
    """What holds for turns (test_lock.py shows what comes of it)."""
    state = world.state
    return [
        lock_words.terms_of(state, job, slot)
        for slot in state.devices
        for job in state.tenants
        if lock_words.turns_on(state, slot) is not None
    ]


BINDINGS = {
    "pause": "true", "yield": "false", "max_launch_rate": "100/s", "max_block_rate": "100/s", "max_compute": "30%",
    "max_copy_rate": "1GiB/s", "max_inflight": "4", "max_inflight_time": "1ms", "share": "fixed(30%)", "admit": "false",
    "max_hold": "3s", "max_overrun": "3s",
}  # fmt: skip


def test_there_is_a_binding_of_each_knob() -> None:
    assert set(BINDINGS) | {"residency"} == ENFORCED.knobs == set(KNOBS), "residency: test_memory_swap.py"
    assert ENFORCED.knobs == set(in_force.ENFORCED) | {"admit"}


@pytest.mark.parametrize("name", sorted(BINDINGS))
def test_each_knob_does_something(name: str) -> None:
    for mode in sorted(KNOBS[name].modes & ENFORCED.arbiters):
        arbitrate = {"period": "20ms"} if mode == "share" else None
        plain = done(policy(mode=mode, arbitrate=arbitrate))
        assert done(policy(f"low.{name} = {BINDINGS[name]}", mode=mode, arbitrate=arbitrate)) != plain, mode


@pytest.mark.parametrize("name", sorted(set(BINDINGS) - {"yield", "share", "max_hold", "max_overrun"}))
def test_each_knob_does_something_without_an_arbiter(name: str) -> None:
    assert done(policy(f"low.{name} = {BINDINGS[name]}", mode="")) != done(policy(mode=""))


@pytest.mark.parametrize("name", ["max_inflight", "max_inflight_time"])
def test_each_knob_of_one_tenant_does_something(name: str) -> None:
    rule = f"each low as n {{ when n.idle_for > 1s {{ n.{name} = {BINDINGS[name]} }} }}"
    assert done(policy(rule)) != done(policy())


SETTINGS: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    ("arbitrate", "open"): {},
    ("arbitrate", "preempt"): {
        "order": ("[high, low]", "[low, high]"), "resume_after": ("3ms", "4ms"), "max_inflight": ("4", "5"),
        "max_inflight_time": ("2ms", "3ms"), "max_pause": ("2s", "3s"), "pass": ("2ms", "3ms"),
    },
    ("arbitrate", "share"): {"period": ("20ms", "30ms"), "reclaim": ("2ms", "3ms")},
    ("arbitrate", "exclusive"): {
        "max_hold": ("20s", "30s"), "order": ("[high, low]", "[low, high]"), "queue": ("fifo", "fair"),
        "min_hold": ("1s", "2s"), "max_wait": ("50s", "60s"), "grace": ("1s", "2s"), "max_overrun": ("1s", "2s"),
        "idle_release": ("1s", "2s"),
    },
    ("failsafe", ""): {"daemon_lost": ("hold", "open"), "after": ("9s", "8s")},
    ("limit", ""): {
        "compute": ("30%", "40%"), "tenants": ("1", "9"), "memory": ("1GiB", "2GiB"),
        "over_memory": ("fail", "wait(max = 9s)"),
    },
    ("admit", ""): {
        "compute": ("100%", "200%"), "memory": ("100%", "200%"), "when_full": ("reject", "queue(max = 5min)"),
    },
}  # fmt: skip


def test_there_are_values_of_each_setting() -> None:
    assert {block: set(values) for block, values in SETTINGS.items()} == {
        block: set(names) for block, names in ENFORCED.settings.items() if block != ("swap", "")
    }
    assert ENFORCED.settings.keys() == BLOCKS.keys(), "swap: test_memory_swap.py"


def of_block(kind: str, mode: str, values: Mapping[str, str]) -> str:
    inside = "  ".join(f"{name} = {value}" for name, value in values.items())
    if kind == "arbitrate":
        required = REQUIRED.get(mode, {"period": "20ms"})
        # Only who may borrow has something to give back within `reclaim`.
        borrows = "low.share = burst(weight = 1)" if "reclaim" in values else ""
        return policy(borrows, mode=mode, arbitrate={**required, **values})
    if kind == "failsafe":
        return policy(failsafe=inside if "daemon_lost" in values else f"daemon_lost = hold  {inside}")
    if kind == "limit":
        much = "memory = 1GiB  " if "over_memory" in values else ""
        return policy(limit=f"limit {{ {much}{inside} }}")
    return policy(admit=inside, limit=f"limit {{ {'memory = 600MiB' if 'memory' in values else 'compute = 60%'} }}")


@pytest.mark.parametrize(
    ("kind", "mode", "name"), [(*block, name) for block, values in SETTINGS.items() for name in values]
)
def test_each_setting_does_something(kind: str, mode: str, name: str) -> None:
    one, other = (of_block(kind, mode, {name: value}) for value in SETTINGS[kind, mode][name])
    assert done(one) != done(other)


def test_each_word_of_a_setting_does_something() -> None:
    found = [done(policy(failsafe=f"daemon_lost = {word}")) for word in ("open", "hold", "closed")]
    assert found[0] != found[1] != found[2] != found[0]
    assert ENFORCED.words == {("limit", "over_memory"): {"fail", "wait"}}
    hard, soft = (done(policy(limit=f"limit {{ compute = {value} }}")) for value in ("30%", "soft(30%)"))
    assert hard != soft


@pytest.mark.parametrize(("name", "value"), [("share", "weight(3)"), ("per", "tenant"), ("rise_after", "1h")])
def test_each_setting_of_a_class_does_something(name: str, value: str) -> None:
    assert ENFORCED.class_settings == {row.name for row in CLASS_SETTINGS} == {"share", "per", "rise_after"}
    share = {"mode": "share", "arbitrate": {"period": "20ms"}} if name != "rise_after" else {}
    assert done(policy(low=f"{name} = {value}", **share)) != done(policy(**share))  # type: ignore[arg-type]


def test_signals_are_those_that_are_measured() -> None:
    """test_signals.py shows that each of them is."""
    of_class = {name for scope, name in ENFORCED.signals if scope == "class"}
    assert of_class == {*signals._MEASURES, "idle_for", "tenants", "waiters", "longest_wait"}
    assert {*signals._MEASURES, "idle_for", "longest_wait"} == ENFORCED.tenant_signals
    assert set(SIGNALS) == ENFORCED.signals


def test_what_is_left_is_refused_by_name() -> None:
    assert ENFORCED.arbiters == {"open", "preempt", "share", "exclusive"}
    assert not ENFORCED.actuators
