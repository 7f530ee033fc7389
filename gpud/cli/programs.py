"""What a program file is, looked at before it is started: can the hook be loaded into it?

The loader ignores LD_PRELOAD for set-user-ID programs and does not exist in static ones; a hook of another machine's
format it skips with a line on stderr. Each of these would leave the program on the GPU unmanaged: each is found here.
Standard library only: `gpud run` imports this.
"""

import errno
import os
import stat
from collections.abc import Mapping

from gpud.cli.elf import Elf, machine_name, read_elf
from gpud.cli.failure import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Failure

MAX_INTERPRETERS = 4
"""How many `#!` lines are followed; Linux follows as many."""

GO_ON = "to run it all the same, without gpud: gpud run --unmanaged …"


def find_program(command: str, environment: Mapping[str, str]) -> str:
    """The path that exec would use; raises `Failure` with 127 (not found) or 126 (not executable)."""
    if "/" in command:
        return _executable(command)
    found_but: Failure | None = None
    for directory in environment.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(directory or ".", command)
        try:
            return _executable(path)
        except Failure as failure:
            if failure.exit_code == EXIT_NOT_EXECUTABLE and not os.path.isdir(path):
                found_but = found_but or failure
    raise found_but or Failure(
        f"{command}: no such program on PATH", "check the name, or give its path", code=EXIT_NOT_FOUND
    )


def _executable(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        raise Failure(
            f"{path}: {(error.strerror or 'cannot be read').lower()}",
            "check the path",
            code=EXIT_NOT_FOUND if missing else EXIT_NOT_EXECUTABLE,
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise Failure(f"{path}: not a program but a directory or device", "check the path", code=EXIT_NOT_EXECUTABLE)
    if not os.access(path, os.X_OK):
        raise Failure(f"{path}: not executable", f"make it so: chmod +x {path}", code=EXIT_NOT_EXECUTABLE)
    return path


def why_unmanaged(path: str, hook: Elf, environment: Mapping[str, str]) -> str:
    """A sentence why the hook would not be loaded into the program at `path`; "" when it will be.

    Follows `#!` lines, and `env` in them. Raises `Failure` when an interpreter is missing.
    """
    via = ""
    for _ in range(MAX_INTERPRETERS + 1):
        reason = _privileges(path)
        if reason:
            return f"{path}{via} {reason}"
        try:
            with open(path, "rb") as file:
                start = file.read(4096)
        except OSError:
            return ""  # executable but not readable: its kind cannot be known, and exec can still start it
        if not start.startswith(b"#!"):
            return _image(path, via, start, hook)
        words = os.fsdecode(start[2:].split(b"\n", 1)[0]).split()
        if not words:
            return ""
        interpreter = words[0]
        if os.path.basename(interpreter) == "env" and len(words) > 1:
            named = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
            interpreter = find_program(named, environment) if named else interpreter
        try:
            interpreter = _executable(interpreter)
        except Failure as failure:
            raise Failure(
                f"{path}: its interpreter cannot be run: {failure.what}",
                "correct its first line",
                code=EXIT_NOT_EXECUTABLE,
            ) from None
        via = via or f" (runs {path})"
        path = interpreter
    return ""


def _privileges(path: str) -> str:
    """Why the loader would ignore LD_PRELOAD for `path` (secure-execution mode), or ""."""
    found = os.stat(path)
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        return ""
    if found.st_mode & stat.S_ISUID and found.st_uid != os.getuid():
        return "is set-user-ID, so the loader ignores LD_PRELOAD and the program would run without gpud"
    if found.st_mode & stat.S_ISGID and found.st_mode & stat.S_IXGRP and found.st_gid != os.getgid():
        return "is set-group-ID, so the loader ignores LD_PRELOAD and the program would run without gpud"
    if os.getuid() != 0:
        try:
            os.getxattr(path, "security.capability")
        except OSError:
            return ""
        return "has file capabilities, so the loader ignores LD_PRELOAD and the program would run without gpud"
    return ""


def _image(path: str, via: str, start: bytes, hook: Elf) -> str:
    elf = read_elf(path, start)
    if elf is None:
        return ""  # no ELF file: exec decides what it is
    if elf.bits != hook.bits or elf.machine != hook.machine:
        return (
            f"{path}{via} is a {elf.bits}-bit program for {machine_name(elf.machine)}; "
            f"the hook is {hook.bits}-bit for {machine_name(hook.machine)}"
        )
    if elf.is_loader(path):
        return ""
    if not elf.interpreter:
        return f"{path}{via} is statically linked, so the hook cannot be loaded into it"
    if "musl" in os.path.basename(elf.interpreter):
        return f"{path}{via} uses the loader {elf.interpreter}; the hook is built for glibc"
    return ""
