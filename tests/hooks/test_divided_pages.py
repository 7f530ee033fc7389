"""Devices divided through the store of pages, and by an engine with hooks: what reaches the control pages."""

import mmap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.hooks import layout
from gpud.hooks.pages import PageStore
from gpud.model.ids import ClientId, Generation, JobId, Slot
from gpud.model.knobs import PEER_SHARE, DeviceWords, PeerWords
from gpud.model.levels import DividedClient, DividedTenant, Division, Motion, Pool, ShareUnit
from gpud.model.units import MILLISECOND, SECOND
from gpud.testing.fake_hook import FakeHook
from tests.hooks.conftest import Node, open_node, until

S2 = Slot(2)
WHOLE = 1_000_000
OTHERS_ACTIVE, SHARE_RATE, SHARE_BASE, WATCHED = 5, 18, 19, 34
"""Of CONTROL_DEVICE_HEAD."""


@pytest.fixture
def store() -> Iterator[PageStore]:
    store = PageStore(lease_ns=3 * SECOND, failsafe_after_ns=30 * SECOND)
    yield store
    store.close()


class Side:
    """A client's view of its pages."""

    def __init__(self, store: PageStore, number: int) -> None:
        self.id = ClientId(number)
        store.create(self.id, Generation(number))
        pages = store.handed_out(self.id)
        self.control = mmap.mmap(pages.control, layout.CONTROL_BYTES, prot=mmap.PROT_READ)
        self.presence = mmap.mmap(pages.presence, layout.PRESENCE_BYTES)

    def head(self) -> tuple[int, ...]:
        return layout.CONTROL_DEVICE_HEAD.unpack_from(self.control, layout.control_device_offset(S2))

    def peer(self, index: int = 0) -> tuple[int, ...]:
        first = layout.control_device_offset(S2) + layout.CONTROL_DEVICE_HEAD.size
        return layout.PEER.unpack_from(self.control, first + layout.PEER.size * index)

    def spend(self, ns: int) -> None:
        at = layout.presence_device_at(self.presence, S2)
        layout.PRESENCE_DEVICE.pack_into(self.presence, at, 1, 1, 0, 0, ns, 0, 1, 0, 0, 0, 0)


def entry(number: int) -> PeerWords:
    client, generation = ClientId(number), Generation(number)
    return PeerWords(
        client=client,
        rank=0,
        generation=generation,
        present=0,
        tenant=JobId(number),
        flags=PEER_SHARE,  # type: ignore[arg-type]
    )


def division(*numbers: int) -> Division:
    others = {n: tuple(ClientId(o) for o in numbers if o != n) for n in numbers}
    return Division(
        tenants=tuple(
            DividedTenant(tenant=JobId(n), clients=(DividedClient(client=ClientId(n), rank=0, peers=others[n]),))
            for n in numbers
        ),
        units=tuple(ShareUnit(pool=0, fixed_ppm=None, weight=1, members=(JobId(n),)) for n in numbers),
        pools=(Pool(period_ns=20 * MILLISECOND, open_ppm=WHOLE),),
    )


def test_steps_reach_the_pages_and_publishing_leaves_them_alone(store: PageStore) -> None:
    one, two = Side(store, 1), Side(store, 2)
    for side, other in ((one, 2), (two, 1)):
        store.seal(side.id)
        store.publish(side.id, S2, DeviceWords(gate=128, tenant=JobId(side.id), peers=(entry(other),)))
        assert side.peer()[9] == 0  # whoever is new in the table takes no turns before a step says so
    now = time.monotonic_ns()
    store.divide(S2, division(1, 2), (), now)
    assert [side.head()[SHARE_RATE] for side in (one, two)] == [WHOLE, WHOLE]
    one.spend(MILLISECOND)
    two.spend(3 * MILLISECOND)
    assert store.step_levels(now + 5 * MILLISECOND) == {S2: Motion.BUSY}
    assert one.head()[SHARE_RATE] == two.head()[SHARE_RATE] == one.peer()[9] == WHOLE // 2
    assert one.head()[SHARE_BASE] > two.head()[SHARE_BASE] - 2 * MILLISECOND
    assert one.peer()[7] == two.head()[SHARE_BASE]
    assert two.peer()[7] == one.head()[SHARE_BASE]
    # New words, the same levels; another peer in the entry begins without any.
    before = one.head()[12:29]
    store.publish(one.id, S2, DeviceWords(gate=132, tenant=JobId(1), max_inflight=3, peers=(entry(2),)))
    assert one.head()[12:29] == before
    assert one.peer()[9] == WHOLE // 2
    store.publish(one.id, S2, DeviceWords(gate=132, tenant=JobId(1), peers=(entry(7),)))
    assert (one.peer()[2], one.peer()[9]) == (7, 0)
    levels = {level.tenant: level for level in store.levels()}
    assert {tenant: level.spent for tenant, level in levels.items()} == {
        1: ((1, MILLISECOND),),
        2: ((2, 3 * MILLISECOND),),
    }


def test_nobody_is_beyond_the_table_where_nothing_is_divided_any_more(store: PageStore) -> None:
    """The last one beyond has gone while it was active."""
    low, high = Side(store, 1), Side(store, 2)
    for side in (low, high):
        store.seal(side.id)
        store.publish(side.id, S2, DeviceWords())
    looks = DividedClient(client=low.id, rank=1, looks=True)
    tenants = (
        DividedTenant(tenant=JobId(1), clients=(looks,)),
        DividedTenant(tenant=JobId(2), clients=(DividedClient(client=high.id, rank=0),)),
    )
    high.spend(MILLISECOND)
    now = time.monotonic_ns()
    store.divide(S2, Division(tenants=tenants), (), now)
    assert low.head()[OTHERS_ACTIVE] == 1
    store.drop(high.id)
    store.divide(S2, None, (), now + MILLISECOND)
    assert low.head()[OTHERS_ACTIVE] == 0


def test_edges_are_told_until_something_else_is_said(store: PageStore) -> None:
    one, two = Side(store, 1), Side(store, 2)
    store.publish(one.id, S2, DeviceWords())
    assert one.head()[WATCHED] == 0
    store.tell_edges(S2, False)
    store.publish(two.id, S2, DeviceWords())  # who comes later is told so, too
    assert one.head()[WATCHED] == two.head()[WATCHED] == 1
    store.tell_edges(S2, True)
    store.publish(one.id, S2, DeviceWords(gate=4))
    assert one.head()[WATCHED] == two.head()[WATCHED] == 0


def test_a_client_that_leaves_is_not_looked_at_any_more(store: PageStore) -> None:
    one, two = Side(store, 1), Side(store, 2)
    for side in (one, two):
        store.seal(side.id)
        store.publish(side.id, S2, DeviceWords())
    now = time.monotonic_ns()
    store.divide(S2, division(1, 2), (), now)
    two.spend(0)
    store.drop(two.id)  # its pages are unmapped; the division that goes with it comes later
    assert store.step_levels(now + 5 * MILLISECOND) == {S2: Motion.MOVING}
    store.divide(S2, division(1), (), now + 6 * MILLISECOND)
    assert store.step_levels(now + 9 * MILLISECOND) == {}  # alone, nothing moves
    store.divide(S2, None, (), now)
    assert store.levels() == []


def test_pages_that_are_not_sealed_are_not_read(store: PageStore) -> None:
    one = Side(store, 1)
    two = Side(store, 2)
    store.seal(two.id)
    one.spend(SECOND)
    now = time.monotonic_ns()
    store.divide(S2, division(1, 2), (), now)
    assert store.step_levels(now + MILLISECOND)[S2] is not Motion.BUSY
    store.seal(one.id)
    store.divide(S2, division(1, 2), (), now)
    assert store.step_levels(now + 2 * MILLISECOND)[S2] is Motion.BUSY
    assert abs(one.head()[SHARE_BASE] - SECOND) <= 20 * MILLISECOND  # what it had spent before is not charged


# ---------------------------------------------------------------- with the engine around it

MIX = """gpol 1
policy "preempt-mix" {
  class a { match label("tier") == "online"  share = burst(weight = 3) }
  class b { match any                        share = burst(weight = 1, max = 40%) }
  arbitrate share { period = 20ms  reclaim = 2ms }
}
"""


async def both(node: Node) -> tuple[FakeHook, FakeHook]:
    one, two = await node.attach(online=True), await node.attach(online=False)
    await until(lambda: len(one.peer_words(0)) == len(two.peer_words(0)) == 1, "they are in each other's tables")
    return one, two


async def test_levels_move_while_somebody_is_active_and_rest_afterwards(tmp_path: Path) -> None:
    async with open_node(tmp_path, policy=MIX) as node:
        one, two = await both(node)
        assert one.words(0)["tenant"] != two.words(0)["tenant"] == one.peer_words(0)[0]["tenant"]
        assert (one.words(0)["gate"], two.words(0)["gate"]) == (128 | 4, 128 | 4 | 8)
        assert one.words(0)["max_inflight_ns"] == 2 * MILLISECOND
        engine = node.engine
        await until(lambda: engine.state.levels_due_ns is None, "all levels are where they end")
        ticks = engine.ticks
        two.set_presence(0, turn=1)
        two.set_active(0, True)
        await until(lambda: one.words(0)["share_rate_ppm"] == 750_000, "this is what the other would have")
        assert two.words(0)["share_rate_ppm"] == WHOLE  # it has the device to itself
        two.set_presence(0, spent_ns=800 * MILLISECOND)  # two seconds' worth of its cap
        await until(lambda: two.cap_level(0) < -200 * MILLISECOND, "what it has used is taken from its cap")
        assert engine.ticks > ticks
        level = two.cap_level(0)
        await until(lambda: two.cap_level(0) > level + 4 * MILLISECOND, "it is paid back")
        two.set_presence(0, turn=0)
        two.set_active(0, False)
        await until(lambda: engine.state.levels_due_ns is None, "all levels are where they end")
        assert two.cap_level(0) == 8 * MILLISECOND


async def test_a_restart_keeps_debts(tmp_path: Path) -> None:
    """The next daemon goes on where the last one was, whatever happened in between."""
    async with open_node(tmp_path, policy=MIX, hooks_stay=True) as node:
        one, two = await both(node)
        two.set_active(0, True)
        charged = time.monotonic_ns()
        two.set_presence(0, spent_ns=800 * MILLISECOND)
        await until(lambda: two.cap_level(0) < -400 * MILLISECOND, "it is in debt")
        node.engine.drain()
        for hook in (one, two):
            hook.disconnect()
        node.hooks.clear()
    two.set_presence(0, spent_ns=900 * MILLISECOND)  # nobody is there to see it
    async with open_node(tmp_path, policy=MIX, again=True) as node:
        await node.reattach(two)
        await until(lambda: two.words(0)["cap_rate_ppm"] == 400_000, "it is limited again")
        level = two.cap_level(0)
        paid = (time.monotonic_ns() - charged) * 4 // 10
        assert -900 * MILLISECOND <= level <= 10 * MILLISECOND - 900 * MILLISECOND + paid
        for hook in (one, two):
            hook.close()
