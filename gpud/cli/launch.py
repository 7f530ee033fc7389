"""`gpud run`'s side of the session protocol (gpud_wire.h): asks the daemon for a job. Standard library only."""

import contextlib
import math
import socket
import struct
import time
from collections.abc import Callable

from gpud.cli.failure import EXIT_FAILED, EXIT_NO_DAEMON, EXIT_REFUSED, EXIT_TIMED_OUT, Failure
from gpud.model import refusals

MAGIC = 0x4447
VERSION_MIN = VERSION_MAX = 1
PAGE_VERSION = 4
MAX_BYTES = 16384
HELLO, PONG, LAUNCH = 1, 2, 9
PING, REFUSED, DETACH, JOB, ATTACHED, QUEUED = 64, 66, 69, 70, 71, 76
ROLE_LAUNCHER = 2
NO_BOUND = 0xFFFFFFFF

HEAD = struct.Struct("<HHI")
HELLO_BODY = struct.Struct("<HHHHIIQ")
NONCE_BODY = struct.Struct("<Q")
TEXT_BODY = struct.Struct("<II")

GET_ONE = "start one with: gpud serve        (on a machine without a GPU: gpud serve --sim)"


class Job:
    """What the daemon answered: the job's id, its environment lines, and the connection that stands for it."""

    __slots__ = ("connection", "environment", "id")

    def __init__(self, number: int, environment: dict[str, str], connection: socket.socket) -> None:
        self.id = number
        self.environment = environment
        self.connection = connection


def ask_for_job(
    path: str, lines: list[str], timeout_s: float, *, patient: bool = False, say: Callable[[str], None] = print
) -> Job:
    """Connects to the daemon's socket at `path` and launches a job described by `lines` (`key=value`).

    Where the policy keeps it in line, `say` hears so. `patient`: it waits there for as long as the policy lets it; else
    for what is left of `timeout_s`.

    Raises `Failure`: 75 nobody there, 77 refused by the policy, 124 no answer within `timeout_s`, 125 anything else.
    """
    line = ""
    deadline = time.monotonic() + timeout_s
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        _connect(connection, path, timeout_s)
        _send(connection, HELLO, HELLO_BODY.pack(VERSION_MIN, VERSION_MAX, ROLE_LAUNCHER, 0, PAGE_VERSION, 0, 0))
        kind, body = _receive(connection, path, deadline)
        if kind == PING and len(body) == NONCE_BODY.size:
            _send(connection, PONG, body)
            text = "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")
            if len(text) > MAX_BYTES - HEAD.size - TEXT_BODY.size:
                raise Failure("labels and command are too long for one message (16 KiB)", "shorten the labels")
            _send(connection, LAUNCH, TEXT_BODY.pack(0, len(text)) + text)
            kind, body = _receive(connection, path, deadline)
            while kind == QUEUED:
                seconds, line = _text(body, path)
                bound = "" if seconds == NO_BOUND else f", for {_duration(seconds)} at most"
                say(f"waits in line{bound}: {line}")
                if patient:
                    deadline = math.inf if seconds == NO_BOUND else time.monotonic() + seconds + timeout_s
                kind, body = _receive(connection, path, deadline)
        if kind == JOB:
            number, environment = _text(body, path)
            return Job(number, _variables(environment, path), connection)
        if kind in (REFUSED, DETACH):
            raise _refusal(*_text(body, path))
        raise _not_understood(path)
    except BaseException as error:
        connection.close()
        if isinstance(error, TimeoutError) and line:
            raise Failure(
                f"the job was not let in within {timeout_s:g} s: {line}",
                "wait longer: --timeout, or without it for as long as the policy lets it wait",
                code=EXIT_TIMED_OUT,
            ) from None
        if isinstance(error, TimeoutError):
            raise Failure(
                f"the daemon at {path} did not answer within {timeout_s:g} s",
                "see whether it hangs: gpud status; wait longer: --timeout; start it anew: gpud stop, gpud serve",
                code=EXIT_TIMED_OUT,
            ) from None
        if isinstance(error, BrokenPipeError | ConnectionResetError):
            raise _gone(path) from None
        raise


def _connect(connection: socket.socket, path: str, timeout_s: float) -> None:
    connection.settimeout(timeout_s)
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as error:
        why = "no socket there" if isinstance(error, FileNotFoundError | NotADirectoryError) else "nobody listens"
        raise Failure(f"no daemon at {path}: {why}", GET_ONE, code=EXIT_NO_DAEMON) from None
    except PermissionError:
        raise Failure(
            f"no daemon of yours at {path}: permission denied",
            f"the daemon there belongs to somebody else; {GET_ONE}",
            code=EXIT_NO_DAEMON,
        ) from None
    except BlockingIOError:
        raise TimeoutError from None
    except OSError as error:
        raise Failure(
            f"cannot connect to {path}: {(error.strerror or str(error)).lower()}",
            "another program has made a file or socket there: remove it, or set GPUD_RUNTIME_DIR",
            code=EXIT_NO_DAEMON,
        ) from None


def _send(connection: socket.socket, kind: int, body: bytes) -> None:
    """A daemon that has hung up may have said why: `_receive` finds it."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.send(HEAD.pack(MAGIC, kind, HEAD.size + len(body)) + body)


def _receive(connection: socket.socket, path: str, deadline: float) -> tuple[int, bytes]:
    """The next message as type and body; ATTACHED cannot come here yet."""
    connection.settimeout(None if deadline == math.inf else max(deadline - time.monotonic(), 0.001))
    try:
        packet = connection.recv(MAX_BYTES + 1)
    except ConnectionResetError:
        packet = connection.recv(MAX_BYTES + 1)  # it hung up with ours unread; its last words come after
    if not packet:
        raise _gone(path)
    if len(packet) < HEAD.size:
        raise _not_understood(path)
    magic, kind, length = HEAD.unpack_from(packet)
    if magic != MAGIC or length != len(packet):
        raise _not_understood(path)
    return kind, packet[HEAD.size :]


def _duration(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{seconds / 60:.3g} min"


def _text(body: bytes, path: str) -> tuple[int, str]:
    if len(body) < TEXT_BODY.size:
        raise _not_understood(path)
    code, length = TEXT_BODY.unpack_from(body)
    text = body[TEXT_BODY.size :]
    if length != len(text):
        raise _not_understood(path)
    return code, text.decode(errors="replace")


def _variables(text: str, path: str) -> dict[str, str]:
    variables = {}
    for line in filter(None, text.split("\n")):
        name, equals, value = line.partition("=")
        if not equals or not name:
            raise _not_understood(path)
        variables[name] = value
    return variables


def _refusal(code: int, sentence: str) -> Failure:
    if code == refusals.POLICY:
        return Failure(f"refused by the policy: {sentence}", code=EXIT_REFUSED)
    if code == refusals.DRAINING:
        return Failure(f"the daemon is shutting down: {sentence}", GET_ONE, code=EXIT_NO_DAEMON)
    if code == refusals.VERSION:
        return Failure(
            f"the daemon is of another version: {sentence}",
            "start a daemon of this version: gpud stop, then gpud serve",
            code=EXIT_FAILED,
        )
    return Failure(f"the daemon refused: {sentence}", "its log says more", code=EXIT_FAILED)


def _gone(path: str) -> Failure:
    return Failure(
        f"the daemon at {path} closed the connection",
        "see whether it still runs: gpud status, and what its log or the kernel's (dmesg) says; "
        "start it anew: gpud serve",
        code=EXIT_FAILED,
    )


def _not_understood(path: str) -> Failure:
    return Failure(
        f"what listens at {path} does not speak gpud's protocol (or one of another version)",
        "start a daemon of this version: gpud stop, then gpud serve",
    )


def drain(connection: socket.socket) -> bool:
    """Reads what the daemon has sent meanwhile (which processes attached); False once it is gone. Never blocks."""
    while True:
        try:
            if not connection.recv(MAX_BYTES, socket.MSG_DONTWAIT):
                return False
        except BlockingIOError:
            return True
        except OSError:
            return False


def describe(options: dict[str, str], labels: list[str], command: list[str]) -> list[str]:
    """The lines of LAUNCH. Line breaks cannot be in them; they are shown as spaces."""
    lines = [f"{key}={value}" for key, value in options.items() if value]
    lines += [f"label.{label}" for label in labels]
    lines.append("command=" + " ".join(command)[:2048])
    return [" ".join(line.split("\n")) for line in lines]


def merge(environment: dict[str, str], job: Job, hook: str, runtime_dir: str) -> dict[str, str]:
    """The job's environment: the caller's, the daemon's lines over it, search paths in front, our preload first."""
    merged = environment | job.environment
    paths = job.environment.get("LD_LIBRARY_PATH", ""), environment.get("LD_LIBRARY_PATH", "")
    if any(paths):
        merged["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
    others = [job.environment.get("LD_PRELOAD", ""), environment.get("LD_PRELOAD", "")]
    merged["LD_PRELOAD"] = ":".join([hook, *(other for other in others if other and other != hook)])
    merged["GPUD_RUNTIME_DIR"] = runtime_dir
    return merged
