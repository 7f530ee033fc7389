"""Who is at the other end of the control socket: the kernel's word."""

import grp
import os
import pwd
import socket
import struct

from gpud.control.authority import Peer

SO_PEERGROUPS = 59
_CREDENTIALS = struct.Struct("3i")
_MOST_BYTES = 1024
"""That Python asks a socket for: 256 groups."""


def uid_of(connection: socket.socket) -> int:
    """Its user. Asks the kernel only, so it never waits."""
    return _credentials(connection)[1]


def peer_of(connection: socket.socket) -> Peer:
    """Asks the user database, which may hang: call it in a thread. Raises OSError."""
    pid, uid, gid = _credentials(connection)
    numbers = dict.fromkeys((gid, *_groups(connection, uid, gid)))
    return Peer(pid=pid, uid=uid, gid=gid, groups=tuple(map(_group_name, numbers)), user=_user_name(uid))


def privileged(uid: int) -> bool:
    """Root, or the daemon's own user."""
    return uid in (0, os.geteuid())


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    pid, uid, gid = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid & 0xFFFFFFFF, gid & 0xFFFFFFFF


def _groups(connection: socket.socket, uid: int, gid: int) -> tuple[int, ...]:
    """Its supplementary groups. Where there are too many to ask for, or the kernel (before 4.13) does not tell, those
    that the user database has of its user."""
    try:
        content = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, _MOST_BYTES)
    except OSError:
        try:
            return tuple(os.getgrouplist(pwd.getpwuid(uid).pw_name, gid))
        except KeyError:
            return ()
    return struct.unpack(f"{len(content) // 4}I", content)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
