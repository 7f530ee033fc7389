import fcntl
import logging
import os
import threading
import time

from gpud import logs
from gpud.logs import open_log

log = logging.getLogger("gpud.test")
PATIENCE_S = 60
"""Nothing here takes long; what waits for a reader would wait for ever."""


def test_lines_and_their_level() -> None:
    read, write = os.pipe()
    with open_log("warning", write):
        log.warning("a %s", "warning")
        log.info("not this")
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            log.exception("with its trace")
    os.close(write)
    with open(read) as file:
        said = file.read()
    assert " gpud WARNING a warning\n" in said
    assert "not this" not in said
    assert "ERROR with its trace\n  Traceback" in said


def test_what_jobs_write_makes_no_line_of_its_own() -> None:
    forged = "2026-01-01 00:00:00,000 gpud WARNING forged"
    read, write = os.pipe()
    with open_log("info", write):
        log.info("job 1 (%s) began", f"x\n{forged}\r\x1b[2J\u2028y")
        try:
            raise ValueError(f"x\n{forged}\x1b[2J")
        except ValueError:
            log.exception("it failed")
    os.close(write)
    with open(read, newline="") as file:
        said = file.read()
    assert rf"job 1 (x\n{forged}\r\x1b[2J\u2028y) began" in said
    lines = said.removesuffix("\n").split("\n")
    assert [line for line in lines if line.startswith(forged)] == []
    assert all(line.isprintable() for line in lines)
    assert sum(line.startswith("  ") for line in lines) == len(lines) - 2


def test_a_pipe_that_nobody_reads_stops_nothing() -> None:
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    got = b""

    def reader() -> None:
        nonlocal got
        while more := os.read(read, 65536):
            got += more

    began = time.monotonic()
    with open_log("warning", write):
        for number in range(logs.KEPT_LINES * 3):
            log.warning("line %d", number)
        assert time.monotonic() - began < PATIENCE_S
        thread = threading.Thread(target=reader)
        thread.start()
        # Once it is read again it says so.
        deadline = time.monotonic() + PATIENCE_S
        while b"were lost" not in got:
            assert time.monotonic() < deadline
            log.warning("again")
            time.sleep(0.001)
    os.close(write)
    thread.join(PATIENCE_S)
    os.close(read)
    assert b"line 0\n" in got


def test_its_end_waits_only_a_moment_for_who_does_not_read() -> None:
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    began = time.monotonic()
    with open_log("warning", write):
        for _ in range(logs.KEPT_LINES * 2):
            log.warning("x" * 100)
    assert time.monotonic() - began < PATIENCE_S
    os.close(read)
    for thread in threading.enumerate():
        if thread.name == "gpud-log":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
    os.close(write)
