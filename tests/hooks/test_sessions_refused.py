"""Who is refused, and what the daemon does when it is itself in trouble."""

import os
import resource
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from gpud.hooks import wire
from gpud.hooks.identity import IdentityError
from gpud.model import refusals
from gpud.model.errors import GpudError
from gpud.testing.fake_hook import FakeHook
from tests.hooks.conftest import descriptors, drain, open_node


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (wire.Hello(7, 9, wire.ROLE_HOOK, 0, wire.PAGE_VERSION, 0, 0), refusals.VERSION),
        (wire.Hello(1, 1, wire.ROLE_HOOK, 0, 77, 0, 0), refusals.VERSION),
        (wire.Hello(1, 1, 9, 0, wire.PAGE_VERSION, 0, 0), refusals.PROTOCOL),
    ],
)
async def test_refusals_have_a_code_and_a_remedy(tmp_path: Path, message: wire.Hello, code: int) -> None:
    async with open_node(tmp_path) as node:
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        hook.connect()
        hook.send(wire.encode(message))
        await trio.to_thread.run_sync(drain, hook)
        assert hook.refused is not None
        assert hook.refused.code == code
        assert code != refusals.VERSION or "install the same gpud for both" in hook.refused.text


async def test_who_cannot_be_known_is_refused(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        node.people.fail = IdentityError("it runs in a PID namespace of its own; start the daemon with --pid=host")
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        with pytest.raises(GpudError, match="--pid=host"):
            await trio.to_thread.run_sync(hook.attach)
        assert hook.refused is not None
        assert hook.refused.code == refusals.IDENTITY


async def test_an_error_of_the_daemon_ends_one_session(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        bystander = await node.attach()
        node.people.fail = RuntimeError("a bug")
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        with pytest.raises(GpudError):
            await trio.to_thread.run_sync(hook.attach)
        await node.is_well(bystander)


async def test_a_kernel_that_hangs_holds_one_session(tmp_path: Path) -> None:
    async with open_node(tmp_path, handshake_s=0.5) as node:
        go_on = threading.Event()
        node.people.wait = lambda: go_on.wait(60)
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        with pytest.raises(GpudError, match="did not say in time"):
            await trio.to_thread.run_sync(hook.attach)
        other = await node.attach()
        await node.is_well(other)
        go_on.set()  # what comes too late is closed: open_node counts


async def test_out_of_descriptors(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        bystander = await node.attach()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        hook.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        hook.socket.settimeout(60)
        highest = max(descriptors())
        fill = []
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
            try:
                while True:
                    fill.append(os.dup(0))
            except OSError:
                pass
            hook.socket.connect(str(node.path))
            await trio.to_thread.run_sync(drain, hook)
            assert hook.refused is not None
            assert hook.refused.code == refusals.RESOURCES
            assert "limit of open files" in hook.refused.text
        finally:
            for fd in fill:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await node.is_well(bystander)
        await node.is_well(await node.attach())


async def test_the_spare_descriptor_may_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread takes the one that was free for a moment: the daemon goes on."""
    async with open_node(tmp_path) as node:
        bystander = await node.attach()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as nobody:
            nobody.bind(str(tmp_path / "x.sock"))
            nobody.listen(1)
            nobody.setblocking(False)

            def full(*_: object) -> int:
                raise OSError(24, "Too many open files")

            monkeypatch.setattr(os, "open", full)
            node.sessions._turn_away(nobody)
            monkeypatch.undo()
            node.sessions._turn_away(nobody)
        await node.is_well(bystander)
        await node.is_well(await node.attach())


async def test_who_is_known_at_the_moment_of_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found, and the answer thrown away by the cancellation: taken all the same, or its descriptor would be lost."""
    async with open_node(tmp_path, handshake_s=0.5) as node:
        run_sync = trio.to_thread.run_sync

        async def late(work: Callable[[], object], **how: object) -> None:
            await run_sync(work, **how)  # type: ignore[arg-type]
            await trio.sleep_forever()  # the deadline comes before the result is handed over

        with monkeypatch.context() as patched:
            patched.setattr(trio.to_thread, "run_sync", late)
            hook = FakeHook(node.path)
            node.hooks.append(hook)
            await run_sync(hook.attach)
        await node.is_well(hook)
