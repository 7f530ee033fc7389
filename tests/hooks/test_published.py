"""What the daemon publishes of a device is what a hook reads there: every field, whoever has forgotten one."""

import mmap
from collections.abc import Iterator

import attrs
import pytest
from gpud.hooks._pages import ffi, lib

from gpud.hooks import layout
from gpud.hooks.pages import PageStore
from gpud.model.ids import ClientId, Generation, JobId, Slot
from gpud.model.knobs import DeviceWords, PeerWords

ONE, SLOT = ClientId(1), Slot(3)
STRUCT = "struct gpud_control_device"
COUNTED = {"wake", "generation"}
"""Told by the function itself: counted on."""
ELSEWHERE = {
    *("level_seq", "cap_rate_ppm", "cap_base_ns", "cap_t0_ns", "cap_burst_ns", "cap_flags", "share_rate_ppm"),
    *("share_base_ns", "share_t0_ns", "share_turn_ns", "draw_ns", "launch_rate", "block_rate", "copy_rate"),
    *("others_active", "others_lag_ns", "others_edges", "watched"),
}
"""Written by the step of the levels, or by gpud_publish_watched."""
PEER_ELSEWHERE = {"share_seq", "share_rate_ppm", "share_base_ns", "share_t0_ns"}
NO_FIELD = {"pad", "peers"}


def fields(struct: str) -> list[str]:
    return [name for name, _ in ffi.typeof(struct).fields if name not in NO_FIELD]


PUBLISHED = [name for name in fields(STRUCT) if name not in COUNTED | ELSEWHERE]
PEER_PUBLISHED = [name for name in fields("struct gpud_peer") if name not in PEER_ELSEWHERE]


def test_every_field_is_published_counted_or_written_elsewhere() -> None:
    assert set(fields(STRUCT)) >= COUNTED | ELSEWHERE
    assert set(fields("struct gpud_peer")) >= PEER_ELSEWHERE


def test_all_words_of_a_device_and_of_its_peers_are_stored() -> None:
    page, words = ffi.new("struct gpud_control_page *"), ffi.new(f"{STRUCT} *")
    for number, name in enumerate(PUBLISHED, 1):
        setattr(words, name, number)
    for place in range(len(words.peers)):
        for number, name in enumerate(PEER_PUBLISHED, 1):
            setattr(words.peers[place], name, 100 * place + number)
    lib.gpud_publish_device(page, SLOT, words)
    found = page.device[SLOT]
    assert {name: getattr(found, name) for name in PUBLISHED} == {name: n for n, name in enumerate(PUBLISHED, 1)}
    assert [getattr(found, name) for name in sorted(COUNTED)] == [1, 1]
    for place in range(len(found.peers)):
        peer = found.peers[place]
        said = [getattr(peer, name) for name in PEER_PUBLISHED]
        assert said == [100 * place + number for number in range(1, len(PEER_PUBLISHED) + 1)]


@pytest.fixture
def store() -> Iterator[PageStore]:
    store = PageStore(lease_ns=3_000_000_000, failsafe_after_ns=30_000_000_000)
    yield store
    store.close()


def test_all_that_the_daemon_says_is_in_the_page(store: PageStore) -> None:
    """Every attribute of DeviceWords and PeerWords, each with a value of its own, under its own name."""
    store.create(ONE, Generation(42))
    control = mmap.mmap(store.handed_out(ONE).control, layout.CONTROL_BYTES, prot=mmap.PROT_READ)
    names = [field.name for field in attrs.fields(DeviceWords) if field.name != "peers"]
    peer = PeerWords(client=ClientId(2), rank=11, generation=Generation(12), present=13, tenant=JobId(14), flags=15)
    said = {name: number for number, name in enumerate(names, 20)}
    store.publish(ONE, SLOT, DeviceWords(**said, peers=(peer,)))
    page = ffi.from_buffer("struct gpud_control_page *", control)
    found = page.device[SLOT]
    assert {name: getattr(found, name) for name in names} == said
    assert found.peer_count == 1
    entry = found.peers[0]
    assert [entry.rank, entry.generation, entry.present, entry.tenant, entry.flags] == [11, 12, 13, 14, 15]
    assert {*names, "peer_count", "unit"} == set(PUBLISHED), "a field that the daemon has no word for; unit is reserved"
    ffi.release(page)
    control.close()
