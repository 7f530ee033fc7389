"""What of a job's row changes by events alone, so that it is made once and not at each look. Pure."""

import re
from collections.abc import Callable
from typing import Any

from attrs import define, frozen

from gpud.engine.standing import class_text, is_pinned
from gpud.engine.state import Client, State, Tenant
from gpud.model.ids import ClientId, Slot
from gpud.model.live_views import ProcessRow
from gpud.model.text import one_line

COMMAND, NAME, LABEL = 200, 80, 64
"""Characters that are shown of each."""
_DIRECTORY = re.compile(r"(?:(?<=^)|(?<=[\s(]))/\S*/(?=[^/\s]+\.gpol:\d)")
MOST_LABELS, MOST_PROCESSES = 32, 64


def cut(text: str, most: int) -> str:
    """In one line, with `…` where it was longer."""
    shown = one_line(text[: most + 1])
    return shown if len(shown) <= most and len(text) <= most else f"{shown[: most - 1]}…"


def short(text: str) -> str:
    """With files of policies as people call them: `turns.gpol:12`, without their directory."""
    return _DIRECTORY.sub("", text) if ".gpol:" in text else text


@define(eq=False)
class ClassSum:
    """One class of a policy on a device, as jobs are counted."""

    policy: str
    job_class: str
    rank: int
    jobs: int = 0
    active: int = 0
    held: int = 0
    spent_ns: int = 0
    """Only grows, whoever leaves."""


@frozen(eq=False)
class Pair:
    """A process of a job on one of its devices."""

    client: Client
    slot: Slot
    key: tuple[ClientId, Slot]
    sums: tuple[ClassSum, ...]
    """Classes that its job is in there."""


@frozen(kw_only=True, eq=False)
class Still:
    """Of one job."""

    name: str
    user: str
    job_class: str
    command: str
    labels: tuple[tuple[str, str], ...]
    devices: tuple[Slot, ...]
    pinned: bool
    clients: tuple[Client, ...]
    pairs: tuple[Pair, ...]
    processes: tuple[ProcessRow, ...]
    """Without their memory."""


SumsOn = Callable[[Slot], tuple[tuple[str, dict[str, ClassSum]], ...]]
"""Device → (digest of a policy there, its classes)."""


def signature(state: State, tenant: Tenant) -> tuple[Any, ...]:
    """While this is equal, so is what `still` makes."""
    if len(tenant.clients) == 1:  # most have one process
        (only,) = tenant.clients
        client = state.clients.get(only)
        return (tenant.placed, client, client.devices if client is not None else ())
    clients = [client for client in map(state.clients.get, sorted(tenant.clients)) if client is not None]
    return (tenant.placed, len(clients), *(part for client in clients for part in (client, client.devices)))


def still(state: State, tenant: Tenant, sums_on: SumsOn) -> Still:
    clients = tuple(state.clients_of(tenant))
    devices = tuple(sorted(state.slots_of(tenant)))
    sums = {
        slot: tuple(
            classes[name]
            for digest, classes in sums_on(slot)
            if (name := tenant.placed[digest].job_class) is not None and name in classes
        )
        for slot in devices
    }
    return Still(
        name=cut(tenant.name, NAME),
        user=cut(tenant.who.user, LABEL),
        job_class=class_text(state, tenant),
        command=cut(tenant.command, COMMAND),
        labels=labels(tenant),
        devices=devices,
        pinned=is_pinned(state, tenant),
        clients=clients,
        pairs=tuple(
            Pair(client, slot, (client.id, slot), sums[slot]) for client in clients for slot in sorted(client.slots())
        ),
        processes=tuple(
            ProcessRow(
                pid=client.who.pid,
                command=cut(client.who.command, NAME),
                devices=tuple(sorted(client.slots())),
                used_bytes=0,
            )
            for client in clients[:MOST_PROCESSES]
        ),
    )


def labels(tenant: Tenant) -> tuple[tuple[str, str], ...]:
    found = sorted(tenant.labels.items())[:MOST_LABELS]
    return tuple((cut(key, LABEL), cut(value, LABEL)) for key, value in found)
