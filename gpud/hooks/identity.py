"""Who is at the other end of a socket: the kernel's word, never the client's.

SO_PEERPIDFD (Linux ≥ 6.5) names the very process that connected. Without it: SO_PEERCRED, a pidfd opened by number,
and the PING that is answered afterwards, so the number was not handed to somebody else in between.
"""

import grp
import os
import pwd
import socket
import struct

from attrs import frozen

from gpud.model.errors import ProtocolError
from gpud.model.events import Who
from gpud.model.text import one_line

SO_PEERPIDFD = 77
_DEEPEST = 64
"""Ancestors looked at."""


class IdentityError(ProtocolError):
    """It cannot be known who that is, or may not talk to us."""


@frozen(kw_only=True)
class Peer:
    """A process that connected. The owner closes `pidfd`."""

    pidfd: int
    who: Who


def peer_of(connection: socket.socket, *, everybody: bool = False) -> Peer:
    """`everybody`: the daemon serves all users, not only its own. Raises IdentityError with the remedy. May block on a
    hung /proc or user database: call it in a thread."""
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if pid == 0:
        raise IdentityError(
            "the daemon cannot see this process: it runs in a PID namespace of its own; start the daemon with the "
            "host's PID namespace (docker run --pid=host, hostPID: true), or one inside this namespace"
        )
    if not everybody and uid not in (os.geteuid(), 0):
        raise IdentityError(f"this daemon serves user {os.geteuid()}, not user {uid}; start one of your own")
    pidfd = _pidfd_of(connection, pid)
    try:
        started = start_time(pid)
        if started is None or _pid_behind(pidfd) != pid:
            raise IdentityError(f"process {pid} ended while it attached")
        group, all_groups = groups(pid)
        who = Who(
            pid=pid,
            started=started,
            uid=uid,
            user=user_name(uid),
            command=command(pid),
            ancestors=ancestors(pid),
            exe=exe(pid),
            cgroup=cgroup(pid),
            group=group,
            groups=all_groups,
        )
    except BaseException:
        os.close(pidfd)
        raise
    return Peer(pidfd=pidfd, who=who)


def uid_of(connection: socket.socket) -> int:
    """The user at the other end. Asks the kernel only, so it never waits."""
    return int(struct.unpack("3I", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to the start of the process; None when there is none."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def parent_and_start(pid: int) -> tuple[int, int] | None:
    """(parent, clock ticks from boot to the start) of a process that has not ended; None when there is none."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in ("Z", "X") else (int(fields[1]), int(fields[19]))


def real_and_saved_users(pid: int) -> tuple[int, ...]:
    """Whose signals a process takes; empty when it is gone."""
    try:
        with open(_proc(pid, "status"), "rb") as file:
            numbers = next(line for line in file if line.startswith(b"Uid:")).split()[1:]
    except (OSError, StopIteration):
        return ()
    return int(numbers[0]), int(numbers[2])


def lives(pid: int, started: int) -> bool:
    """Is there exactly that process, and has it not ended? (A zombie has nothing any more.)"""
    fields = _stat(pid)
    return fields is not None and int(fields[19]) == started and fields[0] not in ("Z", "X")


def ancestors(pid: int) -> tuple[tuple[int, int], ...]:
    """(pid, start time) of parent, grandparent, …, as far as this PID namespace goes."""
    chain: list[tuple[int, int]] = []
    fields = _stat(pid)
    while fields is not None and len(chain) < _DEEPEST:
        parent = int(fields[1])
        fields = _stat(parent) if parent > 0 else None
        if fields is not None:
            chain.append((parent, int(fields[19])))
    return tuple(chain)


def open_process(pid: int, started: int) -> int | None:
    """A pidfd of exactly that process, or None when it is gone."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    if start_time(pid) == started and _pid_behind(pidfd) == pid:
        return pidfd
    os.close(pidfd)
    return None


def boot_id() -> str:
    """Differs after every boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def _pidfd_of(connection: socket.socket, pid: int) -> int:
    try:
        pidfd = connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
        os.set_inheritable(pidfd, False)
        return pidfd
    except OSError:
        pass  # an older kernel, or the process has ended
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        raise IdentityError(f"process {pid} cannot be watched: {error.strerror}") from error


def _pid_behind(pidfd: int) -> int:
    """-1 once the process has ended and been waited for."""
    try:
        with open(f"/proc/self/fdinfo/{pidfd}") as file:
            for line in file:
                if line.startswith("Pid:"):
                    return int(line[4:])
    except OSError:
        pass
    return -1


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat after the name: [0] state, [1] parent, [19] start time. None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read().decode(errors="replace")
    except OSError:
        return None
    return line.rpartition(")")[2].split()


def command(pid: int) -> str:
    """Its command line, in one line whatever its arguments have in them; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    return one_line(b" ".join(words).decode(errors="replace"))


def _proc(pid: int, name: str) -> str:
    return f"/proc/{pid}/{name}"


def exe(pid: int) -> str:
    """Path of its program; empty where the kernel does not say: it is gone, or has more rights than we."""
    try:
        path = os.fsencode(os.readlink(_proc(pid, "exe"))).decode(errors="replace")
    except OSError:
        return ""
    return path.removesuffix(" (deleted)")  # replaced while it runs: it is still that program


def cgroup(pid: int) -> str:
    """Path in the unified hierarchy, else in the first one that has a path of its own."""
    try:
        with open(_proc(pid, "cgroup"), "rb") as file:
            rows = [line.split(":", 2) for line in file.read(65536).decode(errors="replace").splitlines()]
    except OSError:
        return ""
    paths = {row[0]: row[2] for row in rows if len(row) == 3}
    return paths.get("0") or next((path for path in paths.values() if path != "/"), "")


def groups(pid: int) -> tuple[str, tuple[str, ...]]:
    """Name of the primary group, and of all, as the process has them now."""
    try:
        with open(_proc(pid, "status"), "rb") as file:
            fields = dict(line.split(b":", 1) for line in file.read(65536).splitlines() if b":" in line)
    except OSError:
        return "", ()
    primary = [_group_name(int(number)) for number in fields.get(b"Gid", b"").split()[1:2]]
    others = [_group_name(int(number)) for number in fields.get(b"Groups", b"").split()]
    names = tuple(dict.fromkeys([*primary, *others]))
    return (primary[0] if primary else ""), names


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def user_name(uid: int) -> str:
    """Of the user database; the number where it does not know it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
