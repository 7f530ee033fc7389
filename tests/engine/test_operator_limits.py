"""`gpud set JOB mem= compute=`: what a person says of one job holds beside the policies, the tightest wins."""

import pytest

from gpud.engine import rulings, saved
from gpud.engine.in_words import Most, limits
from gpud.engine.publish import GATE_BUDGET
from gpud.engine.report import job_view
from gpud.engine.why import why
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.errors import Refused
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.knobs import UNLIMITED, DeviceWords
from gpud.model.units import SECOND
from gpud.model.views import ExplainView, MemoryView
from tests.engine.conftest import GIB, World, board, by, new_state, only

S0, MIB = Slot(0), 1 << 20
QUOTAS = """
  class gold { match label("plan") == "gold"  limit { memory = 512MiB  compute = 30%  over_memory = wait(max = 10s) } }
  class free { match any }
  arbitrate open {}
"""


@pytest.fixture
def quotas() -> World:
    return World(running=board(("quotas", QUOTAS)))


def job_of(world: World, client: ClientId) -> JobId:
    return world.state.clients[client].job


def change(world: World, client: ClientId, *, operator: bool = True, **changes: str | int | None) -> list[Effect]:
    asked = tuple((key.rstrip("_"), value) for key, value in changes.items())
    return world.react(ev.SetAsked(job=job_of(world, client), by=by(operator), changes=asked))


def words(world: World, client: ClientId) -> DeviceWords:
    return world.state.clients[client].words[S0]


def hard(world: World, client: ClientId) -> int | None:
    """Its cap as the device is divided."""
    division = world.state.divisions.get(S0)
    tenants = division.tenants if division is not None else ()
    return next((one.hard_ppm for one in tenants if one.tenant == job_of(world, client)), None)


def memory(world: World, client: ClientId, reserved: int = 0) -> MemoryView:
    tenant = world.state.tenants[job_of(world, client)]
    rows = {(client, S0): Counters(reserved_bytes=reserved, used_bytes=reserved)}
    (view,) = job_view(world.state, tenant, rows, world.now, {}).memory
    return view


def said(world: World, client: ClientId) -> dict[str, ExplainView]:
    (device,) = why(world.state, world.state.tenants[job_of(world, client)], {}, world.now, {}).devices
    return {one.because.knob: one for one in device.knobs if one.because.by}


@pytest.mark.parametrize(
    ("labels", "count", "holds", "place"),
    [
        ({}, 100 * MIB, 100 * MIB, "set by root (uid 0)"),
        ({"label_plan": "gold"}, 100 * MIB, 100 * MIB, "set by root (uid 0)"),
        ({"label_plan": "gold"}, 600 * MIB, 512 * MIB, "quotas.gpol:3"),
        ({"label_plan": "gold"}, 512 * MIB, 512 * MIB, "quotas.gpol:3"),
    ],
)
def test_memory(quotas: World, labels: dict[str, str], count: int, holds: int, place: str) -> None:
    client = quotas.ready(quotas.launch(None, **labels)[0])
    before = words(quotas, client).memory_limit
    effects = change(quotas, client, memory=count)
    assert words(quotas, client).memory_limit == holds
    assert (memory(quotas, client).limit, memory(quotas, client).place) == (holds, place)
    assert only(effects, do.SaveState)
    ours = place.startswith("set by")
    assert {key: (view.because.value, view.in_force) for key, view in said(quotas, client).items()} == {
        "memory": (f"{count // MIB}MiB", ours or count == holds)
    }
    change(quotas, client, memory=None)
    assert words(quotas, client).memory_limit == before
    assert said(quotas, client) == {}


def test_below_what_it_has_it_may_only_free(quotas: World) -> None:
    client = quotas.low()
    change(quotas, client, memory=64 * MIB)
    view = memory(quotas, client, reserved=100 * MIB)
    assert (view.limit, view.over) == (64 * MIB, True)
    assert not memory(quotas, client, reserved=60 * MIB).over


def test_an_allocation_beyond_it_waits_as_the_policy_says(quotas: World) -> None:
    gold = quotas.ready(quotas.launch(label_plan="gold")[0])
    free = quotas.low()
    for client in (gold, free):
        change(quotas, client, memory=64 * MIB)
    replies, held = [], {(client, S0): Counters(reserved_bytes=10 * MIB) for client in (gold, free)}
    for client in (gold, free):
        event = ev.AllocAsked(client=client, slot=S0, request=1, bytes=60 * MIB, time_ns=0, held=held)
        replies.append([one.code for one in only(quotas.react(event), do.SendAllocReply)])
    assert replies == [[], [1]]  # waits; refused: over its limit
    assert [one.client for one in quotas.state.asks] == [gold]


@pytest.mark.parametrize(
    ("labels", "ppm", "holds"),
    [({}, 200_000, 200_000), ({"label_plan": "gold"}, 200_000, 200_000), ({"label_plan": "gold"}, 400_000, 300_000)],
)
def test_compute(quotas: World, labels: dict[str, str], ppm: int, holds: int) -> None:
    client = quotas.ready(quotas.launch(None, **labels)[0])
    before = hard(quotas, client)
    change(quotas, client, compute=ppm)
    assert hard(quotas, client) == holds
    assert words(quotas, client).gate & GATE_BUDGET
    tenant = quotas.state.tenants[job_of(quotas, client)]
    assert Most(ppm, "set by root (uid 0)", "") in list(limits(quotas.state, tenant, S0))
    assert said(quotas, client)["compute"].in_force == (ppm == holds)
    change(quotas, client, compute=None)
    assert hard(quotas, client) == before
    assert bool(words(quotas, client).gate & GATE_BUDGET) == (before is not None)


def test_all_or_nothing(quotas: World) -> None:
    client = quotas.low()
    tenant = quotas.state.tenants[job_of(quotas, client)]
    for wrong in (
        {"memory": 64 * MIB, "class_": "nobody"},
        {"compute": 100_000, "memory": 1},
        {"memory": 64 * MIB, "x": 1},
    ):
        effects = change(quotas, client, **wrong)
        assert [type(effect) for effect in effects] == [do.Record], wrong
        assert (tenant.pin, tenant.memory, tenant.compute) == (None, None, None)
    change(quotas, client, class_="gold", memory=64 * MIB, compute=100_000)
    assert (quotas.class_of(client), words(quotas, client).memory_limit) == ("gold", 64 * MIB)
    assert hard(quotas, client) == 100_000


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("memory", 0, "less than 1MiB"),
        ("memory", -1, "less than 1MiB"),
        ("memory", MIB - 1, "less than 1MiB"),
        ("memory", 2**63, "more than there can be"),
        ("memory", "1GiB", "or not '1GiB'"),
        ("memory", True, "or not True"),
        ("compute", 0, "not 1 to 1,000,000"),
        ("compute", 1_000_001, "not 1 to 1,000,000"),
        ("compute", -(2**63), "not 1 to 1,000,000"),
        ("rank", 1, "nothing of a job is called 'rank'"),
        ("class", 3, "nothing of a job is called 'class', or not 3"),
    ],
)
def test_what_cannot_be_said(quotas: World, key: str, value: str | int, says: str) -> None:
    quotas.low()
    with pytest.raises(Refused, match=says):
        rulings.judge(quotas.state, ev.SetAsked(job=1, by=by(), changes=((key, value),)))


@pytest.mark.parametrize(("key", "value"), [("memory", MIB), ("memory", 2**63 - 1), ("compute", 1), ("compute", 10**6)])
def test_the_ends_of_what_can(quotas: World, key: str, value: int) -> None:
    client = quotas.low()
    change(quotas, client, operator=True, **{key: value})
    tenant = quotas.state.tenants[job_of(quotas, client)]
    found = tenant.memory if key == "memory" else tenant.compute
    assert found is not None
    assert found.value == value


def test_what_an_operator_has_set_its_owner_does_not_change(quotas: World) -> None:
    client = quotas.low()
    change(quotas, client, memory=64 * MIB)
    for value in (None, 32 * MIB, GIB):
        (record,) = change(quotas, client, operator=False, memory=value)
        assert isinstance(record, do.Record)
        assert "its memory is limited by root (uid 0), an operator" in record.text
    assert words(quotas, client).memory_limit == 64 * MIB
    change(quotas, client, operator=False, compute=100_000)
    change(quotas, client, operator=False, compute=None)
    assert hard(quotas, client) is None
    change(quotas, client, operator=False, compute=100_000)
    change(quotas, client, compute=None)
    assert hard(quotas, client) is None, "an operator takes back what an owner has said"


def test_limits_outlive_the_daemon_and_the_policies(quotas: World) -> None:
    client = quotas.low()
    change(quotas, client, memory=64 * MIB, compute=100_000)
    found = saved.load(saved.dump(quotas.state, "b"), "b")
    assert found is not None
    state = new_state(quotas.state.board)
    saved.restore(state, found, lambda pid, started: True, quotas.now + SECOND)
    tenant, before = state.tenants[JobId(1)], quotas.state.tenants[JobId(1)]
    assert (tenant.memory, tenant.compute) == (before.memory, before.compute)
    assert tenant.memory is not None
    quotas.react(ev.BoardChanged(board=board(("open", "class all { match any }  arbitrate open {}"))))
    assert (words(quotas, client).memory_limit, hard(quotas, client)) == (64 * MIB, 100_000)
    change(quotas, client, memory=None, compute=None)
    assert (words(quotas, client).memory_limit, hard(quotas, client)) == (UNLIMITED, None)


@pytest.mark.parametrize(("key", "value"), [("memory", 5), ("memory", 2**70), ("compute", 0), ("compute", -3)])
def test_a_state_file_with_a_limit_that_nobody_can_have_said(quotas: World, key: str, value: int) -> None:
    client = quotas.low()
    change(quotas, client, operator=True, **{key: 500_000 if key == "compute" else GIB})
    content = saved.dump(quotas.state, "b")
    wrong = content.replace(b'"value":500000', f'"value":{value}'.encode()).replace(
        f'"value":{GIB}'.encode(), f'"value":{value}'.encode()
    )
    assert wrong != content
    found = saved.load(wrong, "b")
    assert found is not None
    state = new_state(quotas.state.board)
    saved.restore(state, found, lambda pid, started: True, quotas.now + SECOND)
    assert (state.tenants[JobId(1)].memory, state.tenants[JobId(1)].compute) == (None, None)
