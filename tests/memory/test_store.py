"""Host slots: their size, their seals, their end."""

import errno
import fcntl
import mmap
import os

import pytest

from gpud.memory.store.host import SEALS, NoRoomError, make_slots
from gpud.model.ids import ClientId

MIB = 1 << 20
ONE = ClientId(1)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_file_is_all_there_and_of_one_size_for_ever() -> None:
    fd = make_slots(ONE, 4 * MIB)
    try:
        stat = os.fstat(fd)
        assert stat.st_size == 4 * MIB
        assert stat.st_blocks * 512 >= 4 * MIB, "not at first touch"
        assert fcntl.fcntl(fd, fcntl.F_GET_SEALS) & SEALS == SEALS
        for size in (0, 8 * MIB):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
        with mmap.mmap(fd, 4 * MIB) as mapped:
            mapped[-1] = 7
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("count", [0, -1, 1 << 60])
def test_nonsense_is_refused(count: int) -> None:
    with pytest.raises(NoRoomError, match="were asked for"):
        make_slots(ONE, count)


@pytest.mark.parametrize(
    ("code", "text"),
    [(errno.ENOSPC, "no 1048576 bytes of memory left"), (errno.ENOMEM, "no 1048576"), (errno.EIO, "cannot be made")],
)
def test_what_cannot_be_allocated_costs_nothing(code: int, text: str) -> None:
    def fails(fd: int, offset: int, count: int) -> None:
        raise OSError(code, os.strerror(code))

    before = open_files()
    with pytest.raises(NoRoomError, match=text):
        make_slots(ONE, MIB, allocate=fails)
    assert open_files() == before


def test_a_real_lack_of_descriptors_is_told() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, before[1]))
    try:
        with pytest.raises(NoRoomError, match="too many files open"):
            make_slots(ONE, MIB)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_thousand_files_leave_nothing() -> None:
    before = open_files()
    for number in range(1000):
        os.close(make_slots(ClientId(number), 4 * MIB))
    assert open_files() == before
