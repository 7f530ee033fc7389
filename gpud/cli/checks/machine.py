"""What gpud asks of Linux, and of the limits that it runs under."""

import ctypes
import os
import platform
import resource
from pathlib import Path

from gpud.cli.checks.finding import FAIL, OK, WARN, Finding, Findings
from gpud.cli.screen import size

DOMAIN_QUERY, MEMBARRIER_PRIVATE_EXPEDITED = 0, 8
MEMBARRIER_NUMBERS = {"x86_64": 324, "aarch64": 283}
LEAST_FILES = 1024
"""Below this a daemon has no room for 256 processes, at three descriptors each."""
LEAST_LOCKED = 8 << 20
"""What Linux gives everybody."""
SMALL_SHM = 64 << 20
"""What docker gives a container that is not given more."""
SHM = Path("/dev/shm")
CGROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")


def kernel() -> Findings:
    """What gpud asks of Linux."""
    lacks = []
    try:
        os.close(os.memfd_create("gpud-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    except OSError as error:
        lacks.append(f"memfd_create ({error.strerror})")
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        lacks.append(f"pidfd_open ({error.strerror})")
    if lacks:
        yield Finding(
            check="kernel",
            result=FAIL,
            text=f"Linux {platform.release()} lacks or forbids {', '.join(lacks)}",
            remedy="use Linux 5.3 or newer; in a container, allow these calls in its seccomp profile",
        )
    elif not _membarrier():
        yield Finding(
            check="kernel",
            result=WARN,
            text="membarrier is refused: each launch takes a full fence (some ns more)",
            remedy="allow membarrier in the container's seccomp profile",
        )
    else:
        yield Finding(check="kernel", result=OK, text=f"Linux {platform.release()}: memfd, pidfd, membarrier")


def _membarrier() -> bool:
    number = MEMBARRIER_NUMBERS.get(platform.machine())
    if number is None:
        return False
    commands = ctypes.CDLL(None, use_errno=True).syscall(number, DOMAIN_QUERY, 0, 0)
    return bool(commands > 0 and commands & MEMBARRIER_PRIVATE_EXPEDITED)


def limits() -> Findings:
    """Open files, sizes of files, locked memory: those that a daemon started here would have."""
    files, sizes, locked = (
        resource.getrlimit(kind)[1] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_MEMLOCK)
    )
    fine = True
    if files != resource.RLIM_INFINITY and files < LEAST_FILES:
        fine = False
        text = f"{files} open files at most: a daemon started here has room for {max(files - 64, 0) // 3} processes"
        remedy = "raise ulimit -Hn (limits.conf, LimitNOFILE= of a unit, docker run --ulimit nofile=65536)"
        yield Finding(check="limits", result=WARN, text=text, remedy=remedy)
    if sizes != resource.RLIM_INFINITY:
        fine = False
        text = f"files may have {size(sizes)} at most (ulimit -f): the daemon's state and memory files may not fit"
        yield Finding(check="limits", result=WARN, text=text, remedy="ulimit -f unlimited")
    if locked != resource.RLIM_INFINITY and locked < LEAST_LOCKED:
        fine = False
        text = f"{size(locked)} of memory may be locked (ulimit -l): programs that lock some (RDMA) may not start"
        yield Finding(check="limits", result=WARN, text=text, remedy="raise ulimit -Hl, or LimitMEMLOCK= of the unit")
    if fine:
        many = "unlimited" if locked == resource.RLIM_INFINITY else size(locked)
        yield Finding(check="limits", result=OK, text=f"{files} open files, locked memory {many}")


def shared_memory() -> Findings:
    """gpud's own pages need none of it; loaders of data and NCCL do, and a container has little."""
    try:
        found = os.statvfs(SHM)
    except OSError as error:
        text = f"{SHM}: {(error.strerror or '').lower()}: loaders of data and NCCL will not work"
        yield Finding(check="shm", result=WARN, text=text, remedy=f"mount -t tmpfs tmpfs {SHM}")
        return
    total = found.f_frsize * found.f_blocks
    if not os.access(SHM, os.W_OK | os.X_OK):
        yield Finding(check="shm", result=WARN, text=f"you may not write {SHM}", remedy=f"chmod 1777 {SHM}")
    elif total <= SMALL_SHM:
        text = f"{SHM} has {size(total)}: loaders of data and NCCL run out of it"
        yield Finding(check="shm", result=WARN, text=text, remedy="docker run --shm-size=8g, or --ipc=host")
    else:
        yield Finding(
            check="shm", result=OK, text=f"{SHM}: {size(total)}, {size(found.f_frsize * found.f_bavail)} free"
        )


def control_groups() -> Findings:
    """Policies may sort by them, and memory that leaves a GPU counts against the daemon's."""
    try:
        lines = OWN_GROUP.read_text().splitlines()
    except OSError as error:
        text = f"{OWN_GROUP}: {(error.strerror or '').lower()}: policies that match on cgroup or pod take nobody"
        yield Finding(check="cgroups", result=WARN, text=text, remedy="mount /proc")
        return
    path = next((line[3:] for line in lines if line.startswith("0::")), None)
    if path is None:
        text = "version 1: policies see the path of one hierarchy, and gpud no limit of memory"
        yield Finding(check="cgroups", result=OK, text=text)
        return
    limit = _limit_of(CGROUPS / path.lstrip("/"))
    if limit is None:
        yield Finding(check="cgroups", result=OK, text="version 2, no limit of memory")
    else:
        text = f"version 2; this group may use {size(limit)}: memory that leaves a GPU counts, if the daemon runs in it"
        remedy = "keep host(max) of swap well below that, or start the daemon in another group"
        yield Finding(check="cgroups", result=WARN if limit < 4 << 30 else OK, text=text, remedy=remedy)


def _limit_of(group: Path) -> int | None:
    """The tightest memory.max of it and those above."""
    found = []
    for one in (group, *group.parents):
        try:
            text = (one / "memory.max").read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            found.append(int(text))
    return min(found, default=None)
