"""The half of the shipped `quotas` that is about compute, on top of `share-equal`: its limits are in force, its places
and promises let jobs in."""

import re

from gpud.engine.board import Board
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.native import shipped_policies
from gpud.policies.enforce import THIS_VERSION, unenforced
from gpud.policies.library import from_texts
from gpud.policies.resolve import resolve_policy
from gpud.testing.boards import board_from_texts
from tests.engine.conftest import UUID, World, only

SITE = 'gpol 1\napply "share-equal", "quotas" to gpu *\n'


def compute_half() -> str:
    """Without the lines about memory, and the guard that moves it."""
    text = (shipped_policies() / "quotas.gpol").read_text()
    text = re.sub(r"^ +(memory|over_memory) .*\n", "", text, flags=re.MULTILINE)
    return text[: text.index("  # Promised 150 %")] + "}\n"


def board_of() -> Board:
    equal = (shipped_policies() / "share-equal.gpol").read_text()
    return board_from_texts({"quotas.gpol": compute_half(), "share-equal.gpol": equal, "site.gpol": SITE})


def test_what_is_left_is_enforced() -> None:
    policy, _ = resolve_policy(*from_texts({"quotas.gpol": compute_half()}).policies["quotas"])
    assert policy is not None
    assert unenforced(policy, THIS_VERSION) == []


def hard(world: World) -> dict[int, int | None]:
    """Job → its own limit, in percent."""
    division = world.state.divisions[world.state.clients[next(iter(world.state.clients))].devices[0]]  # type: ignore[index]
    return {t.tenant: None if t.hard_ppm is None else t.hard_ppm // 10_000 for t in division.tenants}


def test_limits_by_plan_and_by_label() -> None:
    world = World(running=board_of())
    for labels in ({"label_plan": "gold"}, {"label_plan": "silver"}, {}):
        world.ready(world.launch(**labels)[0])
    world.ready(world.launch(**{"label_plan": "silver", "label.gpud.io/compute": "25%"})[0])
    assert hard(world) == {1: 40, 2: 15, 3: 5, 4: 25}


def test_places_and_twice_the_device_in_promises() -> None:
    world = World(running=board_of())
    world.react(ev.DevicesFound(devices=((UUID, "A100", 1 << 30),)))

    def asks(**labels: str) -> str:
        effects = world.launch(**labels)[1]
        return type(next(e for e in effects if isinstance(e, do.SendJob | do.SendQueued | do.Refuse))).__name__

    assert [asks(label_plan="gold") for _ in range(3)] == ["SendJob", "SendJob", "SendQueued"]
    silver = {"label_plan": "silver", "label.gpud.io/compute": "40%"}
    assert [asks(**silver) for _ in range(4)] == ["SendJob", "SendJob", "SendJob", "SendQueued"]
    assert world.state.waiting[0].text == "the class gold has 2 jobs on device 0, as many as it may (quotas.gpol:17)"
    assert world.state.waiting[1].text == (
        "40% of compute do not fit on device 0: 200% of 200% are promised (policy quotas)"
    )
    assert not only(world.later(299 * 10**9), do.Refuse)
    assert len(only(world.later(10**9), do.Refuse)) == 2
