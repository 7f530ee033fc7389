import grp
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpud.hooks import identity
from gpud.hooks.identity import IdentityError, ancestors, open_process, peer_of, start_time


class Pretends:
    """A connection whose credentials are as given."""

    def __init__(self, pid: int, uid: int, pidfd: bool = False) -> None:
        self.raw = pid.to_bytes(4, sys.byteorder) + uid.to_bytes(4, sys.byteorder) + bytes(4)
        self.pid, self.pidfd = pid, pidfd

    def getsockopt(self, level: int, option: int, size: int = 0) -> bytes | int:
        if option == socket.SO_PEERCRED:
            return self.raw
        if self.pidfd:
            return os.pidfd_open(self.pid)
        raise OSError(92, "Protocol not available")


def pretends(pid: int, uid: int, pidfd: bool = False) -> socket.socket:
    return Pretends(pid, uid, pidfd)  # type: ignore[return-value]


def test_who_is_at_the_other_end() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        peer = peer_of(ours)
    os.close(peer.pidfd)
    assert peer.who.pid == os.getpid()
    assert peer.who.started == start_time(os.getpid())
    assert peer.who.ancestors[0] == (os.getppid(), start_time(os.getppid()))
    assert Path(sys.executable).name in peer.who.command
    assert peer.who.uid == os.getuid()
    assert peer.who.exe == os.path.realpath(sys.executable)
    assert peer.who.group == grp.getgrgid(os.getegid()).gr_name
    assert {grp.getgrgid(gid).gr_name for gid in os.getgroups()} <= set(peer.who.groups)


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ("0::/user.slice/x.scope\n", "/user.slice/x.scope"),
        ("5:cpu:/\n4:memory:/docker/3f2a\n0::/unified\n", "/unified"),
        ("5:cpu:/\n4:memory:/docker/3f2a\n", "/docker/3f2a"),
        ("5:cpu:/\n4:memory:/\n", ""),
        ("0::/\n", "/"),
        ("", ""),
        ("nonsense\n0::/a:b\n", "/a:b"),
    ],
)
def test_the_cgroup_of_either_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str, path: str) -> None:
    (tmp_path / "cgroup").write_text(content)
    monkeypatch.setattr(identity, "_proc", lambda pid, name: str(tmp_path / name))
    assert identity.cgroup(1) == path


def test_a_process_that_has_gone_has_neither_program_nor_groups() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert (identity.exe(gone.pid), identity.cgroup(gone.pid), identity.groups(gone.pid)) == ("", "", ("", ()))


def test_a_kernel_without_pidfds_of_sockets() -> None:
    peer = peer_of(pretends(os.getpid(), os.geteuid()))
    os.close(peer.pidfd)
    assert peer.who.pid == os.getpid()


def test_pid_0_is_refused_with_the_remedy() -> None:
    with pytest.raises(IdentityError, match=r"PID namespace of its own.*--pid=host"):
        peer_of(pretends(0, os.geteuid()))


@pytest.mark.skipif(os.geteuid() == 0 and os.getuid() != 0, reason="needs one user")
def test_other_users_are_refused() -> None:
    with pytest.raises(IdentityError, match=r"serves user \d+, not user 54321"):
        peer_of(pretends(os.getpid(), 54321))


def test_the_dead_are_refused_and_nothing_is_left() -> None:
    before = len(os.listdir("/proc/self/fd"))
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    with pytest.raises(IdentityError, match=r"cannot be watched|ended while"):
        peer_of(pretends(child.pid, os.geteuid()))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_that_dies_between_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(identity, "start_time", lambda _: None)
    with pytest.raises(IdentityError, match=r"ended while it attached"):
        peer_of(pretends(os.getpid(), os.geteuid(), pidfd=True))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_name_with_parentheses(tmp_path: Path) -> None:
    """/proc/PID/stat holds the name as it is, brackets and spaces too."""
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([program, "100"])
    try:
        assert ancestors(child.pid)[0] == (os.getpid(), start_time(os.getpid()))
        started = start_time(child.pid)
        assert started is not None
        pidfd = open_process(child.pid, started)
        assert pidfd is not None
        os.close(pidfd)
        assert open_process(child.pid, started + 1) is None
    finally:
        child.kill()
        child.wait()
    assert open_process(child.pid, started) is None
    assert start_time(child.pid) is None


def test_ancestors_end_at_the_top() -> None:
    chain = ancestors(os.getpid())
    assert chain
    assert len({pid for pid, _ in chain}) == len(chain)
    assert ancestors(2**22 + 5) == ()
