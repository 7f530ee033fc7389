"""The daemon's log, written by a thread of its own: a pipe or terminal that nobody reads stops nothing but the log."""

import contextlib
import logging
import logging.handlers
import os
import queue
import threading
from collections.abc import Iterator

from gpud.model.text import one_line

KEPT_LINES = 1000
LAST_S = 1.0
"""For the last lines, at the end."""

_Lines = queue.Queue[logging.LogRecord | None]


class _Form(logging.Formatter):
    """One line for each record, whatever is in its message: names and command lines are written by jobs. The lines of a
    trace are set in, so that none of them looks like a record."""

    def format(self, record: logging.LogRecord) -> str:
        lines = [one_line(record.getMessage())]
        if record.exc_info:
            lines += [f"  {one_line(line)}" for line in self.formatException(record.exc_info).split("\n")]
        return "\n".join(lines)


class _Kept(logging.handlers.QueueHandler):
    """Keeps lines for the thread; counts those that there is no room for."""

    def __init__(self, lines: _Lines) -> None:
        super().__init__(lines)
        self.setFormatter(_Form())
        self.lost = 0
        self.ended = False

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.lost += 1


@contextlib.contextmanager
def open_log(level: str, descriptor: int = 2) -> Iterator[None]:
    """All loggers write to the descriptor, from `level` on, until left."""
    lines: _Lines = queue.Queue(KEPT_LINES)
    kept = _Kept(lines)
    root = logging.getLogger()
    before = root.level
    root.setLevel(level.upper())
    root.addHandler(kept)
    # Not waited for when it hangs, and past Python's own buffers, whose locks it would take along.
    thread = threading.Thread(target=_write, args=(lines, kept, descriptor), name="gpud-log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        root.removeHandler(kept)
        root.setLevel(before)
        try:
            lines.put(None, timeout=LAST_S)
        except queue.Full:
            kept.ended = True
        thread.join(LAST_S)


def _write(lines: _Lines, kept: _Kept, descriptor: int) -> None:
    form = logging.Formatter("%(asctime)s gpud %(levelname)s %(message)s")
    while not kept.ended and (record := lines.get()) is not None:
        text = form.format(record) + "\n"
        lost, kept.lost = kept.lost, 0
        if lost:
            text = f"gpud: {lost} lines of the log were lost: nobody read it\n{text}"
        rest = text.encode(errors="backslashreplace")
        with contextlib.suppress(OSError):
            while rest:
                rest = rest[os.write(descriptor, rest) :]
