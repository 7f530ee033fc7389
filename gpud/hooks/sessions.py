"""The server of hook.sock. Each connection is a task of its own; whatever goes wrong in it ends it and nothing else."""

import contextlib
import logging
import math
import os
import secrets
import socket
import stat
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from gpud.hooks import identity, wire, wire_lock
from gpud.hooks.connection import Connection, hang_up
from gpud.hooks.identity import IdentityError, Peer
from gpud.hooks.pages import PageStore
from gpud.model import events as ev
from gpud.model import refusals
from gpud.model.effects import SendWelcome
from gpud.model.errors import ProtocolError, SetupError, VersionError
from gpud.model.ids import ClientId, Generation, JobId, SessionId, Slot
from gpud.model.knobs import PeerEntry
from gpud.model.units import SECOND

log = logging.getLogger("gpud.sessions")

HANDSHAKE_S = 5.0
"""For each answer until a client is known and has its pages mapped; as long as a hook waits for the daemon."""
LAUNCH_S = 5.0
MOST_CONNECTIONS = 2048
MOST_OF_ONE = 1024
"""Of these, of one user that is neither root nor the daemon's own: nobody takes the daemon away from others."""

Identify = Callable[[socket.socket], Peer]


class Sessions:
    """All connections. Implements engine.ports.SessionsPort; made by `open_sessions`."""

    def __init__(
        self,
        pages: PageStore,
        events: "trio.MemorySendChannel[ev.Event]",
        nursery: trio.Nursery,
        identify: Identify,
        handshake_s: float,
    ) -> None:
        self._pages = pages
        self._events = events
        self._nursery = nursery
        self._identify = identify
        self._handshake_s = handshake_s
        self._limiter = trio.CapacityLimiter(8)
        self._by_id: dict[SessionId, Connection] = {}
        self._by_user: Counter[int] = Counter()
        self._by_client: dict[ClientId, Connection] = {}
        self._by_job: dict[JobId, Connection] = {}
        self._next = 1
        self._spare: int | None = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self.refusing = False
        """The daemon ends: whoever comes now is told so."""
        self.attach_ns: int | None = None
        """The last attach, from HELLO to mapped."""

    def __len__(self) -> int:
        return len(self._by_id)

    # What the engine asks for: engine.ports.SessionsPort.

    def take_pages(self, session: SessionId) -> tuple[int, int] | None:
        connection = self._by_id.get(session)
        if connection is None:
            return None
        pages, connection.pages = connection.pages, None
        return pages

    def welcome(self, welcome: SendWelcome) -> None:
        connection = self._by_id.get(welcome.session)
        client = welcome.client
        if connection is None or client not in self._pages:
            return
        earlier = self._by_client.get(client)
        if earlier is not None and earlier is not connection:
            earlier.end("the client came back by another connection")
        connection.client, connection.job = client, welcome.job
        if connection.queued:
            connection.queued, connection.patience.deadline = False, trio.current_time() + self._handshake_s
        connection.known = {(entry.present, entry.generation) for entry in welcome.known}
        self._by_client[client] = connection
        pages = self._pages.handed_out(client)
        version = connection.protocol.version
        message = wire.Welcome(version, client, welcome.generation, *self._pages.SIZES, welcome.job)
        connection.send(message, (pages.control,) if welcome.adopt else (pages.control, pages.presence, pages.activity))

    def refuse(self, session: SessionId, code: int, text: str) -> None:
        connection = self._by_id.get(session)
        if connection is not None:
            log.warning("refused pid %s: %s", connection.peer and connection.peer.who.pid, text)
            connection.send(wire.Refused(code, text))
            connection.finish()

    def send_queued(self, session: SessionId, wait_ns: int | None, text: str) -> None:
        connection = self._by_id.get(session)
        if connection is not None:
            connection.queued, connection.patience.deadline = True, math.inf
            seconds = wire.NO_BOUND if wait_ns is None else min(-(-wait_ns // SECOND), wire.NO_BOUND - 1)
            connection.send(wire.Queued(seconds, text))

    def send_slots(self, client: ClientId, slots: tuple[Slot | None, ...]) -> None:
        connection = self._by_client.get(client)
        if connection is not None:
            connection.send(wire.DeviceSlots(tuple(wire.UNMANAGED if slot is None else slot for slot in slots)))

    def send_peers(self, client: ClientId, serial: int, peers: tuple[PeerEntry, ...]) -> None:
        connection = self._by_client.get(client)
        if connection is not None:
            connection.send_peers(serial, peers)

    def send_alloc_reply(self, client: ClientId, slot: Slot, request: int, code: int) -> None:
        connection = self._by_client.get(client)
        if connection is not None:
            connection.send(wire.AllocReply(slot, code, request, 0, 0))

    def send_swap_out(self, client: ClientId, slot: Slot, request: int, count: int) -> None:
        connection = self._by_client.get(client)
        if connection is not None:
            connection.send(wire.SwapOut(slot, 0, request, count, 0))

    def send_host_slots(self, client: ClientId, slot: Slot, request: int, made: int, fd: int | None, code: int) -> None:
        connection = self._by_client.get(client)
        if connection is not None:
            connection.send(wire.Slots(slot, code, request, made, 0), () if fd is None else (fd,))

    def send_lock_granted(
        self, client: ClientId, slots: frozenset[Slot], epoch: int, until_ns: int, count: int, *, only_bytes: bool
    ) -> None:
        connection = self._by_client.get(client)
        if connection is not None:
            flags = wire_lock.LEVEL if only_bytes else 0
            connection.send(wire.LockGranted(_mask(slots), flags, epoch, until_ns, count))

    def send_lock_again(self, client: ClientId, slots: frozenset[Slot], epoch: int) -> None:
        connection = self._by_client.get(client)
        if connection is not None:
            connection.send(wire.LockGranted(_mask(slots), wire_lock.AGAIN, epoch, 0, 0))

    def send_lock_revoked(self, client: ClientId, slots: frozenset[Slot], epoch: int, deadline_ns: int) -> None:
        connection = self._by_client.get(client)
        if connection is not None:
            connection.send(wire.LockRevoked(_mask(slots), 0, epoch, deadline_ns, 0))

    def send_lock_refused(self, client: ClientId, request: int, text: str) -> None:
        connection = self._by_client.get(client)
        if connection is not None:
            connection.send(wire.LockRefused(request, text))

    def send_job(self, session: SessionId, job: JobId, environment: tuple[tuple[str, str], ...]) -> None:
        connection = self._by_id.get(session)
        if connection is not None:
            connection.job = job
            self._by_job[job] = connection
            connection.send(wire.Job(job, environment))

    def send_attached(self, job: JobId, pid: int) -> None:
        connection = self._by_job.get(job)
        if connection is not None:
            connection.send(wire.Attached(pid))

    def watch_launcher(self, job: JobId, pid: int, started: int) -> None:
        self._nursery.start_soon(self._watch_launcher, job, pid, started)

    # Connections.

    async def accept(self, listener: socket.socket) -> None:
        """Takes connections until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                raw, _ = listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                log.warning("cannot take a connection: %s; raise the limit of open files", error.strerror)
                self._turn_away(listener)
                await trio.sleep(0.05)
                continue
            if self.refusing:
                _say_no(raw, refusals.DRAINING, "the daemon is ending; try again when it is back")
                continue
            if len(self._by_id) >= MOST_CONNECTIONS:
                _say_no(raw, refusals.RESOURCES, f"this daemon has {MOST_CONNECTIONS} connections and takes no more")
                continue
            uid = identity.uid_of(raw)
            if uid not in (0, os.geteuid()) and self._by_user[uid] >= MOST_OF_ONE:
                _say_no(raw, refusals.RESOURCES, f"user {uid} has {MOST_OF_ONE} connections and gets no more")
                continue
            connection = Connection(raw, SessionId(self._next), self._pages.presence_fd)
            self._next += 1
            self._by_id[connection.id] = connection
            self._by_user[uid] += 1
            self._nursery.start_soon(self._serve, connection, uid)

    def close(self) -> None:
        """Gives the spare descriptor back."""
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def _turn_away(self, listener: socket.socket) -> None:
        """Out of descriptors: uses the spare one to say so to the next in line. A thread may take it meanwhile; then
        it is had again later."""
        self.close()
        with contextlib.suppress(OSError):
            _say_no(listener.accept()[0], refusals.RESOURCES, "this daemon is at its limit of open files")
        with contextlib.suppress(OSError):
            self._spare = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    async def _serve(self, connection: Connection, uid: int) -> None:
        try:
            with connection.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(connection.write)
                    connection.end(await self._converse(connection, nursery))
        except Exception:  # an error of ours: this client goes, everybody else stays
            log.exception("session %d ends by an error in the daemon", connection.id)
            connection.end_reason = connection.end_reason or "an error in the daemon"
        finally:
            del self._by_id[connection.id]
            self._by_user -= Counter((uid,))
            await self._gone(connection)
            connection.close()

    async def _gone(self, connection: Connection) -> None:
        reason = connection.end_reason or "the daemon ends"
        job, client = connection.job, connection.client
        if client is not None:
            if self._by_client.get(client) is connection:
                del self._by_client[client]
            await self._tell(ev.Detached(client=client, session=connection.id, reason=reason))
            return
        if job is not None and self._by_job.get(job) is connection:
            del self._by_job[job]
        if connection.peer is not None:
            await self._tell(ev.SessionEnded(session=connection.id, reason=reason))

    async def _tell(self, event: ev.Event) -> None:
        with trio.CancelScope(shield=True), contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._events.send(event)

    async def _converse(self, connection: Connection, nursery: trio.Nursery) -> str:
        """Returns why it ended."""
        try:
            hello = await self._next_message(connection, self._handshake_s)
            if hello is None:
                return "it said nothing"
            assert isinstance(hello, wire.Hello)
            connection.peer = peer = await self._who(connection)
            nursery.start_soon(self._until_process_ends, connection)
            connection.send(wire.Ping(secrets.randbits(64)))
            if await self._next_message(connection, self._handshake_s) is None:
                return "it closed the connection before it answered PING"
            if connection.protocol.role == wire.ROLE_LAUNCHER:
                return await self._launcher(connection, peer)
            return await self._hook(connection, peer, hello)
        except trio.BrokenResourceError:
            return "the daemon ends"
        except trio.TooSlowError:
            return self._bad(connection, refusals.PROTOCOL, "it did not answer in time")
        except VersionError as error:
            return self._bad(connection, refusals.VERSION, str(error))
        except IdentityError as error:
            return self._bad(connection, refusals.IDENTITY, str(error))
        except ProtocolError as error:
            return self._bad(connection, refusals.PROTOCOL, str(error))

    def _bad(self, connection: Connection, code: int, text: str) -> str:
        """Logs and says why, as far as the other end still reads."""
        pid = connection.peer.who.pid if connection.peer else "unknown"
        log.warning("session %d (pid %s) ends: %s", connection.id, pid, text)
        connection.send(wire.Refused(code, text) if connection.client is None else wire.Detach(text))
        if connection.client is not None:
            self._pages.detach(connection.client)
        return text

    async def _hook(self, connection: Connection, peer: Peer, hello: wire.Hello) -> str:
        began = trio.current_time()
        again = connection.protocol.reattach
        await self._events.send(
            ev.AttachAsked(
                session=connection.id,
                who=peer.who,
                client=ClientId(hello.client if again else 0),
                generation=Generation(hello.generation if again else 0),
                again=again,
                waits=connection.protocol.waits and not again,
                hookless=connection.protocol.hookless,
            )
        )
        message = await self._next_message(connection, self._handshake_s)
        client = connection.client
        if message is None or client is None:
            return "it closed the connection before it mapped its pages"
        if isinstance(message, wire.Mapped):
            try:
                self._pages.seal(client)
            except (OSError, KeyError) as error:
                raise ProtocolError(f"its pages cannot be sealed: {error}") from error
            self.attach_ns = round((trio.current_time() - began) * 1e9)
            await self._events.send(ev.Mapped(client=client))
            message = await connection.receive()
        while message is not None and not isinstance(message, wire.Bye):
            await self._events.send(_event(client, message))
            message = await connection.receive()
        return "it said goodbye" if message else "it closed the connection"

    async def _launcher(self, connection: Connection, peer: Peer) -> str:
        message = await self._next_message(connection, LAUNCH_S)
        if not isinstance(message, wire.Launch):
            return "the launcher asked for nothing"
        await self._events.send(ev.LaunchAsked(session=connection.id, who=peer.who, asked=message.asked))
        while await connection.receive() is not None:
            pass  # BYE
        if connection.job is None:
            return "the launcher closed the connection"
        await trio.sleep_forever()  # the job lasts as long as its process, whatever became of the socket
        raise AssertionError

    async def _next_message(self, connection: Connection, within_s: float) -> wire.Message | None:
        deadline = math.inf if connection.queued else trio.current_time() + within_s
        with trio.CancelScope(deadline=deadline) as connection.patience:
            return await connection.receive()
        raise trio.TooSlowError

    async def _until_process_ends(self, connection: Connection) -> None:
        assert connection.peer is not None
        await trio.lowlevel.wait_readable(connection.peer.pidfd)
        connection.end("its process ended")

    async def _watch_launcher(self, job: JobId, pid: int, started: int) -> None:
        pidfd = identity.open_process(pid, started)
        if pidfd is not None:
            try:
                await trio.lowlevel.wait_readable(pidfd)
            finally:
                os.close(pidfd)
        await self._tell(ev.LauncherEnded(job=job))

    async def _who(self, connection: Connection) -> Peer:
        """In a thread with a deadline: /proc and the user database can hang. What comes too late is closed."""
        lock = threading.Lock()
        late = False
        found: list[Peer] = []

        def ask() -> None:
            peer = self._identify(connection.raw)
            with lock:
                if late:
                    os.close(peer.pidfd)
                else:
                    found.append(peer)

        with trio.move_on_after(self._handshake_s):
            await trio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=self._limiter)
        with lock:  # it may have been found at the very moment of the deadline: then it counts
            late = True
        if not found:
            raise IdentityError("the kernel did not say in time who it is")
        return found[0]


def _event(client: ClientId, message: wire.Message) -> ev.Event:
    match message:
        case wire.Devices():
            return ev.DevicesReported(client=client, devices=message.devices)
        case wire.PeersMapped():
            return ev.PeersMapped(client=client, serial=message.serial, mapped=message.mapped)
        case wire.WentActive():
            return ev.WentActive(client=client, slot=Slot(message.slot))
        case wire.WentIdle():
            return ev.WentIdle(client=client, slot=Slot(message.slot))
        case wire.AllocAsked():
            slot, _, request, count, time_ns = message
            return ev.AllocAsked(client=client, slot=Slot(slot), request=request, bytes=count, time_ns=time_ns)
        case wire.SlotsAsked():
            return ev.SlotsAsked(client=client, slot=Slot(message.slot), request=message.request, bytes=message.bytes)
        case wire.Swapped():
            slot, code, request, count, _ = message
            return ev.Swapped(client=client, slot=Slot(slot), request=request, code=code, bytes=count)
    if isinstance(message, wire_lock.SAID):
        return _lock_event(client, message)
    raise ProtocolError(f"{type(message).__name__} is not for the engine")


def _lock_event(client: ClientId, message: wire_lock.Said) -> ev.Event:
    mask, flags, number, time_ns, count = message
    slots = frozenset(Slot(slot) for slot in range(wire.MAX_DEVICES) if mask & 1 << slot)
    explicit, wait_ns = bool(flags & wire_lock.EXPLICIT), None if time_ns == wire_lock.FOR_EVER else time_ns
    swaps, out = bool(flags & wire_lock.SWAPS), bool(flags & wire_lock.OUT)
    match message:
        case wire.LockAsked():
            return ev.LockAsked(
                client=client, request=number, slots=slots, explicit=explicit, wait_ns=wait_ns, swaps=swaps, out=out
            )
        case wire.LockWithdrawn():
            return ev.LockWithdrawn(client=client, request=number)
        case wire.LockIsIn():
            short = bool(flags & wire_lock.SHORT)
            return ev.LockIsIn(
                client=client,
                slots=slots,
                epoch=number,
                bytes=count,
                short=short,
                took_ns=time_ns,
                swaps=swaps,
                out=out,
            )
    overrun, never = bool(flags & wire_lock.OVERRUN), bool(flags & wire_lock.NEVER)
    asks = None
    if flags & wire_lock.AND_ASKS:
        asks = ev.LockAsked(client=client, request=count, slots=slots, explicit=explicit, wait_ns=wait_ns)
    return ev.LockBack(
        client=client, slots=slots, epoch=number, overrun=overrun, never=never, asks=asks, swaps=swaps, out=out
    )


def _mask(slots: frozenset[Slot]) -> int:
    return sum(1 << slot for slot in slots)


def _say_no(raw: socket.socket, code: int, text: str) -> None:
    with contextlib.suppress(OSError):
        raw.send(wire.encode(wire.Refused(code, text)), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    hang_up(raw)


def listen(path: Path, kind: socket.SocketKind, *, mode: int = 0o600) -> socket.socket:
    """A listening socket of that mode; a stale one is replaced (the caller holds the daemon's lock). Raises
    SetupError."""
    try:
        if path.exists() and not stat.S_ISSOCK(path.lstat().st_mode):
            raise SetupError(f"{path} is in the way and is no socket; remove it")
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, kind)
        before = os.umask(0o777 ^ mode)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(128)
        listener.setblocking(False)
    except OSError as error:
        raise SetupError(f"cannot listen at {path}: {error.strerror}; set GPUD_RUNTIME_DIR to another place") from error
    return listener


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


@asynccontextmanager
async def open_sessions(
    path: Path,
    pages: PageStore,
    events: "trio.MemorySendChannel[ev.Event]",
    *,
    identify: Identify = identity.peer_of,
    handshake_s: float = HANDSHAKE_S,
    listener: socket.socket | None = None,
    mode: int = 0o600,
) -> AsyncIterator[Sessions]:
    """Serves hook.sock until left. `events` receives what happens. `listener`: the socket, which somebody else has made
    and removes; else `mode` is that of the one that is made. Raises SetupError."""
    ours = listener is None
    with listener or listen(path, socket.SOCK_SEQPACKET, mode=mode) as listener:
        async with trio.open_nursery() as nursery:
            sessions = Sessions(pages, events, nursery, identify, handshake_s)
            nursery.start_soon(sessions.accept, listener)
            try:
                yield sessions
            finally:
                if ours:
                    _remove(path)
                nursery.cancel_scope.cancel()
        sessions.close()
