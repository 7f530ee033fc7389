"""The pages of all clients: made, handed out, sealed, published to, summed up. The daemon's one place that maps
memory."""

import contextlib
import errno
import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, frozen

from gpud.hooks import layout, memfd
from gpud.hooks._pages import ffi, lib
from gpud.hooks.levels import Divided
from gpud.model.counters import Counters, HookCounters
from gpud.model.ids import ClientId, Generation, JobId, Slot
from gpud.model.knobs import DeviceWords
from gpud.model.levels import Barred, Division, Level, Motion
from gpud.model.text import one_line

FAILSAFE_OPEN, FAILSAFE_HOLD = 0, 1
UNCAPPED_NS = lib.GPUD_UNCAPPED_NS
DRAW_NS = lib.GPUD_DRAW_FREE_NS
"""Where nothing is limited: as levels_native.h has it."""


@frozen(kw_only=True)
class NewPages:
    """Descriptors for a WELCOME. They stay the store's: send them, do not close them."""

    control: int
    presence: int
    activity: int


@define(kw_only=True)
class _Pages:
    control_fd: int = -1
    presence_fd: int = -1
    activity_fd: int = -1
    control: Any = None
    presence: Any = None
    activity: Any = None
    devices: int = 0


_NO_PAGES = _Pages()


class PageStore:
    """Owns every descriptor and mapping in it. Methods about a client that is not there do nothing, or raise KeyError
    where an answer is due."""

    SIZES = (layout.CONTROL_BYTES, layout.PRESENCE_BYTES, layout.ACTIVITY_BYTES)
    """Of the three pages, bytes."""

    def __init__(self, *, lease_ns: int, failsafe_after_ns: int) -> None:
        self._lease_ns = lease_ns
        self._failsafe_after_ns = failsafe_after_ns
        self._pages: dict[ClientId, _Pages] = {}
        self._scratch = ffi.new("struct gpud_control_device *")
        self._divided: dict[Slot, Divided] = {}
        self._watched = 0
        """Devices (a bit each) of which edges need not be told."""
        self._summing: tuple[Any, Any, dict[tuple[ClientId, Slot], int]] | None = None
        """What `counters` hands to C: rows, sums, and where in them each device of a client is. None: mappings or
        devices have changed."""

    def __contains__(self, client: ClientId) -> bool:
        return client in self._pages

    def create(self, client: ClientId, generation: Generation) -> None:
        """All three pages of a new client; the control page closed to writers already. Raises OSError."""
        pages = self._new(client, generation)
        try:
            now = time.monotonic_ns()
            pages.presence_fd = memfd.make_page(layout.PRESENCE, client, generation, now)
            pages.activity_fd = memfd.make_page(layout.ACTIVITY, client, generation, now)
        except BaseException:
            self.drop(client)
            raise

    def adopt(self, client: ClientId, generation: Generation, presence_fd: int, activity_fd: int) -> None:
        """A new control page for a client that brings its others, which are checked. Takes the descriptors over, also
        when it raises ProtocolError or OSError."""
        try:
            memfd.check_page(presence_fd, layout.PRESENCE, generation)
            memfd.check_page(activity_fd, layout.ACTIVITY, generation)
            pages = self._new(client, generation)
        except BaseException:
            os.close(presence_fd)
            os.close(activity_fd)
            raise
        pages.presence_fd, pages.activity_fd = presence_fd, activity_fd
        try:
            self._look(pages, presence_fd, activity_fd)
        except BaseException:
            self.drop(client)
            raise

    def handed_out(self, client: ClientId) -> NewPages:
        """What a WELCOME carries. Raises KeyError."""
        pages = self._pages[client]
        return NewPages(control=pages.control_fd, presence=pages.presence_fd, activity=pages.activity_fd)

    def seal(self, client: ClientId) -> None:
        """The client has mapped its pages: nobody else may write them from now on, and only then do we look at them.
        Raises OSError when the seals cannot be set or do not hold, KeyError."""
        pages = self._pages[client]
        if pages.presence is None:
            memfd.close_page(pages.presence_fd)
            memfd.close_page(pages.activity_fd)
            self._look(pages, pages.presence_fd, pages.activity_fd)
        # The presence page's descriptor stays, for peers that come later.
        for name in ("control_fd", "activity_fd"):
            if getattr(pages, name) >= 0:
                os.close(getattr(pages, name))
                setattr(pages, name, -1)

    def drop(self, client: ClientId) -> None:
        """Unmaps and closes. The client's own mappings stay."""
        pages = self._pages.pop(client, None)
        if pages is None:
            return
        self._summing = None
        for divided in self._divided.values():
            divided.forget(client)
        for name, kind in (("control", layout.CONTROL), ("presence", layout.PRESENCE), ("activity", layout.ACTIVITY)):
            if getattr(pages, name) is not None:
                lib.gpud_unmap(getattr(pages, name), layout.BYTES[kind])
            if getattr(pages, name + "_fd") >= 0:
                os.close(getattr(pages, name + "_fd"))

    def close(self) -> None:
        """Drops all, leaving what they say: the lease decides."""
        for client in list(self._pages):
            self.drop(client)

    def publish(self, client: ClientId, slot: Slot, words: DeviceWords) -> None:
        """Writes one device and wakes who is held on it."""
        pages = self._pages.get(client)
        if pages is None:
            return
        if not pages.devices & 1 << slot:
            pages.devices |= 1 << slot
            self._summing = None
        scratch = self._scratch
        ffi.memmove(scratch, bytes(ffi.sizeof("struct gpud_control_device")), ffi.sizeof("struct gpud_control_device"))
        scratch.gate, scratch.rank = words.gate, words.rank
        scratch.tenant, scratch.peer_count = words.tenant, len(words.peers)
        scratch.max_inflight, scratch.max_inflight_ns = words.max_inflight, words.max_inflight_ns
        scratch.pass_launches, scratch.pass_ns = words.pass_launches, words.pass_ns
        scratch.resume_after_ns, scratch.max_pause_ns = words.resume_after_ns, words.max_pause_ns
        scratch.burst_ns, scratch.memory_limit = words.burst_ns, words.memory_limit
        scratch.memory_flags, scratch.others_reserved = words.memory_flags, words.others_reserved
        scratch.overhead_bytes = words.overhead_bytes
        scratch.grant_epoch, scratch.grant_until_ns = words.grant_epoch, words.grant_until_ns
        scratch.lock_flags, scratch.lock_place = words.lock_flags, words.lock_place
        for entry, peer in zip(scratch.peers, words.peers, strict=False):
            entry.rank, entry.generation = peer.rank, peer.generation
            entry.present, entry.flags, entry.tenant = peer.present, peer.flags, peer.tenant
        lib.gpud_publish_watched(pages.control, slot, self._watched >> slot & 1)
        lib.gpud_publish_device(pages.control, slot, scratch)

    def divide(self, slot: Slot, division: Division | None, resumed: Iterable[Level], now: int) -> None:
        """The time of a device is divided so from now on, and its pages say so; None: it is not. `resumed`: where a
        daemon before has left its levels."""
        before = self._divided.get(slot)
        if before is not None and division is not None and before.amend(division):
            before.step(now)
            return
        self._divided.pop(slot, None)
        if division is not None:
            self._divided[slot] = divided = Divided(slot, division, self._places, before, resumed)
            divided.step(now)
        elif before is not None:
            before.end()

    def tell_edges(self, slot: Slot, told: bool) -> None:
        """Shall hooks tell of their edges on that device? They do until something else is said."""
        if told:
            self._watched &= ~(1 << slot)
        else:
            self._watched |= 1 << slot
        for pages in self._pages.values():
            if pages.devices & 1 << slot and pages.control is not None:
                lib.gpud_publish_watched(pages.control, slot, not told)

    def step_levels(self, now: int) -> dict[Slot, Motion]:
        """Levels, shares and rates of all divided devices move on to now, and are published. Wakes nobody."""
        return {slot: divided.step(now) for slot, divided in self._divided.items() if divided.division.moves}

    def barred(self) -> dict[tuple[JobId, Slot], Barred]:
        """Who is not believed there, as of the last step."""
        return {(job, slot): why for slot, one in self._divided.items() for job, why in one.barred().items()}

    def levels(self) -> list[Level]:
        """Of all tenants on divided devices, as of the last step."""
        return [level for divided in self._divided.values() for level in divided.levels()]

    def refresh_lease(self, until_ns: int) -> None:
        """Of all control pages."""
        for pages in self._pages.values():
            lib.gpud_publish_lease(pages.control, until_ns)

    def publish_failsafe(self, client: ClientId, after_ns: int | None) -> None:
        """How long after the lease its gates open; None: never by themselves."""
        pages = self._pages.get(client)
        if pages is not None:
            failsafe = FAILSAFE_HOLD if after_ns is None else FAILSAFE_OPEN
            lib.gpud_publish_failsafe(pages.control, failsafe, after_ns or 0)

    def detach(self, client: ClientId) -> None:
        """Says in its page that the client is let go: it acts as if there were no gate."""
        pages = self._pages.get(client)
        if pages is not None:
            lib.gpud_publish_detach(pages.control)

    def presence_fd(self, client: ClientId) -> int | None:
        """For the peers of the client; None before it is sealed."""
        pages = self._pages.get(client)
        return None if pages is None or pages.presence is None else pages.presence_fd

    def counters(self) -> dict[tuple[ClientId, Slot], Counters]:
        """All clients on their devices, summed up in one call."""
        if self._summing is None:
            self._summing = self._sum_anew()
        rows, sums, offsets = self._summing
        lib.gpud_pages_sum(rows, len(rows), sums)
        content, unpack, make = ffi.buffer(sums), layout.SUM.unpack_from, Counters._make
        return {key: make(unpack(content, offset)) for key, offset in offsets.items()}

    def _sum_anew(self) -> tuple[Any, Any, dict[tuple[ClientId, Slot], int]]:
        clients = [(client, pages) for client, pages in self._pages.items() if pages.presence is not None]
        rows = ffi.new("struct gpud_summed[]", len(clients))
        for row, (_, pages) in zip(rows, clients, strict=True):
            row.presence, row.activity, row.devices = pages.presence, pages.activity, pages.devices
        offsets = {
            (client, Slot(slot)): (i * layout.MAX_DEVICES + slot) * layout.SUM.size
            for i, (client, pages) in enumerate(clients)
            for slot in range(layout.MAX_DEVICES)
            if pages.devices & (1 << slot)
        }
        return rows, ffi.new("struct gpud_sum[]", len(clients) * layout.MAX_DEVICES), offsets

    def histograms(self, wanted: Iterable[tuple[ClientId, Slot]]) -> dict[tuple[ClientId, Slot], tuple[int, ...]]:
        """Of holds, those of the wanted that can be seen."""
        return self._histograms(wanted, lib.gpud_histogram)

    def delays(self, wanted: Iterable[tuple[ClientId, Slot]]) -> dict[tuple[ClientId, Slot], tuple[int, ...]]:
        """Likewise, from launch to start."""
        return self._histograms(wanted, lib.gpud_delays)

    def _histograms(
        self, wanted: Iterable[tuple[ClientId, Slot]], read: Any
    ) -> dict[tuple[ClientId, Slot], tuple[int, ...]]:
        found: dict[tuple[ClientId, Slot], tuple[int, ...]] = {}
        buckets = ffi.new("uint64_t[]", layout.HISTOGRAM_BUCKETS)
        for client, slot in wanted:
            pages = self._pages.get(client)
            if pages is not None and pages.activity is not None:
                read(pages.activity, slot, buckets)
                found[client, slot] = tuple(buckets)
        return found

    def hook_counters(self, client: ClientId) -> HookCounters:
        pages = self._pages.get(client)
        if pages is None or pages.activity is None:
            return HookCounters()
        total = [0] * layout.HISTOGRAM_BUCKETS
        bucket = ffi.new("uint64_t[]", layout.HISTOGRAM_BUCKETS)
        for slot in range(layout.MAX_DEVICES):
            if pages.devices & (1 << slot):
                lib.gpud_histogram(pages.activity, slot, bucket)
                total = [a + b for a, b in zip(total, bucket, strict=True)]
        return HookCounters(errors=pages.activity.errors, attaches=pages.activity.attaches, histogram=tuple(total))

    def reasons(self) -> dict[tuple[ClientId, Slot], str]:
        """What programs say that their turns are for, as it may stand in a line; of those that say anything."""
        found: dict[tuple[ClientId, Slot], str] = {}
        for client, pages in self._pages.items():
            if pages.activity is None:
                continue
            head = ffi.buffer(pages.activity, layout.HEADER.size + layout.ACTIVITY_HEAD.size)
            *_, slots, raw = layout.ACTIVITY_HEAD.unpack_from(head, layout.HEADER.size)
            text = one_line(raw.rstrip(b"\0").decode(errors="replace").strip()) if slots else ""
            if text:
                found |= {(client, Slot(slot)): text for slot in range(layout.MAX_DEVICES) if slots & 1 << slot}
        return found

    def _places(self, client: ClientId) -> tuple[Any, Any, Any]:
        pages = self._pages.get(client, _NO_PAGES)
        return pages.control or ffi.NULL, pages.presence or ffi.NULL, pages.activity or ffi.NULL

    def _look(self, pages: _Pages, presence_fd: int, activity_fd: int) -> None:
        """Maps what the client writes, both pages or none. Raises OSError."""
        presence = _map(presence_fd, layout.PRESENCE, writable=False)
        try:
            activity = _map(activity_fd, layout.ACTIVITY, writable=False)
        except OSError:
            lib.gpud_unmap(presence, layout.PRESENCE_BYTES)
            raise
        pages.presence, pages.activity, self._summing = presence, activity, None

    def _new(self, client: ClientId, generation: Generation) -> _Pages:
        """With the control page only: mapped, its lease running, closed to all other writers."""
        if client in self._pages:
            raise OSError(errno.EEXIST, f"client {client} has pages already")
        now = time.monotonic_ns()
        pages = _Pages()
        self._pages[client] = pages
        try:
            pages.control_fd = memfd.make_page(layout.CONTROL, client, generation, now)
            pages.control = _map(pages.control_fd, layout.CONTROL, writable=True)
            pages.control.failsafe = FAILSAFE_OPEN
            pages.control.failsafe_after_ns = self._failsafe_after_ns
            pages.control.lease_until_ns = now + self._lease_ns
            for device in pages.control.device:
                device.pass_launches = 1
                for name in ("max_pause_ns", "memory_limit", "launch_rate", "block_rate", "copy_rate"):
                    setattr(device, name, 2**64 - 1)
                # Until a step of the levels says otherwise, nothing is capped and nobody waits for who is beyond.
                device.cap_rate_ppm, device.cap_base_ns, device.cap_burst_ns = 1_000_000, UNCAPPED_NS, UNCAPPED_NS
                device.draw_ns, device.others_lag_ns = DRAW_NS, -(2**63)
            memfd.close_page(pages.control_fd)
        except BaseException:
            self.drop(client)
            raise
        return pages


@asynccontextmanager
async def open_pages(*, lease_ns: int, failsafe_after_ns: int) -> AsyncIterator[PageStore]:
    """The store. Leaving it leaves the pages as they are. Raises SetupError when pages cannot be made here."""
    memfd.check_machine()
    with contextlib.closing(PageStore(lease_ns=lease_ns, failsafe_after_ns=failsafe_after_ns)) as store:
        yield store


_TYPES = {
    layout.CONTROL: "struct gpud_control_page *",
    layout.PRESENCE: "const struct gpud_presence_page *",
    layout.ACTIVITY: "const struct gpud_activity_page *",
}


def _map(fd: int, kind: int, *, writable: bool) -> Any:
    address = lib.gpud_map(fd, layout.BYTES[kind], writable)
    if address == ffi.NULL:
        raise OSError(ffi.errno, f"cannot map a page: {os.strerror(ffi.errno)}")
    return ffi.cast(_TYPES[kind], address)
