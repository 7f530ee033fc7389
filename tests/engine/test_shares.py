"""What shares mean in parts of the device, and who takes turns with whom."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.engine.publish import GATE_BUDGET, GATE_PREEMPT, GATE_SHARE, GATE_WINDOW
from gpud.engine.shares import Parts, most_of, parts
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.knobs import PEER_OWN, PEER_SHARE, DeviceWords
from gpud.model.levels import Division, TotalKind
from gpud.model.units import MILLISECOND
from gpud.policies.values import EQUAL, Share
from tests.engine.conftest import World, board

S0 = Slot(0)
GOLD, A, B = Share("fixed", percent=30), Share("weight", weight=2), Share("weight", weight=1)
SCRATCH = Share("burst", weight=1, max_percent=50)


def test_the_table_of_the_language() -> None:
    """fixed: p · weight: w/Σw of what fixed leaves · burst and equal: the rest, by weight among the active."""
    assert parts([GOLD, A, B, SCRATCH]) == Parts((300_000, 350_000, 175_000, None), (0, 2000, 1000, 1000), 175_000)
    assert parts([EQUAL, EQUAL, EQUAL]) == Parts((None,) * 3, (1000,) * 3, 1_000_000)
    assert parts([GOLD]) == Parts((300_000,), (0,), 700_000)
    assert parts([A]) == Parts((1_000_000,), (2000,), 0)
    assert [most_of(share, part) for share, part in ((GOLD, 1), (A, 2), (EQUAL, None), (SCRATCH, None))] == [
        1,
        2,
        None,
        500_000,
    ]
    assert most_of(Share("burst", weight=3), None) is None


def test_promises_above_the_whole_are_cut_in_proportion() -> None:
    found = parts([Share("fixed", percent=90), Share("fixed", percent=60), EQUAL])
    assert found == Parts((600_000, 400_000, None), (0, 0, 1000), 0)


@given(
    st.lists(
        st.one_of(
            st.builds(Share, st.just("fixed"), percent=st.integers(1, 100)),
            st.builds(Share, st.just("weight"), weight=st.floats(0.001, 1000)),
            st.builds(Share, st.just("burst"), weight=st.floats(0.001, 1000), max_percent=st.integers(1, 100)),
            st.just(EQUAL),
        ),
        max_size=12,
    )
)
def test_parts_add_up(shares: list[Share]) -> None:
    found = parts(shares)
    kept = [part for part in found.fixed if part is not None]
    assert sum(kept) + found.open <= 1_000_000
    assert all(part >= 0 for part in (*kept, found.open))
    # What is not given out is rounding, or fixed shares that nobody may have.
    assert sum(kept) + found.open >= 1_000_000 - len(shares) - 1
    weights = sum(found.weights)
    rest = 1_000_000 - sum(p for s, p in zip(shares, found.fixed, strict=True) if s.kind == "fixed" and p is not None)
    for share, part, weight in zip(shares, found.fixed, found.weights, strict=True):
        if share.kind == "weight":
            assert part is not None
            assert abs(part - Fraction(rest * weight, weights)) <= len(shares) + 1


MIX = """
  class reserved { match label("plan") == "gold"  per = tenant  share = fixed(30%) }
  class team_a   { match label("team") == "a"     share = weight(2) }
  class team_b   { match label("team") == "b"     share = weight(1) }
  class scratch  { match any                      share = burst(weight = 1, max = 50%) }
  arbitrate share { period = 20ms  reclaim = 2ms }
"""


def words(world: World, client: ClientId) -> DeviceWords:
    return world.state.clients[client].words[S0]


def division(world: World) -> Division:
    return world.state.divisions[S0]


def job(world: World, client: ClientId) -> JobId:
    return world.state.clients[client].job


def test_who_is_alone_takes_no_turns_and_has_no_window() -> None:
    world = World(running=board(("mix", MIX)))
    scratch = world.ready(world.launch()[0])
    assert words(world, scratch).gate == GATE_BUDGET  # it may have half of the device at most
    assert words(world, scratch).max_inflight_ns == 0
    other = world.ready(world.launch(label_team="a")[0])
    for client in (scratch, other):
        assert words(world, client).gate == GATE_BUDGET | GATE_SHARE | GATE_WINDOW
    assert words(world, scratch).max_inflight_ns == 2 * MILLISECOND  # what it borrows comes back within that
    assert words(world, other).max_inflight_ns == 5 * MILLISECOND
    assert [(peer.client, peer.flags) for peer in words(world, scratch).peers] == [(other, PEER_SHARE)]
    world.gone(other)
    assert words(world, scratch).gate == GATE_BUDGET


def test_units_of_share_mix() -> None:
    """Classes that are one unit keep their part while nobody is in them; of one with `per = tenant` each job has its
    own."""
    world = World(running=board(("mix", MIX)))
    scratch = world.ready(world.launch()[0])
    (unit,) = division(world).units
    assert (unit.fixed_ppm, unit.weight, unit.members) == (None, 1000, (job(world, scratch),))
    assert division(world).pools[0].open_ppm == 250_000  # a quarter; nobody is gold yet
    gold = [world.ready(world.launch(label_plan="gold")[0]) for _ in range(2)]
    first, second, third = division(world).units
    assert [unit.fixed_ppm for unit in (first, second, third)] == [300_000, 300_000, None]
    assert [unit.members for unit in (first, second)] == [(job(world, client),) for client in gold]
    assert division(world).pools[0].open_ppm == 100_000
    caps = {total.members: total.amount for total in division(world).totals}
    assert caps == {(job(world, gold[0]),): 300_000, (job(world, gold[1]),): 300_000, (job(world, scratch),): 500_000}
    assert all(total.kind is TotalKind.COMPUTE for total in division(world).totals)
    assert {total.window_ns for total in division(world).totals} == {20 * MILLISECOND}


def test_two_processes_of_one_job_share_its_levels() -> None:
    world = World(running=board(("mix", MIX)))
    launcher, _ = world.launch()
    first, second = world.ready(launcher), world.ready(launcher)
    assert words(world, first).gate == GATE_BUDGET  # one tenant: nobody to take turns with
    assert [(peer.client, peer.flags) for peer in words(world, first).peers] == [(second, PEER_OWN)]
    (tenant,) = division(world).tenants
    assert [client.client for client in tenant.clients] == [first, second]
    other = world.ready(world.launch(label_team="a")[0])
    assert [(peer.client, peer.flags) for peer in words(world, first).peers] == [
        (second, PEER_OWN),
        (other, PEER_SHARE),
    ]


def test_a_job_that_no_class_takes_has_an_equal_share() -> None:
    picky = 'class a { match label("team") == "a"  share = fixed(60%) }  arbitrate share { period = 10ms }'
    world = World(running=board(("picky", picky)))
    stranger, _ = world.attach()
    world.react_devices(stranger)
    world.ready(world.launch(label_team="a")[0])
    units = {unit.members: (unit.fixed_ppm, unit.weight) for unit in division(world).units}
    assert units[(job(world, stranger),)] == (None, 1000)
    assert division(world).pools[0].open_ppm == 400_000
    assert words(world, stranger).max_inflight_ns == 2_500_000  # a quarter of the period


RULE = """
  class a { match label("team") == "a"  share = weight(1) }
  class b { match any                   share = weight(1) }
  arbitrate share { period = 20ms }
  when a.active { a.share = burst(weight = 3) }
"""


def test_a_rule_changes_shares_and_nothing_else_is_written() -> None:
    from gpud.model import effects as do

    world = World(running=board(("rule", RULE)))
    a, b = world.ready(world.launch(label_team="a")[0]), world.ready(world.launch()[0])
    assert [unit.fixed_ppm for unit in division(world).units] == [500_000, 500_000]
    effects = world.ticks(5 * MILLISECOND, {a: Counters(active=True)})
    assert [unit.fixed_ppm for unit in division(world).units] == [None, 250_000]
    published = [effect.client for effect in effects if isinstance(effect, do.PublishDevice)]
    assert published == [a]  # it is capped no more
    assert words(world, a).gate == GATE_SHARE | GATE_WINDOW
    assert words(world, b).gate == GATE_BUDGET | GATE_SHARE | GATE_WINDOW
    assert sum(isinstance(effect, do.Divide) for effect in effects) == 1


RANKS = """
  class high  {{ match label("c") == "high" }}
  class near  {{ match label("c") == "near"  {near} }}
  class low   {{ match any  {low} }}
  arbitrate preempt {{ order = {order}  resume_after = 1ms }}
"""


@pytest.mark.parametrize(
    ("order", "near", "low", "turns"),
    [
        ("[high, near, low]", "", "", set()),
        ("[high, [near, low]]", "", "", {"near", "low"}),
        ("[high, near, low]", "", "per = tenant  share = burst(weight = 2)", {"low"}),
        ("[high, near, low]", "per = tenant", "", set()),
    ],
)
def test_turns_under_preempt(order: str, near: str, low: str, turns: set[str]) -> None:
    """Within a rank of several classes, or one whose share is named; within others the device gives all the same."""
    world = World(running=board(("ranks", RANKS.format(order=order, near=near, low=low))))
    clients = {
        f"{name}{i}": world.ready(world.launch(label_c=name)[0]) for name in ("high", "near", "low") for i in "ab"
    }
    assert {name[:-1] for name, client in clients.items() if words(world, client).gate & GATE_SHARE} == turns
    for name, client in clients.items():
        shared = {peer.client for peer in words(world, client).peers if peer.flags & PEER_SHARE}
        same = [n for n in clients if n != name and n[:-1] in turns]
        assert shared == ({clients[other] for other in same} if name[:-1] in turns else set())
    assert words(world, clients["lowa"]).gate & GATE_PREEMPT
    pools = len({unit.pool for unit in division(world).units}) if turns else 0
    assert pools == bool(turns)
    assert bool(turns) == (S0 in world.state.divisions)
