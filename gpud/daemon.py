"""The composition root: the only file that knows every subsystem. `gpud serve` calls `serve`."""

import contextlib
import fcntl
import logging
import os
import resource
import signal
import socket
import struct
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import trio

import gpud
from gpud.config import Config, SimConfig, make_runtime_dir, unknown_variables
from gpud.control.answers import Answers
from gpud.control.audit import Audit
from gpud.control.authorised import Authorised
from gpud.control.authority import Rules
from gpud.control.changes import Changes
from gpud.control.ending import Ending
from gpud.control.feeds import open_feeds
from gpud.control.server import open_control
from gpud.devices import inventory
from gpud.devices.nvml import Driver, Usage, open_driver
from gpud.engine import saved
from gpud.engine.board import Board
from gpud.engine.history import History
from gpud.engine.live import Facts
from gpud.engine.plan import stack_text
from gpud.engine.plugin_guard import GuardedPlugins
from gpud.engine.plugin_signals import open_plugin_signals
from gpud.engine.reload import Reloader, open_reload
from gpud.engine.reload_steps import Steps
from gpud.engine.service import ADOPT_NS, Engine, open_engine
from gpud.engine.state import State
from gpud.engine.state_file import StateFile
from gpud.engine.watching import Watching
from gpud.hooks import identity
from gpud.hooks.pages import open_pages
from gpud.hooks.sessions import listen, open_sessions
from gpud.logs import open_log
from gpud.model.errors import GpudError, SetupError
from gpud.model.events import Event
from gpud.model.ids import uuid_text
from gpud.model.views import DeviceView
from gpud.policies.placement import DeviceFacts
from gpud.policies.plugins.installed import InstalledPlugins
from gpud.service_manager import Manager, Passed, take_sockets
from gpud.telemetry.journal_file import JournalFile, open_journal
from gpud.telemetry.journal_lines import Begin
from gpud.telemetry.scraped import open_metrics
from gpud.telemetry.traces import open_traces

log = logging.getLogger("gpud.daemon")

_ENDING_S = 3.0
_NVML = "libnvidia-ml.so.1"


def serve(config: Config) -> int:
    """Serves until SIGTERM, SIGINT or `gpud stop`. Returns the exit code.

    Raises SetupError: another daemon serves this directory (named with its pid), the directory or the limits of this
    machine do not do, the simulated driver does not start.
    """
    with open_log(config.log_level):
        for name in unknown_variables(os.environ):
            log.warning("%s is set, but nothing in gpud reads it; is it misspelt?", name)
        make_runtime_dir(config.runtime_dir, everybody=config.system)
        passed = take_sockets(config, os.environ)
        with Manager() as manager, hold_lock(config, passed=passed.control is not None):
            _raise_limits()
            if config.sim is not None:
                os.environ |= sim_environment(config.sim)
            try:
                trio.run(partial(run, config, passed=passed, manager=manager))
            except BaseExceptionGroup as group:
                ours, others = group.split(GpudError)
                if others is not None or ours is None:
                    raise
                raise _first(ours) from None
    return 0


@contextlib.contextmanager
def hold_lock(config: Config, *, passed: bool = False) -> Iterator[None]:
    """One daemon for one runtime directory. `passed`: it did not make its sockets itself, so that somebody listens
    there anyhow. Raises SetupError with the pid of the one there is."""
    try:
        fd = os.open(config.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SetupError(f"cannot open {config.lock_file}: {error.strerror}; set GPUD_RUNTIME_DIR") from error
    with open(fd, "r+"):
        _lock(config, fd, passed=passed)
        listener = None if passed else _listener_pid(config.control_socket)
        if listener is not None:
            raise _another(config, str(listener or "unknown"))
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise SetupError(
                f"cannot write {config.lock_file}: {error.strerror}; look at the space there, and at ulimit -f"
            ) from error
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)


def _lock(config: Config, fd: int, *, passed: bool) -> None:
    """Waits a little for a daemon that is about to end (its control socket is gone already). Raises SetupError."""
    deadline = time.monotonic() + _ENDING_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            listens = not passed and _listener_pid(config.control_socket) is not None
            if listens or time.monotonic() > deadline:
                raise _another(config, os.pread(fd, 20, 0).decode().strip() or "unknown") from None
        time.sleep(0.02)


async def run(
    config: Config,
    *,
    signals: bool = True,
    passed: Passed | None = None,
    manager: Manager | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """The daemon itself; the lock is held by the caller. Started once it listens."""
    passed = passed or Passed()
    began_ns = time.monotonic_ns()
    boot = identity.boot_id()
    file = StateFile(config.state_file)
    identify, mode = partial(identity.peer_of, everybody=config.system), 0o666 if config.system else 0o600
    plugins = GuardedPlugins(InstalledPlugins())
    free_claims = frozenset[str]() if config.system else None
    reloader = Reloader(config.policies, config.applied, History(config.state_dir), plugins, claims=free_claims)
    ended = trio.Event()
    send, receive = trio.open_memory_channel[Event](1024)
    async with contextlib.AsyncExitStack() as stack:
        driver = await stack.enter_async_context(open_driver(_nvml_library(config)))
        usage = await _ask_driver(config, driver)
        await reloader.start([DeviceFacts(index, uuid_text(uuid)) for index, uuid in enumerate(usage)])
        state = _first_state(config, reloader.board)
        _restore(state, file, boot)
        journal = stack.enter_context(_journal(config))
        sinks = (journal.span,) if journal is not None else ()
        traces = await stack.enter_async_context(open_traces(config.telemetry, state, boot=boot, sinks=sinks))
        reloader.told = traces.reloaded
        async with (
            open_pages(lease_ns=config.lease_ns, failsafe_after_ns=config.failsafe_after_ns) as pages,
            open_sessions(
                config.hook_socket, pages, send, identify=identify, listener=passed.hook, mode=mode
            ) as sessions,
            open_engine(state, pages, sessions, file, receive, boot=boot, policies=reloader, driver=driver) as engine,
            open_plugin_signals(engine, plugins, config.plugins) as signals_of_plugins,
            open_reload(reloader, engine, signals_of_plugins.follow),
            trio.open_nursery() as nursery,
        ):
            facts = Facts(
                host=socket.gethostname(),
                version=gpud.__version__,
                pid=os.getpid(),
                simulated=config.sim.profile if config.sim else None,
            )
            if traces.observer is not None:
                engine.observe(traces.observer)
            watching = Watching(
                engine,
                facts,
                driver=driver.trouble,
                policy_set=reloader.view,
                trace_of=traces.trace_of,
                keeper=journal,
            )
            engine.handle(inventory.found(usage.values()))
            answers = Answers(
                engine=engine,
                reloader=reloader,
                pid=os.getpid(),
                runtime_dir=str(config.runtime_dir),
                simulated=config.sim.profile if config.sim else None,
                began_ns=began_ns,
                devices=lambda: _devices(driver, engine),
                look=lambda: engine.ask_driver(driver),
                driver=driver.trouble,
                attach_ns=lambda: sessions.attach_ns,
                process_of=process_of,
            )
            rules = Rules(own_uid=os.geteuid(), operators=config.control.operators, readers=config.control.readers)
            reloader.look = partial(engine.ask_driver, driver)
            audit, changes = Audit(engine), Changes(engine=engine)
            engine.ending = ending = Ending(changes=changes, audit=audit)
            nursery.start_soon(ending.run)
            authorised = partial(
                Authorised,
                rules=rules,
                state=state,
                audit=audit,
                answers=answers.answer,
                changes=changes,
            )
            with (
                passed.control or listen(config.control_socket, socket.SOCK_STREAM, mode=mode) as listener,
                _metrics_listener(config, mode) as scraped,
            ):
                async with (
                    open_metrics(
                        config.metrics, engine, scraped, rows=watching.rows, trace_of=traces.trace_of, look=answers.look
                    ) as metrics,
                    open_feeds(watching, rules, answers.look) as feeds,
                    open_control(listener, authorised(looks=feeds.answer).answer, ended.set),
                ):
                    reloader.told = _both(traces.reloaded, metrics.tally.reloaded)
                    if signals:
                        await nursery.start(_until_signal, ended)
                        await nursery.start(_reload_on_hangup, reloader)
                    task_status.started()
                    _say_ready(config, state, reloader)
                    if manager:
                        nursery.start_soon(_tell, manager, engine, reloader)
                    await ended.wait()
                    if manager:
                        manager.stopping()
                    sessions.refusing = True
                    engine.drain()
                    if passed.control is None:
                        config.control_socket.unlink(missing_ok=True)
                    config.metrics_socket.unlink(missing_ok=True)
            nursery.cancel_scope.cancel()
    log.info("ended; pages stay as they are")


def _both(one: Callable[[Steps], None], other: Callable[[Steps], None]) -> Callable[[Steps], None]:
    def tell(steps: Steps) -> None:
        one(steps)
        other(steps)

    return tell


def _metrics_listener(config: Config, mode: int) -> socket.socket:
    """Who may see nothing of others' jobs may not see what classes do, either. Raises SetupError."""
    return listen(
        config.metrics_socket, socket.SOCK_STREAM, mode=0o600 if config.control.readers == "operators" else mode
    )


def _journal(config: Config) -> contextlib.AbstractContextManager[JournalFile | None]:
    begin = Begin(
        at_ns=time.time_ns(),
        daemon=uuid.uuid4().hex,
        pid=os.getpid(),
        host=socket.gethostname(),
        version=gpud.__version__,
    )
    return open_journal(config.journal_dir, begin, max_bytes=config.journal.max_bytes)


def _first_state(config: Config, board: Board) -> State:
    return State(
        board=board,
        lease_ns=config.lease_ns,
        environment=job_environment(config),
        last_generation=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        claims=config.claims,
        system=config.system,
        failsafe_after_ns=config.failsafe_after_ns,
        wall_offset_ns=time.time_ns() - time.monotonic_ns(),
        cpu_ns=time.thread_time_ns,
    )


def job_environment(config: Config) -> tuple[tuple[str, str], ...]:
    """What every job's program gets: on a simulated node, the way to its driver."""
    if config.sim is None:
        return ()
    environment = sim_environment(config.sim)
    environment["LD_LIBRARY_PATH"] = str(config.native_dir / "sim")
    return tuple(environment.items())


def sim_environment(sim: SimConfig) -> dict[str, str]:
    """What every process on a simulated node must agree on."""
    environment = {
        "GPUD_SIM_NODE": sim.node,
        "GPUD_SIM_PROFILE": sim.profile,
        "GPUD_SIM_DEVICES": str(sim.devices),
    }
    if sim.time_scale is not None:
        environment["GPUD_SIM_TIME_SCALE"] = f"{sim.time_scale:g}"
    if sim.log is not None:
        environment["GPUD_SIM_LOG"] = sim.log
    return environment


def process_of(pid: int) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    """(start time, ancestors), None when there is no such process."""
    started = identity.start_time(pid)
    return None if started is None else (started, identity.ancestors(pid))


def _say_ready(config: Config, state: State, reloader: Reloader) -> None:
    """One line whatever the log level: who started it by hand wants to see that it runs, and what."""
    what = f"a simulated GPU ({config.sim.profile})" if config.sim else f"{len(state.devices)} devices"
    stacks = dict.fromkeys(stack_text(stack) for stack in (*(s for _, s in state.board.named), state.board.others))
    policies = "; ".join(text for text in stacks if text) or "no policy"
    good = ", the last good set" if reloader.view().differs else ""
    print(f"gpud: serving {what} at {config.runtime_dir}; {policies}{good}", file=sys.stderr, flush=True)


async def _tell(manager: Manager, engine: Engine, reloader: Reloader) -> None:
    """Tells the service manager how things are, until cancelled; nothing any more once the engine's loop hangs."""
    manager.ready(_in_short(engine.state, reloader))
    reloader.changing = manager.reloading
    while True:
        await engine.go_round()
        manager.alive(_in_short(engine.state, reloader))
        await trio.sleep(manager.period_s)


def _in_short(state: State, reloader: Reloader) -> str:
    """`3 jobs, 5 processes; set f4d5`"""
    jobs, running = len(state.tenants), sum(client.live for client in state.clients.values())
    view = reloader.view()
    runs = f"set {view.digest[:4]}" if view.digest else "no policy"
    text = f"{jobs} {'job' if jobs == 1 else 'jobs'}, {running} {'process' if running == 1 else 'processes'}; {runs}"
    return f"{text}; {view.differs}" if view.differs else text


def _restore(state: State, file: StateFile, boot: str) -> None:
    """Takes over what an earlier daemon left. A file that cannot be read costs its content, not the start."""
    try:
        content = file.read()
        found = saved.load(content, boot) if content else None
    except (OSError, ValueError) as error:
        log.warning("%s; programs attach anew, and jobs of `gpud run` lose their class", error)
        with contextlib.suppress(OSError):
            log.warning("it is kept as %s", file.set_aside())
        return
    if found is not None:
        saved.restore(state, found, _alive, time.monotonic_ns() + ADOPT_NS)
        log.info("took over %d jobs, %d clients", len(state.tenants), len(state.clients))


def _alive(pid: int, started: int) -> bool:
    return identity.lives(pid, started)


async def _devices(driver: Driver, engine: Engine) -> tuple[DeviceView, ...]:
    held, held_ns = engine.pages.counters(), engine.now()
    usage = await driver.usage()
    engine.handle(inventory.found(usage.values()))
    engine.hear_driver(usage, driver.asked_ns, held, held_ns)
    return inventory.views(engine.state, usage)


async def _ask_driver(config: Config, driver: Driver) -> dict[bytes, Usage]:
    """At the start. A simulated driver must answer for one device at least; without a real one, clients tell."""
    usage = await driver.usage()
    if driver.trouble() != "ok":
        if config.sim is not None and not usage:
            raise SetupError(f"the simulated GPU does not start: {driver.trouble()}")
        log.info("%s", driver.trouble())
    return usage


async def _until_signal(ended: trio.Event, *, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        task_status.started()
        async for number in received:
            log.info("%s: draining", signal.Signals(number).name)
            ended.set()


async def _reload_on_hangup(reloader: Reloader, *, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(signal.SIGHUP) as received:
        task_status.started()
        async for _ in received:
            await reloader.hung_up()


def _nvml_library(config: Config) -> Path | None:
    if config.sim is None:
        return None
    library = config.native_dir / "sim" / _NVML
    if not library.exists():
        raise SetupError(f"the simulated driver is not there ({library}); build gpud anew, or set GPUD_NATIVE_DIR")
    known = sorted(path.stem for path in (library.parent / "profiles").glob("*.toml"))
    if "/" not in config.sim.profile and config.sim.profile not in known:
        raise SetupError(
            f"there is no profile {config.sim.profile!r}; "
            f"there are {', '.join(known)}, or give the path of a .toml file"
        )
    return library


def _listener_pid(path: Path) -> int | None:
    """Who listens there, in case its lock file was removed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return 0  # its backlog is full: somebody listens
        except OSError:
            return None
        pid, _, _ = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(pid)


def _another(config: Config, pid: str) -> SetupError:
    return SetupError(
        f"another gpud daemon (pid {pid}) serves {config.runtime_dir}; end it with `gpud stop`, "
        "or give this one another directory with GPUD_RUNTIME_DIR"
    )


def _raise_limits() -> None:
    """Three descriptors for each client: as many as this machine lets us have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _first(group: BaseExceptionGroup[GpudError]) -> GpudError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, GpudError)
    return error
