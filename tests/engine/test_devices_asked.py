"""Devices and limits that a launch asks for."""

import pytest

from gpud.engine import saved
from gpud.engine.devices_asked import named
from gpud.engine.state import Device, State
from gpud.model import effects as do
from gpud.model import refusals
from gpud.model.effects import Effect
from gpud.model.errors import Refused
from gpud.model.ids import JobId, Slot, uuid_text
from gpud.model.rulings import By
from gpud.model.units import SECOND
from tests.engine.conftest import World, new_state

ALIKE = bytes.fromhex("aa00" * 8)
UUIDS = [ALIKE, ALIKE[:-1] + b"\x01", bytes.fromhex("bb00" * 8)]
TEXTS = [uuid_text(uuid) for uuid in UUIDS]


def state_of(*indices: int) -> State:
    """Slots 0, 1, …, with these numbers in the driver's list."""
    state = new_state()
    state.devices = {
        Slot(slot): Device(slot=Slot(slot), uuid=UUIDS[slot], total_bytes=1 << 30, index=index)
        for slot, index in enumerate(indices)
    }
    return state


@pytest.mark.parametrize(
    ("gpu", "seen"),
    [
        ("", ""),
        ("2", TEXTS[0]),
        ("0", TEXTS[1]),
        ("0,2", f"{TEXTS[1]},{TEXTS[0]}"),
        (" 1 ", TEXTS[2]),
        (TEXTS[1], TEXTS[1]),
        ("GPU-bb", TEXTS[2]),
        ("MIG-4f00", "MIG-4f00"),
        ("0,MIG-4f00", "0,MIG-4f00"),
    ],
)
def test_names_of_devices_become_uuids(gpu: str, seen: str) -> None:
    """By the number of the driver's list, which is not the slot."""
    assert named(state_of(2, 0, 1), gpu) == seen


@pytest.mark.parametrize(
    ("gpu", "what"), [("7", "no device"), ("GPU-aa", "2 devices"), ("GPU-cc", "no device"), ("0,9", "no")]
)
def test_a_name_of_none_or_of_several_is_refused(gpu: str, what: str) -> None:
    with pytest.raises(Refused, match=f"names {what}") as caught:
        named(state_of(2, 0, 1), gpu)
    assert f"there are 2 ({TEXTS[0]})" not in str(caught.value).split("names")[0]
    assert f"2 ({TEXTS[0]})" in str(caught.value)


def test_without_devices_a_name_is_handed_on() -> None:
    assert named(new_state(), "5") == "5"


def job_of(effects: list[Effect]) -> tuple[JobId, dict[str, str]]:
    (sent,) = [effect for effect in effects if isinstance(effect, do.SendJob)]
    return sent.job, dict(sent.environment)


def test_gpus_are_spread() -> None:
    """With the fewest jobs first, of equal ones the lowest slots; jobs without a wish are everywhere."""
    world = World(state_of(0, 1, 2))
    world.launch(name="everywhere")
    chosen = [job_of(world.launch(gpus=count)[1])[1]["CUDA_VISIBLE_DEVICES"] for count in ("1", "1", "2", "1", "3")]
    assert chosen == [TEXTS[0], TEXTS[1], f"{TEXTS[0]},{TEXTS[2]}", TEXTS[1], ",".join(TEXTS)]


@pytest.mark.parametrize(("devices", "has"), [((), "no device yet"), ((0,), "1 device"), ((0, 1), "2 devices")])
def test_more_gpus_than_there_are(devices: tuple[int, ...], has: str) -> None:
    world = World(state_of(*devices))
    before = world.state.next_job
    (refused,) = [effect for effect in world.launch(gpus="3")[1] if isinstance(effect, do.Refuse)]
    assert (refused.code, refused.text) == (refusals.POLICY, f"this node has {has}, 3 were asked for (--gpus)")
    assert world.state.next_job == before
    assert not world.state.tenants


def test_limits_are_the_owners_word() -> None:
    world = World(state_of(0))
    world.state.wall_offset_ns = 7
    number, _ = job_of(world.launch(mem=str(64 << 20), compute="125000")[1])
    tenant = world.state.tenants[number]
    assert tenant.memory is not None
    assert tenant.compute is not None
    assert (tenant.memory.value, tenant.compute.value) == (64 << 20, 125_000)
    assert tenant.memory.by == By(name="ann (uid 1000)", operator=False)
    assert tenant.memory.at_ns == 100 * SECOND + 7
    number, _ = job_of(world.launch()[1])
    assert (world.state.tenants[number].memory, world.state.tenants[number].compute) == (None, None)


def test_a_restart_of_the_daemon_forgets_no_choice() -> None:
    """A job that has not used its device yet counts there, and nowhere else."""
    world = World(state_of(0, 1, 2))
    number, _ = job_of(world.launch(gpus="1")[1])
    found = saved.load(saved.dump(world.state, "b"), "b")
    assert found is not None
    world.state = state_of(0, 1, 2)
    saved.restore(world.state, found, lambda pid, started: True, 0)
    assert world.state.tenants[number].gpu == TEXTS[0]
    assert job_of(world.launch(gpus="1")[1])[1]["CUDA_VISIBLE_DEVICES"] == TEXTS[1]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("mem", text) for text in ("", "0", "1048575", str(2**61 + 1), "-5", "4GiB", "9" * 5000, "१२३४५६७८९")],
        *[("compute", text) for text in ("0", "1000001", "0.5", "x")],
        *[("gpus", text) for text in ("0", "9", "two")],
    ],
)
def test_a_launch_that_no_gpud_run_would_send(key: str, value: str) -> None:
    """The daemon believes no launcher: digits, and from the least to the most that there can be."""
    world = World(state_of(0))
    (refused,) = [effect for effect in world.launch(**{key: value})[1] if isinstance(effect, do.Refuse)]
    assert refused.text.startswith(f"{key} is {value[:40]!r}, which is no number from ")
    assert not world.state.tenants
