"""`gpud run` has light copies of two things, for the sake of its start; they must agree with the real ones."""

import itertools
import os
import socket
import time
from pathlib import Path

import pytest

from gpud import config
from gpud.cli import launch, places
from gpud.hooks import wire
from gpud.model import refusals
from gpud.model.errors import GpudError
from gpud.native import native_dir


def packet(kind: int, body: bytes) -> bytes:
    return launch.HEAD.pack(launch.MAGIC, kind, launch.HEAD.size + len(body)) + body


def text_body(code: int, text: bytes) -> bytes:
    return launch.TEXT_BODY.pack(code, len(text)) + text


def test_packets_are_those_of_the_protocol() -> None:
    hello = launch.HELLO_BODY.pack(
        launch.VERSION_MIN, launch.VERSION_MAX, launch.ROLE_LAUNCHER, 0, launch.PAGE_VERSION, 0, 0
    )
    assert packet(launch.HELLO, hello) == wire.ClientSession(wire.ROLE_LAUNCHER).hello()
    assert packet(launch.PONG, launch.NONCE_BODY.pack(7)) == wire.encode(wire.Pong(7))
    assert packet(launch.PING, launch.NONCE_BODY.pack(7)) == wire.encode(wire.Ping(7))
    lines = launch.describe({"class": "", "name": "web", "gpu": "0"}, ["tier=online"], ["python", "a b"])
    asked = (("name", "web"), ("gpu", "0"), ("label.tier", "online"), ("command", "python a b"))
    assert packet(launch.LAUNCH, text_body(0, ("\n".join(lines) + "\n").encode())) == wire.encode(wire.Launch(asked))
    assert packet(launch.JOB, text_body(3, b"A=1\nB=x=y\n")) == wire.encode(wire.Job(3, (("A", "1"), ("B", "x=y"))))
    assert packet(launch.REFUSED, text_body(3, b"no")) == wire.encode(wire.Refused(refusals.POLICY, "no"))
    assert packet(launch.QUEUED, text_body(3, b"full")) == wire.encode(wire.Queued(3, "full"))
    assert launch.NO_BOUND == wire.NO_BOUND
    assert launch.MAX_BYTES == wire.MAX_BYTES
    assert launch.PAGE_VERSION == wire.PAGE_VERSION


@pytest.mark.parametrize(
    ("own", "session"),
    list(itertools.product([None, "/a/b", "", "relative", "/" + "x" * 110], [None, "/run/me", "", "relative"])),
)
def test_both_find_the_same_runtime_directory(own: str | None, session: str | None) -> None:
    given = {"GPUD_RUNTIME_DIR": own, "XDG_RUNTIME_DIR": session}
    environment = {name: value for name, value in given.items() if value is not None}

    def light() -> str:
        return places.runtime_dir(environment)

    def full() -> str:
        return str(config.load_config(environment).runtime_dir)

    results = []
    for find in (light, full):
        try:
            results.append(find())
        except GpudError:
            results.append("refused")
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("own", "systems", "found"),
    [(True, True, "own"), (True, False, "own"), (False, True, "system"), (False, False, "own")],
)
def test_both_find_the_machines_daemon_where_the_user_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool, systems: bool, found: str
) -> None:
    system, ours = tmp_path / "run" / "gpud", tmp_path / "user" / "gpud"
    for directory, there in ((ours, own), (system, systems)):
        directory.mkdir(parents=True)
        if there:
            (directory / "control.sock").touch()
    monkeypatch.setattr(places, "SYSTEM_RUNTIME_DIR", str(system))
    monkeypatch.setattr(config, "SYSTEM_RUNTIME_DIR", system)
    wanted = {"own": ours, "system": system}[found]
    environment = {"XDG_RUNTIME_DIR": str(tmp_path / "user")}
    assert places.runtime_dir(environment) == str(wanted)
    assert config.load_config(environment).runtime_dir == wanted
    assert config.load_config(environment, serving=True).runtime_dir == ours, "a daemon is one's own"
    named = environment | {"GPUD_RUNTIME_DIR": str(ours)}
    assert places.runtime_dir(named) == str(ours)
    assert config.load_config(named).runtime_dir == ours


def test_both_find_the_same_native_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUD_NATIVE_DIR", raising=False)
    assert Path(places.native_dir(os.environ)) == native_dir()
    monkeypatch.setenv("GPUD_NATIVE_DIR", "/somewhere")
    assert Path(places.native_dir(os.environ)) == native_dir()


@pytest.mark.parametrize("read_first", [False, True])
def test_a_refusal_is_heard_from_a_daemon_that_has_hung_up(read_first: bool) -> None:
    """It refuses and closes at once, often before it has read what was sent (at its limit of open files, say)."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        if read_first:
            launch._send(ours, launch.PONG, launch.NONCE_BODY.pack(1))
        theirs.send(wire.encode(wire.Refused(refusals.RESOURCES, "the daemon is full")))
        theirs.close()
        if not read_first:
            launch._send(ours, launch.PONG, launch.NONCE_BODY.pack(1))
        kind, body = launch._receive(ours, "/run/gpud/hook.sock", time.monotonic() + 1)
        assert kind == launch.REFUSED
        assert launch._text(body, "") == (refusals.RESOURCES, "the daemon is full")
