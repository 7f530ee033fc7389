"""The formats of layout.py against what the C compiler chose, and the engine's bits against the header."""

import struct

import pytest
from gpud.hooks._pages import ffi, lib

from gpud.engine import memory_report, publish, slots
from gpud.hooks import layout, wire
from gpud.model.counters import Counters


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("gpud_page_header", layout.HEADER.size),
        ("gpud_peer", layout.PEER.size),
        ("gpud_control_device", layout.CONTROL_DEVICE_SIZE),
        ("gpud_presence_device", layout.PRESENCE_DEVICE.size),
        ("gpud_slot", layout.SLOT.size),
        ("gpud_activity_device", layout.ACTIVITY_DEVICE_SIZE),
        ("gpud_sum", layout.SUM.size),
    ],
)
def test_sizes(name: str, size: int) -> None:
    assert ffi.sizeof(f"struct {name}") == size


def test_whole_pages() -> None:
    for name, size in (
        ("control", layout.CONTROL_BYTES),
        ("presence", layout.PRESENCE_BYTES),
        ("activity", layout.ACTIVITY_BYTES),
    ):
        real = ffi.sizeof(f"struct gpud_{name}_page")
        assert real <= size < real + 4096
        assert size % 4096 == 0


@pytest.mark.parametrize("slot", range(layout.MAX_DEVICES))
def test_offsets_of_devices(slot: int) -> None:
    for name, ours in (
        ("control", layout.control_device_offset(slot)),
        ("presence", layout.presence_device_offset(slot)),
        ("activity", layout.activity_device_offset(slot)),
    ):
        assert ffi.offsetof(f"struct gpud_{name}_page", "device", slot) == ours
    for thread in (0, 63):
        theirs = ffi.offsetof("struct gpud_activity_page", "device", slot, "slots", thread)
        assert theirs == layout.slot_offset(slot, thread)


@pytest.mark.parametrize(
    ("name", "format", "fields"),
    [
        ("gpud_page_header", layout.HEADER, "magic version kind size client generation epoch_ns shift"),
        (
            "gpud_peer",
            layout.PEER,
            "rank unit generation present flags tenant share_seq share_base_ns share_t0_ns share_rate_ppm",
        ),
        (
            "gpud_control_device",
            layout.CONTROL_DEVICE_HEAD,
            "gate wake rank unit peer_count others_active max_inflight pass_launches resume_after_ns max_pause_ns "
            "max_inflight_ns memory_limit level_seq cap_rate_ppm cap_base_ns cap_t0_ns cap_burst_ns cap_flags "
            "share_rate_ppm share_base_ns share_t0_ns share_turn_ns draw_ns pass_ns launch_rate block_rate copy_rate "
            "burst_ns others_lag_ns generation grant_epoch grant_until_ns tenant others_edges watched "
            "memory_flags others_reserved overhead_bytes lock_flags lock_place",
        ),
        (
            "gpud_presence_device",
            layout.PRESENCE_DEVICE,
            "active edges idle_since_ns inflight spent_ns waiting turn full_ns reserved_bytes lock holds",
        ),
        (
            "gpud_activity_device",
            layout.ACTIVITY_DEVICE_HEAD,
            "used_bytes allocations launches_failed passed copy_bytes last_finish_ns samples clean calls factor_ppm "
            "estimated resident_bytes host_bytes lazy_bytes swap_done_bytes swap_total_bytes lost_bytes slots_bytes "
            "unpinned_bytes pins",
        ),
        (
            "gpud_slot",
            layout.SLOT,
            "entered left blocks held held_ns thread holding hold_reason hold_peer hold_since_ns",
        ),
        ("gpud_sum", layout.SUM, " ".join(Counters._fields)),
    ],
)
def test_fields(name: str, format: struct.Struct, fields: str) -> None:
    """Numbers written by `struct` are read under their names in C."""
    numbers = [*range(1, len(format.unpack(bytes(format.size))) + 1)]
    raw = format.pack(*numbers)
    whole = ffi.new(f"struct {name} *")
    ffi.memmove(whole, raw, len(raw))
    found = [getattr(whole[0], field) for field in fields.split()]
    assert [one for field in found for one in (field if isinstance(field, ffi.CData) else [field])] == numbers


def test_heads_of_pages() -> None:
    control = ffi.new("struct gpud_control_page *")
    ffi.memmove(ffi.cast("char *", control) + layout.HEADER.size, layout.CONTROL_HEAD.pack(1, 2, 3, 4), 64)
    assert (control.lease_until_ns, control.failsafe_after_ns, control.failsafe, control.detach) == (1, 2, 3, 4)
    activity = ffi.new("struct gpud_activity_page *")
    ffi.memmove(ffi.cast("char *", activity) + layout.HEADER.size, layout.ACTIVITY_HEAD.pack(1, 2, 3, 4, b"ab"), 64)
    assert (activity.errors, activity.attaches, activity.keeper_wakes, activity.reason_slots) == (1, 2, 3, 4)
    assert bytes(activity.reason) == b"ab".ljust(layout.REASON_BYTES, b"\0")


def test_numbers_that_are_written_down_twice() -> None:
    for name in (
        "MAX_DEVICES",
        "MAX_PEERS",
        "MAX_SLOTS",
        "HISTOGRAM_BUCKETS",
        "REASON_BYTES",
        "PINS",
        "PAGE_MAGIC",
        "PAGE_VERSION",
    ):
        assert getattr(layout, name) == getattr(lib, f"GPUD_{name}")
    for name in ("PAUSED", "PREEMPT", "WINDOW", "BUDGET", "GRANT", "RATE", "CHARGE", "SHARE", "COPY"):
        assert getattr(publish, f"GATE_{name}") == getattr(lib, f"GPUD_GATE_{name}")
    names = ("EARLY", "CAPTURE", "ARRAY", "MANAGED", "HANDLE", "POOL", "GRAPH", "OUTSIDE")
    assert [getattr(lib, f"GPUD_PIN_{name}") for name in names] == list(memory_report.PINS)
    assert len(names) == lib.GPUD_PINS
    assert slots.MAX_DEVICES == wire.MAX_DEVICES
    assert (layout.CONTROL, layout.PRESENCE, layout.ACTIVITY) == (
        lib.GPUD_PAGE_CONTROL,
        lib.GPUD_PAGE_PRESENCE,
        lib.GPUD_PAGE_ACTIVITY,
    )
