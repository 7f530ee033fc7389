"""What several policies of one device say together."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.engine.in_force import knobs_of, said, tightest
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, Slot
from gpud.model.knobs import Knobs
from gpud.model.units import MILLISECOND
from tests.engine.conftest import PREEMPT_MIX, World, board

S0 = Slot(0)
KNOBS = ("pause", "yield", "max_inflight")
ARBITER = PREEMPT_MIX.replace("max_inflight = 1", "max_inflight = 4") + (
    "when high.active { low.yield = false  low.max_inflight = 3 }"
)
LIMITER = """
  class gold { match label("plan") == "gold" }
  class rest { match any }
  rest.max_inflight = 6
  guard rest.launch_rate > 1000/s until rest.launch_rate < 100/s { rest.pause = true }
  each rest as r { when r.queued > 2 { r.max_inflight = 2 } }
"""


def in_force(world: World, client: ClientId) -> Knobs:
    return knobs_of(world.state, world.state.clients[client], S0)


def words(world: World, client: ClientId, knob: str) -> list[str]:
    """`policy: value` of each that has a word about it."""
    tenant = world.state.tenants[world.state.clients[client].job]
    return [f"{word.applied.name}: {word.value}" for word in said(world.state, tenant, S0, knob)]


def test_they_meet_and_what_is_built_in_is_no_word() -> None:
    world = World(running=board(("mix", ARBITER), ("quotas", LIMITER)))
    high, low = world.high(), world.low()
    gold = world.ready(world.launch(label_plan="gold")[0])
    world.ticks(5 * MILLISECOND)
    assert [in_force(world, client).max_inflight for client in (high, low, gold)] == [6, 4, 4]
    assert (in_force(world, low).yields, in_force(world, low).pause) == (True, False)
    world.ticks(5 * MILLISECOND, {high: Counters(active=True), low: Counters(holding=3)})
    assert [in_force(world, client).max_inflight for client in (high, low, gold)] == [6, 2, 3]
    assert not in_force(world, low).yields  # the limiter's `true`, which nobody wrote, holds nobody
    assert words(world, low, "yield") == ["mix: False"]
    assert words(world, low, "max_inflight") == ["mix: 3", "quotas: 2"]
    assert words(world, gold, "max_inflight") == ["mix: 3", "quotas: inf"]


CONDITIONS = ("c.active", "not o.active", "o.queued > 1", "c.launch_rate > 100/s", "c.idle_for > 20ms", "gpu.busy > 3%")
CLASSES = 'class o { match label("tier") == "online" }  class c { match any }'
SET = {
    "c.pause": ("true", "false"),
    "c.yield": ("true", "false"),
    "c.max_inflight": ("1", "2", "5", "unlimited"),
    "o.max_inflight": ("3", "7"),
}
TIGHT = {"c.pause": "true", "c.yield": "true", "c.max_inflight": "4", "o.max_inflight": "6"}


@st.composite
def rules(draw: st.DrawFn) -> str:
    """A rule that tightens a knob, with one inside it that may loosen what it set."""
    knob = draw(st.sampled_from(sorted(SET)))
    outer, inner = (draw(st.sampled_from(CONDITIONS)) for _ in range(2))
    kind = draw(st.sampled_from(["when", "guard"]))
    value = draw(st.sampled_from([TIGHT[knob], *SET[knob]] if kind == "when" else [TIGHT[knob]]))
    nested = f"when {inner} {{ {knob} = {value} }}"
    return f"{kind} {outer} until not ({outer}) for 5ms {{ {knob} = {TIGHT[knob]} {nested} }}"


@st.composite
def bodies(draw: st.DrawFn, mode: str = "") -> str:
    each = "each c as t { when t.active { t.max_inflight = 3 } else { t.max_inflight = 5 } }"
    members = [*draw(st.lists(rules(), max_size=3)), *draw(st.sampled_from([(), (each,)]))]
    always = draw(st.sampled_from(["", "c.max_inflight = 6", "c.yield = true", "c.pause = true"]))
    return " ".join((CLASSES, mode, always, *members))


PREEMPT = "arbitrate preempt { order = [o, c]  resume_after = 1ms  max_inflight = 8 }"
moments = st.lists(
    st.fixed_dictionaries({}, optional={who: st.tuples(st.booleans(), st.integers(0, 3)) for who in ("high", "low")}),
    min_size=1, max_size=6,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(first=bodies(PREEMPT), others=st.lists(bodies(), min_size=1, max_size=2), moments=moments)
def test_the_order_of_policies_means_nothing(first: str, others: list[str], moments: list[dict]) -> None:
    policies = [(f"p{number}", body) for number, body in enumerate((first, *others))]
    seen = []
    for stack in itertools.permutations(policies):
        texts = dict(policies)
        site = "apply " + ", ".join(f'"{name}"' for name, _ in stack) + " to gpu *"
        world = World(running=board(*texts.items(), site=site))
        clients = {"high": world.high(), "low": world.low()}
        found, entered = [], 0
        for moment in moments:
            entered += 400
            counters = {
                clients[who]: Counters(active=active, holding=queued, entered=entered * queued)
                for who, (active, queued) in moment.items()
            }
            world.ticks(10 * MILLISECOND, counters)
            for client in clients.values():
                tenant = world.state.tenants[world.state.clients[client].job]
                values = [tightest(knob, said(world.state, tenant, S0, knob)) for knob in KNOBS]
                found.append((in_force(world, client), [word and word.value for word in values]))
        seen.append(found)
    assert all(found == seen[0] for found in seen)
