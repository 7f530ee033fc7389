"""The state file's content: who is who, for a daemon that comes after. Pure: bytes ↔ State.

The next daemon believes this, and the kernel, for who somebody is; the client only for its counters.
"""

from collections.abc import Callable, Iterable
from typing import Annotated

import msgspec
from attrs import Factory, frozen
from attrs import fields as fields_of

from gpud.engine import saved_lock
from gpud.engine.classify import facts_of, place_everywhere
from gpud.engine.hookless_memory import Apart
from gpud.engine.rulings import LEAST_BYTES, LEAST_PPM, MOST_BYTES, MOST_PPM
from gpud.engine.saved_lock import SavedLock
from gpud.engine.state import Client, Device, State, Tenant
from gpud.model.events import Who
from gpud.model.ids import ClientId, Generation, JobId, Slot
from gpud.model.knobs import PeerEntry
from gpud.model.levels import Level
from gpud.model.rulings import Ruling

FORMAT = 2
READS = (1, 2)
"""1: before policies could be written; what it called `claimed` is a pin."""

_Slot = Annotated[int, msgspec.Meta(ge=0, lt=8)]
"""Decides where in a page is written: nothing else may come from a file."""

_Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


@frozen(kw_only=True)
class SavedTenant:
    id: int
    labels: dict[str, str]
    name: str
    command: str
    who: Who
    launcher: bool
    launcher_alive: bool
    began_ns: int
    pin: str | None = None
    exe: str = ""
    exe_seen: bool = False
    classes: dict[str, str | None] = Factory(dict)
    """Policy → where it put this job: for people who read the file. The next daemon sorts it anew, by the same
    facts."""
    claimed: str | None = None
    """In format 1 only."""
    pinned_by: Ruling | None = None
    paused: Ruling | None = None
    memory: Ruling | None = None
    compute: Ruling | None = None
    gpu: str = ""
    caller: str = ""


@frozen(kw_only=True)
class SavedClient:
    id: int
    job: int
    who: Who
    generation: int
    order: int
    attached_ns: int
    devices: list[_Slot | None]
    peers: list[PeerEntry]
    """It has these pages mapped, unless it died before."""
    serial: int


@frozen(kw_only=True)
class SavedDevice:
    slot: _Slot
    uuid: bytes
    total_bytes: int
    name: str
    index: int | None = None
    """None: in format 1."""


@frozen(kw_only=True)
class SavedOverhead:
    """What the driver has beside a client's allocations: it counts below a limit from the first moment on."""

    client: int
    slot: _Slot
    bytes: _Bytes


@frozen(kw_only=True)
class SavedApart:
    """What one without hook holds on a device, and what of it is out."""

    client: int
    slot: _Slot
    swaps: bool
    used: _Bytes
    away: bool
    before: _Bytes
    was_in: bool
    asked: _Bytes = 0


@frozen(kw_only=True)
class Saved:
    """One state file. `boot` and monotonic times make sense in that boot only."""

    format: int
    boot: str
    next_job: int
    next_client: int
    next_order: int
    last_generation: int
    tenants: list[SavedTenant]
    clients: list[SavedClient]
    devices: list[SavedDevice]
    levels: list[Level] = Factory(list)
    lock: SavedLock = Factory(SavedLock)
    host: dict[int, _Bytes] = Factory(dict)
    """Client → bytes of host slots that it has."""
    overhead: list[SavedOverhead] = Factory(list)
    apart: list[SavedApart] = Factory(list)


def dump(state: State, boot: str, levels: Iterable[Level] = ()) -> bytes:
    """The file's content. `levels`: of devices that are divided; of others, those of the daemon before are kept."""
    saved = Saved(
        format=FORMAT,
        boot=boot,
        next_job=state.next_job,
        next_client=state.next_client,
        next_order=state.next_order,
        last_generation=state.last_generation,
        tenants=[],
        clients=[],
        host={int(client): count for client, count in state.moves.host.given.items()},
        overhead=[
            SavedOverhead(client=client, slot=slot, bytes=count)
            for (client, slot), count in state.overhead.items()
            if count
        ],
        apart=[
            SavedApart(
                client=client,
                slot=slot,
                swaps=state.clients[client].swaps,
                used=one.used,
                away=one.away,
                before=one.before,
                was_in=one.was_in,
                asked=one.asked,
            )
            for (client, slot), one in state.apart.items()
            if client in state.clients
        ],
        levels=[*levels, *(level for slot in sorted(state.levels) for level in state.levels[slot])],
        devices=[
            SavedDevice(slot=d.slot, uuid=d.uuid, total_bytes=d.total_bytes, name=d.name, index=d.index)
            for d in state.devices.values()
        ],
    )
    fields = {name: getattr(saved, name) for name in _FIELDS}
    rows = {
        "lock": saved_lock.dump(state.locks),
        "tenants": [_encoded_tenant(state, tenant) for tenant in state.tenants.values()],
        "clients": [_encoded(client) for client in state.clients.values()],
    }
    return msgspec.json.encode(fields | rows)


_FIELDS = tuple(field.name for field in fields_of(Saved))


def _encoded_tenant(state: State, tenant: Tenant) -> msgspec.Raw:
    """Likewise."""
    made_of = (
        tenant.launcher_alive,
        tenant.pin,
        tenant.pinned_by,
        tenant.paused,
        tenant.memory,
        tenant.compute,
        tenant.exe,
        tenant.exe_seen,
        tenant.placed,
        state.board_generation,
    )
    if tenant.on_file[0] == made_of:
        known: msgspec.Raw = tenant.on_file[1]
        return known
    content = msgspec.Raw(
        msgspec.json.encode(
            SavedTenant(
                id=tenant.id,
                labels=tenant.labels,
                name=tenant.name,
                command=tenant.command,
                who=tenant.who,
                launcher=tenant.launcher,
                launcher_alive=tenant.launcher_alive,
                began_ns=tenant.began_ns,
                pin=tenant.pin,
                pinned_by=tenant.pinned_by,
                paused=tenant.paused,
                memory=tenant.memory,
                compute=tenant.compute,
                gpu=tenant.gpu,
                caller=tenant.caller,
                exe=tenant.exe,
                exe_seen=tenant.exe_seen,
                classes={
                    applied.name: tenant.placed[applied.program.digest].job_class for applied in state.board.applied
                },
            )
        )
    )
    tenant.on_file = made_of, content
    return content


def _encoded(client: Client) -> msgspec.Raw:
    """Most clients are as they were when the file was written last, and most of the file is clients."""
    known = client.on_file
    if known is not None and known[0] is client.devices and known[1] is client.peers and known[2] == client.serial:
        content: msgspec.Raw = known[3]
        return content
    content = msgspec.Raw(
        msgspec.json.encode(
            SavedClient(
                id=client.id,
                job=client.job,
                who=client.who,
                generation=client.generation,
                order=client.order,
                attached_ns=client.attached_ns,
                devices=list(client.devices),
                peers=list(client.peers.values()),
                serial=client.serial,
            )
        )
    )
    client.on_file = (client.devices, client.peers, client.serial, content)
    return content


def load(content: bytes, boot: str) -> Saved | None:
    """None: of another boot, so nobody in it lives. Raises ValueError when it cannot be read."""
    try:
        saved = msgspec.json.decode(content, type=Saved)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ValueError(f"the state file cannot be read: {error}") from None
    if saved.format not in READS:
        raise ValueError(f"the state file has format {saved.format}, this daemon reads {READS[0]} to {READS[-1]}")
    return saved if saved.boot == boot else None


def restore(state: State, saved: Saved, alive: Callable[[int, int], bool], adopt_until_ns: int) -> None:
    """Puts what still lives into a fresh state. `alive(pid, started)` asks the kernel. Everybody is sorted anew by the
    policies that run now."""
    state.next_job = saved.next_job
    state.next_client = saved.next_client
    state.next_order = saved.next_order
    state.last_generation = max(state.last_generation, saved.last_generation)
    for device in saved.devices:
        slot = Slot(device.slot)
        state.devices[slot] = Device(
            slot=slot,
            uuid=device.uuid,
            total_bytes=device.total_bytes,
            index=device.slot if device.index is None else device.index,
            name=device.name,
        )
    living = [client for client in saved.clients if alive(client.who.pid, client.who.started)]
    for tenant in saved.tenants:
        clients = {ClientId(client.id) for client in living if client.job == tenant.id}
        launcher_alive = tenant.launcher_alive and alive(tenant.who.pid, tenant.who.started)
        if clients or launcher_alive:
            attached = [client.attached_ns for client in living if client.job == tenant.id]
            _restore_tenant(state, tenant, clients, launcher_alive, min(attached, default=None))
    for client in living:
        if JobId(client.job) in state.tenants:
            _restore_client(state, client)
    for restored in state.clients.values():
        restored.peers = {peer: entry for peer, entry in restored.peers.items() if peer in state.clients}
    for level in saved.levels:
        if level.tenant in state.tenants and level.slot in state.devices and _is_sane(level):
            state.levels.setdefault(level.slot, []).append(level)
    for beside in saved.overhead:
        if ClientId(beside.client) in state.clients and beside.slot in state.devices:
            state.overhead[ClientId(beside.client), Slot(beside.slot)] = beside.bytes
    for one in saved.apart:
        apart = state.clients.get(ClientId(one.client))
        if apart is not None and one.slot in state.devices:
            apart.hookless, apart.swaps = True, one.swaps
            state.apart[apart.id, Slot(one.slot)] = Apart(
                used=one.used,
                away=one.away,
                before=one.before,
                was_in=one.was_in,
                asked=one.asked,
                looks_ns=0 if one.away else None,  # what is on file may be from before it left
            )
    saved_lock.restore(state, saved.lock, adopt_until_ns)
    for number, count in saved.host.items():
        if ClientId(number) in state.clients:
            state.moves.host.given[ClientId(number)] = count
    state.moved()
    state.alive = alive
    if state.clients:
        state.adopt_until_ns = adopt_until_ns


def _is_sane(level: Level) -> bool:
    """Of what comes from a file, only what arithmetic of 64 bits can be done with."""
    least, most = -(10**15), 10**15
    return (
        all(least <= number <= most for number in (level.cap_ns, level.lag_ns))
        and 0 <= level.at_ns < 2**62
        and all(0 <= ppm <= 10**6 for ppm in (level.cap_ppm or 0, level.share_ppm))
        and 0 <= level.busy_ppm < 2**40
        and 0 <= level.burst_ns <= 2**62
        and all(0 <= spent < 2**64 for _, spent in level.spent)
    )


def _restore_tenant(
    state: State, saved: SavedTenant, clients: set[ClientId], launcher_alive: bool, attached_ns: int | None
) -> None:
    facts = facts_of(saved.who, saved.labels, saved.exe)
    pin = saved.pin if saved.pin is not None else saved.claimed
    tenant = Tenant(
        id=JobId(saved.id),
        name=saved.name,
        command=saved.command,
        exe=saved.exe,
        exe_seen=saved.exe_seen,
        labels=saved.labels,
        pin=pin,
        pinned_by=saved.pinned_by,
        paused=saved.paused,
        memory=_limit(saved.memory, LEAST_BYTES, MOST_BYTES),
        compute=_limit(saved.compute, LEAST_PPM, MOST_PPM),
        gpu=saved.gpu,
        caller=saved.caller,
        who=saved.who,
        facts=facts,
        placed=place_everywhere(state.board, facts, pin),
        launcher=saved.launcher,
        launcher_alive=launcher_alive,
        began_ns=saved.began_ns,
        clients=clients,
        attached_ns=attached_ns,
    )
    state.tenants[tenant.id] = tenant


def _limit(said: Ruling | None, least: int, most: int) -> Ruling | None:
    """Of what comes from a file, only what could have been said."""
    return said if said is not None and least <= said.value <= most else None


def _restore_client(state: State, saved: SavedClient) -> None:
    state.clients[ClientId(saved.id)] = Client(
        id=ClientId(saved.id),
        job=JobId(saved.job),
        who=saved.who,
        generation=Generation(saved.generation),
        order=saved.order,
        session=None,
        attached_ns=saved.attached_ns,
        announced=True,
        devices=tuple(None if slot is None else Slot(slot) for slot in saved.devices),
        peers={entry.client: entry for entry in saved.peers},
        serial=saved.serial,
    )
