import fcntl
import mmap
import os
import resource
import threading
from collections.abc import Iterator

import pytest
from gpud.hooks._pages import ffi, lib

from gpud.hooks import layout, memfd, pages
from gpud.hooks.pages import PageStore
from gpud.model.errors import ProtocolError, SetupError
from gpud.model.ids import ClientId, Generation, JobId, Slot
from gpud.model.knobs import PEER_SHARE, DeviceWords, PeerWords

ONE = ClientId(1)
GENERATION = Generation(42)
GENERATION_FIELD = 29
"""Of CONTROL_DEVICE_HEAD: what counts changes."""


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def mappings() -> int:
    with open("/proc/self/maps") as file:
        return sum("gpud-page" in line for line in file)


@pytest.fixture
def store() -> Iterator[PageStore]:
    before = descriptors(), mappings()
    store = PageStore(lease_ns=3_000_000_000, failsafe_after_ns=30_000_000_000)
    yield store
    store.close()
    assert (descriptors(), mappings()) == before, "descriptors or mappings are left"


class ClientSide:
    """What a client does with the descriptors of its WELCOME."""

    def __init__(self, store: PageStore, client: ClientId = ONE) -> None:
        pages = store.handed_out(client)
        self.control = mmap.mmap(pages.control, layout.CONTROL_BYTES, prot=mmap.PROT_READ)
        self.presence = mmap.mmap(pages.presence, layout.PRESENCE_BYTES)
        self.activity = mmap.mmap(pages.activity, layout.ACTIVITY_BYTES)
        self.fds = tuple(map(os.dup, (pages.control, pages.presence, pages.activity)))

    def close(self) -> None:
        for page in (self.control, self.presence, self.activity):
            page.close()
        for fd in self.fds:
            os.close(fd)


def cannot_write(fd: int, size: int) -> None:
    """By none of the ways there are."""
    with pytest.raises(OSError, match=r"not permitted|Permission"):
        mmap.mmap(fd, size)
    with pytest.raises(OSError, match=r"not permitted"):
        os.pwrite(fd, b"x", 0)
    with pytest.raises(OSError, match=r"not permitted"):
        os.ftruncate(fd, size // 2)
    with pytest.raises(OSError, match=r"not permitted"):
        os.ftruncate(fd, size * 2)
    with pytest.raises(OSError, match=r"not permitted"):
        os.posix_fallocate(fd, size, 4096)
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)  # a read-only descriptor could be reopened; a seal cannot be
    try:
        with pytest.raises(OSError, match=r"not permitted|Permission"):
            mmap.mmap(again, size)
        with pytest.raises(OSError, match=r"not permitted"):
            os.pwrite(again, b"x", 0)
    finally:
        os.close(again)
    with pytest.raises(OSError, match=r"not permitted"):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    read_only = mmap.mmap(fd, size, prot=mmap.PROT_READ)
    read_only.close()


def test_the_control_page_is_closed_before_anybody_has_it(store: PageStore) -> None:
    store.create(ONE, GENERATION)
    cannot_write(store.handed_out(ONE).control, layout.CONTROL_BYTES)


def test_presence_and_activity_close_once_the_client_has_mapped_them(store: PageStore) -> None:
    store.create(ONE, GENERATION)
    client = ClientSide(store)
    store.seal(ONE)
    cannot_write(client.fds[1], layout.PRESENCE_BYTES)
    cannot_write(client.fds[2], layout.ACTIVITY_BYTES)
    peer = store.presence_fd(ONE)
    assert peer is not None
    cannot_write(peer, layout.PRESENCE_BYTES)
    # The client's own mapping still writes, and the daemon sees it.
    client.presence[layout.presence_device_at(client.presence, 0)] = 1
    store.publish(ONE, Slot(0), DeviceWords())
    assert store.counters()[ONE, Slot(0)].active
    client.close()


def test_a_page_that_the_client_has_sealed_itself_is_found_out(store: PageStore) -> None:
    store.create(ONE, GENERATION)
    fcntl.fcntl(store.handed_out(ONE).activity, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
    with pytest.raises(OSError, match=r"not permitted"):
        store.seal(ONE)
    assert store.presence_fd(ONE) is None


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"validation", "validation"),
        ("Größe 3".encode(), "Größe 3"),
        (b"x" * layout.REASON_BYTES, "x" * layout.REASON_BYTES),
        (b"a\nb\x1b[2J", "a\\nb\\x1b[2J"),
        ("\u202egnp.exe".encode(), "\\u202egnp.exe"),
        (b"\xff\xfe!", "\ufffd\ufffd!"),
        (b"a\0hidden", "a\\x00hidden"),
        (b"  ", None),
        (b"", None),
    ],
)
def test_a_reason_may_stand_in_a_line_whatever_the_program_says(
    store: PageStore, raw: bytes, shown: str | None
) -> None:
    store.create(ONE, GENERATION)
    client = ClientSide(store)
    store.seal(ONE)
    assert store.reasons() == {}
    layout.ACTIVITY_HEAD.pack_into(client.activity, layout.HEADER.size, 0, 0, 0, 0b101, raw)
    found = {} if shown is None else {(ONE, Slot(0)): shown, (ONE, Slot(2)): shown}
    assert store.reasons() == found
    layout.ACTIVITY_HEAD.pack_into(client.activity, layout.HEADER.size, 0, 0, 0, 0, raw)
    assert store.reasons() == {}, "it has no turn"
    client.close()


def test_nobody_is_shown_a_page_before_it_is_sealed(store: PageStore) -> None:
    store.create(ONE, GENERATION)
    assert store.presence_fd(ONE) is None
    assert store.counters() == {}


def test_headers(store: PageStore) -> None:
    store.create(ONE, GENERATION)
    pages = store.handed_out(ONE)
    for fd, kind in ((pages.control, 1), (pages.presence, 2), (pages.activity, 3)):
        magic, version, found, size, client, generation, epoch, _ = layout.HEADER.unpack(os.pread(fd, 64, 0))
        assert (magic, version, found, size, client, generation) == (
            layout.PAGE_MAGIC,
            layout.PAGE_VERSION,
            kind,
            layout.BYTES[kind],
            1,
            42,
        )
        assert epoch > 0
        assert os.fstat(fd).st_size == size
        assert os.fstat(fd).st_blocks * 512 >= size  # all of it is there: no hole to fall into later
        assert not os.get_inheritable(fd)


def test_what_is_published(store: PageStore) -> None:
    store.create(ONE, GENERATION)
    client = ClientSide(store)
    peers = (
        PeerWords(client=ClientId(2), rank=0, generation=Generation(7), present=0),
        PeerWords(
            client=ClientId(3),
            rank=0,
            generation=Generation(9),
            present=4,
            tenant=JobId(8),
            flags=PEER_SHARE,
        ),
    )
    words = DeviceWords(
        gate=6,
        rank=1,
        peers=peers,
        tenant=JobId(5),
        max_inflight=1,
        max_inflight_ns=3_000_000,
        pass_launches=2,
        pass_ns=4_000_000,
        burst_ns=7,
        resume_after_ns=1_000_000,
        max_pause_ns=2**64 - 1,
    )
    store.publish(ONE, Slot(3), words)
    head = layout.CONTROL_DEVICE_HEAD.unpack_from(client.control, layout.control_device_offset(3))
    assert head[:10] == (6, 1, 1, 0, 2, 0, 1, 2, 1_000_000, 2**64 - 1)
    assert head[GENERATION_FIELD] == 1
    assert (head[10], head[23], head[27], head[32]) == (3_000_000, 4_000_000, 7, 5)
    # Until a step of the levels says otherwise, nothing is limited and nobody is beyond the table.
    assert (head[13], head[14] > 0, head[24:27], head[28]) == (1_000_000, True, 3 * (2**64 - 1,), -(2**63))
    first = layout.control_device_offset(3) + layout.CONTROL_DEVICE_HEAD.size
    assert layout.PEER.unpack_from(client.control, first + 64)[:6] == (0, 0, 9, 4, 2, 8)
    store.publish(ONE, Slot(3), DeviceWords())
    head = layout.CONTROL_DEVICE_HEAD.unpack_from(client.control, layout.control_device_offset(3))
    assert (head[0], head[1], head[4], head[GENERATION_FIELD]) == (0, 2, 0, 2)
    assert layout.PEER.unpack_from(client.control, first)[2] == 0  # generation 0: unused
    store.refresh_lease(12345)
    assert layout.CONTROL_HEAD.unpack_from(client.control, 64)[:3] == (12345, 30_000_000_000, 0)
    store.detach(ONE)
    assert layout.CONTROL_HEAD.unpack_from(client.control, 64)[3] == 1
    client.close()


def test_publishing_wakes_who_sleeps_on_the_page(store: PageStore) -> None:
    import ctypes

    store.create(ONE, GENERATION)
    client = ClientSide(store)
    # A futex wants an address: map the page once more in a way that gives one.
    page = lib.gpud_map(client.fds[0], layout.CONTROL_BYTES, False)
    word = int(ffi.cast("uintptr_t", page)) + layout.control_device_offset(0) + 4
    libc = ctypes.CDLL(None, use_errno=True)
    futex = {"x86_64": 202, "aarch64": 98}[os.uname().machine]
    woken, stop = threading.Event(), threading.Event()

    def sleep() -> None:
        timeout = (ctypes.c_long * 2)(10, 0)
        while not stop.is_set():
            now = ctypes.c_uint32.from_address(word).value
            # 0 only if somebody wakes it: a word that has changed already answers EAGAIN.
            if libc.syscall(futex, ctypes.c_void_p(word), 0, now, timeout, None, 0) == 0:
                woken.set()
                return

    thread = threading.Thread(target=sleep)
    thread.start()
    for _ in range(1000):
        store.publish(ONE, Slot(0), DeviceWords())
        if woken.wait(0.01):
            break
    stop.set()
    thread.join(15)
    assert woken.is_set()
    lib.gpud_unmap(page, layout.CONTROL_BYTES)
    client.close()


def test_sums(store: PageStore) -> None:
    clients = [ClientId(n) for n in (1, 2, 3)]
    sides = []
    for client in clients:
        store.create(client, Generation(client))
        sides.append(ClientSide(store, client))
        store.seal(client)
        store.publish(client, Slot(2), DeviceWords())
    for thread in range(layout.MAX_SLOTS):
        held = (1, 5, 4, 1000 - thread) if thread >= 60 else (0, 0, 0, 0)
        fields = (10, 9, 7, 2, 100, thread + 1, *held)
        layout.SLOT.pack_into(sides[1].activity, layout.slot_offset(2, thread), *fields)
    at = layout.presence_device_at(sides[1].presence, 2)
    layout.PRESENCE_DEVICE.pack_into(sides[1].presence, at, 1, 3, 77, 5, 51, 4, 1, 52, 58, 2, 3)
    head = (4096, 2, 1, 8, 53, 66, 54, 55, 56, 57, 1, 59, 60, 61, 63, 64, 65, 67, 68, 7, 0, 0, 0, 50, 0, 0, 5)
    layout.ACTIVITY_DEVICE_HEAD.pack_into(sides[1].activity, layout.activity_device_offset(2), *head)
    layout.SLOT.pack_into(sides[1].activity, layout.slot_offset(5, 0), 999, 0, 0, 0, 0, 1, 0, 0, 0, 0)  # not in use
    sums = store.counters()
    assert set(sums) == {(client, 2) for client in clients}
    row = sums[clients[1], Slot(2)]
    assert (row.entered, row.left, row.held, row.held_ns) == (640, 576, 128, 6400)
    assert (row.active, row.idle_since_ns, row.inflight) == (True, 77, 5)
    assert (row.used_bytes, row.allocations, row.launches_failed, row.passed, row.last_finish_ns) == (4096, 2, 1, 8, 66)
    assert (row.spent_ns, row.waiting, row.turn, row.full_ns, row.edges) == (51, 4, 1, 52, 3)
    assert (row.blocks, row.copy_bytes, row.samples, row.clean, row.calls) == (448, 53, 54, 55, 56)
    assert (row.factor_ppm, row.estimated, row.lock, row.holds) == (57, 1, 2, 3)
    assert (row.reserved_bytes, row.resident_bytes, row.host_bytes, row.lazy_bytes) == (58, 59, 60, 61)
    assert (row.pinned_bytes, row.pins, row.swap_done_bytes, row.swap_total_bytes) == (62, 0b10010001, 63, 64)
    assert (row.lost_bytes, row.slots_bytes, row.unpinned_bytes) == (65, 67, 68)
    # Of the four threads held, the one that waits longest speaks.
    assert (row.holding, row.hold_reason, row.hold_peer, row.hold_since_ns) == (4, 5, 4, 937)
    assert sums[clients[0], Slot(2)].entered == 0
    for side in sides:
        side.close()


def test_sums_follow_who_is_there_and_on_which_devices(store: PageStore) -> None:
    sides = {}

    def come(number: int) -> None:
        store.create(ClientId(number), Generation(number))
        sides[number] = ClientSide(store, ClientId(number))
        store.seal(ClientId(number))
        for slot in (0, 7):
            fields = (number * 10 + slot, 0, 0, 0, 0, 1, 0, 0, 0, 0)
            layout.SLOT.pack_into(sides[number].activity, layout.slot_offset(slot, 3), *fields)

    def entered() -> dict[tuple[int, int], int]:
        return {(client, slot): row.entered for (client, slot), row in store.counters().items()}

    assert entered() == {}
    come(1)
    assert entered() == {}
    store.publish(ClientId(1), Slot(7), DeviceWords())
    assert entered() == {(1, 7): 17}
    come(2)
    store.publish(ClientId(2), Slot(0), DeviceWords())
    assert entered() == {(1, 7): 17, (2, 0): 20}
    store.publish(ClientId(1), Slot(0), DeviceWords())
    layout.SLOT.pack_into(sides[2].activity, layout.slot_offset(0, 9), 5, 0, 0, 0, 0, 1, 0, 0, 0, 0)
    assert entered() == {(1, 0): 10, (1, 7): 17, (2, 0): 25}
    store.drop(ClientId(1))
    assert entered() == {(2, 0): 25}
    store.drop(ClientId(2))
    assert entered() == {}
    for side in sides.values():
        side.close()


def test_who_writes_only_one_page_that_can_be_mapped_is_not_looked_at(
    store: PageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create(ONE, GENERATION)
    store.publish(ONE, Slot(0), DeviceWords())
    before, original = mappings(), pages._map

    def fails(fd: int, kind: int, *, writable: bool) -> object:
        if kind == layout.ACTIVITY:
            raise OSError("no memory")
        return original(fd, kind, writable=writable)

    monkeypatch.setattr(pages, "_map", fails)
    with pytest.raises(OSError, match="no memory"):
        store.seal(ONE)
    assert store.counters() == {}
    assert mappings() == before


def test_histograms(store: PageStore) -> None:
    store.create(ONE, GENERATION)
    client = ClientSide(store)
    store.seal(ONE)
    for slot in (0, 1):
        store.publish(ONE, Slot(slot), DeviceWords())
        offset = layout.activity_device_offset(slot) + layout.ACTIVITY_DEVICE_HEAD.size
        client.activity[offset + 8] = slot + 1
    layout.ACTIVITY_HEAD.pack_into(client.activity, 64, 3, 2, 0, 0, b"")
    counters = store.hook_counters(ONE)
    assert (counters.errors, counters.attaches, counters.histogram[:3]) == (3, 2, (0, 3, 0))
    assert store.hook_counters(ClientId(9)).histogram == ()
    wanted = [(ONE, Slot(0)), (ONE, Slot(1)), (ClientId(9), Slot(0))]
    found = store.histograms(wanted)
    assert {key: row[:3] for key, row in found.items()} == {wanted[0]: (0, 1, 0), wanted[1]: (0, 2, 0)}
    assert all(len(row) == layout.HISTOGRAM_BUCKETS for row in found.values())
    client.close()


def test_histograms_of_a_page_that_is_not_sealed_are_not_read(store: PageStore) -> None:
    store.create(ONE, GENERATION)
    assert store.histograms([(ONE, Slot(0))]) == {}


def test_failsafe(store: PageStore) -> None:
    """Times and words as the hook reads them; a client that is not there costs nothing."""
    store.create(ONE, GENERATION)
    client = ClientSide(store)

    def words() -> tuple[int, int]:
        _, after, failsafe, _ = layout.CONTROL_HEAD.unpack_from(client.control, layout.HEADER.size)
        return after, failsafe

    assert words() == (30_000_000_000, 0)
    store.publish_failsafe(ONE, 5)
    assert words() == (5, 0)
    store.publish_failsafe(ONE, None)
    assert words()[1] == 1
    store.publish_failsafe(ONE, 0)
    assert words() == (0, 0)
    store.publish_failsafe(ClientId(9), None)
    client.close()


def test_adoption_keeps_the_pages_and_makes_a_new_control_page(store: PageStore) -> None:
    store.create(ONE, GENERATION)
    client = ClientSide(store)
    store.seal(ONE)
    client.presence[layout.presence_device_at(client.presence, 0)] = 1
    store.drop(ONE)  # the daemon is gone
    store.adopt(ONE, GENERATION, os.dup(client.fds[1]), os.dup(client.fds[2]))
    store.publish(ONE, Slot(0), DeviceWords())
    assert store.counters()[ONE, Slot(0)].active
    control = store.handed_out(ONE).control
    assert os.fstat(control).st_ino != os.fstat(client.fds[0]).st_ino
    cannot_write(control, layout.CONTROL_BYTES)
    store.seal(ONE)
    client.close()


def test_pages_that_are_not_what_they_seem(store: PageStore) -> None:
    store.create(ONE, GENERATION)
    client = ClientSide(store)
    presence, activity = client.fds[1], client.fds[2]

    def refused(first: int, second: int, says: str) -> None:
        before = descriptors()
        with pytest.raises(ProtocolError, match=says):
            store.adopt(ClientId(2), GENERATION, os.dup(first), os.dup(second))
        assert descriptors() == before
        assert ClientId(2) not in store

    refused(presence, activity, "seals 0x6, not 0x16")
    store.seal(ONE)
    refused(activity, presence, "bytes, not 4096")
    pipe = os.pipe()
    refused(pipe[0], pipe[1], "not a memory file")
    with open("/dev/zero") as zero, open("/proc/self/maps") as maps:
        refused(zero.fileno(), maps.fileno(), "not a memory file")
    small = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(small, fcntl.F_ADD_SEALS, memfd.CLOSED)
    refused(small, activity, "0 bytes, not 4096")
    forged = memfd.make_page(layout.PRESENCE, 1, GENERATION + 1, 0)
    memfd.close_page(forged)
    refused(forged, activity, "generation 43, the client said 42")
    other = memfd.make_page(layout.PRESENCE, 1, GENERATION, 0)
    os.pwrite(other, b"\0\0\0\0\x09", 0)
    memfd.close_page(other)
    refused(other, activity, "magic 0x0")
    strange = []
    for version in (9, layout.PAGE_VERSION - 1):
        strange.append(memfd.make_page(layout.PRESENCE, 1, GENERATION, 0))
        os.pwrite(strange[-1], bytes([version]), 4)
        memfd.close_page(strange[-1])
        told = f"version {version}, this daemon reads {layout.PAGE_VERSION} only; install the same gpud for both"
        refused(strange[-1], activity, told)
    for fd in (*pipe, small, forged, other, *strange):
        os.close(fd)
    client.close()


def test_out_of_descriptors(store: PageStore) -> None:
    """At every point where one can be missing, nothing is left half made."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = descriptors()
    highest = max(map(int, os.listdir("/proc/self/fd")))
    failed = 0
    try:
        for room in range(3):
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + room, hard))
            fill = []
            try:
                while True:
                    fill.append(os.dup(0))
            except OSError:
                for fd in fill[:room]:
                    os.close(fd)
                fill = fill[room:]
            try:
                store.create(ONE, GENERATION)
            except OSError:
                failed += 1
            finally:
                for fd in fill:
                    os.close(fd)
            assert ONE not in store
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert failed == 3
    assert descriptors() == used


def test_a_limit_on_file_sizes_does_not_kill() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(SetupError, match=r"cannot make shared pages.*ulimit -f"):
            memfd.check_machine()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    memfd.check_machine()


def test_an_old_kernel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memfd, "F_SEAL_FUTURE_WRITE", 1 << 30)
    with pytest.raises(SetupError, match=r"Linux 5.1"):
        memfd.check_machine()


def test_the_same_client_twice(store: PageStore) -> None:
    store.create(ONE, GENERATION)
    with pytest.raises(OSError, match=r"pages already"):
        store.create(ONE, GENERATION)
    assert store.handed_out(ONE).control >= 0
