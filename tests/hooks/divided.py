"""Divisions and devices for the tests of levels."""

from gpud.model.ids import ClientId, JobId
from gpud.model.levels import (
    Barred,
    DividedClient,
    DividedTenant,
    Division,
    Motion,
    Pool,
    ShareUnit,
    Total,
    TotalKind,
)
from gpud.model.units import MILLISECOND, SECOND
from gpud.testing.divided_device import DividedDevice

NOBODY_LAG = -(2**63)
WHOLE = 1_000_000
PERIOD = 20 * MILLISECOND


def client(number: int, *peers: int, **more: int | bool) -> DividedClient:
    return DividedClient(client=ClientId(number), rank=0, peers=tuple(map(ClientId, peers)), **more)  # type: ignore[arg-type]


def tenant(number: int, *clients: DividedClient, hard: int | None = None, soft: int | None = None) -> DividedTenant:
    return DividedTenant(tenant=JobId(number), clients=clients, hard_ppm=hard, soft_ppm=soft)


def total(kind: TotalKind, amount: int, *members: int, window_ns: int = 100 * MILLISECOND) -> Total:
    jobs = tuple(map(JobId, members))
    return Total(key=(kind.name, str(members)), kind=kind, amount=amount, window_ns=window_ns, members=jobs)


def two(**more: object) -> Division:
    """Jobs 1 and 2 with a client each, which see each other and take turns."""
    tenants = (tenant(1, client(1, 2)), tenant(2, client(2, 1)))
    units = tuple(ShareUnit(pool=0, fixed_ppm=None, weight=1, members=(JobId(job),)) for job in (1, 2))
    words = {"tenants": tenants, "units": units, "pools": (Pool(period_ns=PERIOD, open_ppm=WHOLE),)}
    return Division(**(words | more))  # type: ignore[arg-type]


def capped(*tenants: DividedTenant, totals: tuple[Total, ...] = ()) -> DividedDevice:
    return DividedDevice(Division(tenants=tenants, totals=totals))


def step(device: DividedDevice, ns: int = 5 * MILLISECOND) -> Motion:
    device.now += ns
    assert device.divided is not None
    return device.divided.step(device.now)


def spends(device: DividedDevice, *amounts: int) -> list[int]:
    """What a client with a cap of a whole device writes as spent, step by step; → what its level loses by each."""
    lost = []
    for amount in amounts:
        before = level(device)
        device.presence(1).spent_ns = (device.presence(1).spent_ns + amount) % 2**64
        step(device, 0)
        lost.append(before - level(device))
    return lost


def level(device: DividedDevice) -> int:
    assert device.divided is not None
    return device.divided.levels()[0].cap_ns


def one_capped() -> DividedDevice:
    """With a level of nearly a second, and a burst of as much."""
    device = capped(tenant(1, client(1)), totals=(total(TotalKind.COMPUTE, WHOLE, 1, window_ns=SECOND),))
    for _ in range(200):
        step(device)
    assert device.cap(1) == SECOND
    return device


def barred(device: DividedDevice) -> dict[JobId, Barred]:
    assert device.divided is not None
    told = device.divided.barred()
    assert told == {level.tenant: level.barred for level in device.divided.levels() if level.barred is not None}
    return told


def faults(device: DividedDevice) -> int:
    assert device.divided is not None
    return device.divided.levels()[0].faults


def counts(device: DividedDevice, number: int, launches: int, blocks: int = 0, copied: int = 0) -> None:
    activity = device.processes[ClientId(number)].activity.device[0]
    activity.slots[number].entered += launches
    activity.slots[63 - number].blocks += blocks
    activity.copy_bytes += copied


def rates(device: DividedDevice, number: int) -> tuple[int, int, int]:
    words = device.words(number)
    return words.launch_rate, words.block_rate, words.copy_rate
