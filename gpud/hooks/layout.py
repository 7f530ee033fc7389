"""Formats of the pages of gpud_page.h for `struct`: what is read before a page is mapped, and what fakes write.

A test compares sizes and offsets with those the C compiler chose.
"""

import struct
from mmap import mmap

PAGE_MAGIC = 0x64757067
PAGE_VERSION = 4
CONTROL, PRESENCE, ACTIVITY = 1, 2, 3
MAX_DEVICES = 8
MAX_PEERS = 16
MAX_SLOTS = 64
HISTOGRAM_BUCKETS = 32

HEADER = struct.Struct("<IHHIIQQI28x")
"""magic, version, kind, size, client, generation, epoch_ns, shift."""
PEER = struct.Struct("<IIQIIIIqQI12x")
"""rank, unit, generation, present, flags, tenant, share seq, base, t0, rate."""
CONTROL_HEAD = struct.Struct("<QQII40x")
"""After the header: lease_until_ns, failsafe_after_ns, failsafe, detach."""
CONTROL_DEVICE_HEAD = struct.Struct("<8I4Q 2IqQQ2IqQQ 6QqQ 2Q4I2Q2I8x")
"""Up to its peers: gate, wake, rank, unit, peer_count, others_active, max_inflight, pass_launches, …"""
PRESENCE_DEVICE = struct.Struct("<IIQQQIIQQII")
"""active, edges, idle_since_ns, inflight, spent_ns, waiting, turn, full_ns, reserved_bytes, lock, holds."""
REASON_BYTES = 36
ACTIVITY_HEAD = struct.Struct(f"<QQQI{REASON_BYTES}s")
"""After the header: errors, attaches, keeper_wakes, reason_slots, reason."""
PINS = 8
ACTIVITY_DEVICE_HEAD = struct.Struct(f"<9QII8Q{PINS}Q48x")
"""used_bytes, allocations, launches_failed, passed, copy_bytes, last_finish_ns, samples, clean, calls, factor_ppm, …,
resident_bytes, host_bytes, lazy_bytes, swap_done_bytes, swap_total_bytes, lost_bytes, slots_bytes, unpinned_bytes,
pins."""
SLOT = struct.Struct("<QQQQQIIIIQ")
"""entered, left, blocks, held, held_ns, thread, holding, hold_reason, hold_peer, hold_since_ns."""
SUM = struct.Struct("<29Q12I")
"""`struct gpud_sum` of pages_native.h: the fields of model.counters.Counters, in their order."""

CONTROL_DEVICE_SIZE = CONTROL_DEVICE_HEAD.size + PEER.size * MAX_PEERS
ACTIVITY_DEVICE_SIZE = ACTIVITY_DEVICE_HEAD.size + 16 * HISTOGRAM_BUCKETS + SLOT.size * MAX_SLOTS


def _round(size: int) -> int:
    return (size + 4095) & ~4095


CONTROL_BYTES = _round(HEADER.size + CONTROL_HEAD.size + CONTROL_DEVICE_SIZE * MAX_DEVICES)
PRESENCE_BYTES = _round(HEADER.size + PRESENCE_DEVICE.size * MAX_DEVICES)
ACTIVITY_BYTES = _round(HEADER.size + ACTIVITY_HEAD.size + ACTIVITY_DEVICE_SIZE * MAX_DEVICES)
BYTES = {CONTROL: CONTROL_BYTES, PRESENCE: PRESENCE_BYTES, ACTIVITY: ACTIVITY_BYTES}
"""Kind → size of the whole page."""


def control_device_offset(slot: int) -> int:
    return HEADER.size + CONTROL_HEAD.size + CONTROL_DEVICE_SIZE * slot


def presence_device_offset(slot: int, shift: int = 0) -> int:
    """`shift` is in the page's header."""
    return HEADER.size + PRESENCE_DEVICE.size * ((slot + shift) % MAX_DEVICES)


def presence_device_at(page: mmap | bytes, slot: int) -> int:
    """The same, of a page that is mapped."""
    return presence_device_offset(slot, HEADER.unpack_from(page)[7])


def activity_device_offset(slot: int) -> int:
    return HEADER.size + ACTIVITY_HEAD.size + ACTIVITY_DEVICE_SIZE * slot


def slot_offset(slot: int, thread: int) -> int:
    return activity_device_offset(slot) + ACTIVITY_DEVICE_HEAD.size + 16 * HISTOGRAM_BUCKETS + SLOT.size * thread
