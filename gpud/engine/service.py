"""The trio shell around the reducer: one task that owns the state, takes events, and carries effects out in order."""

import gc
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

import trio
from attrs import evolve

from gpud.engine import (
    evict,
    hookless_memory,
    host,
    memory,
    memory_line,
    rulings,
    runs,
    saved,
    swap_board,
    ticking,
    unmanaged,
)
from gpud.engine.explained import sentence
from gpud.engine.in_words import Levels
from gpud.engine.memory import Held
from gpud.engine.ports import (
    DeviceUsage,
    DriverPort,
    EndPort,
    ObserverPort,
    PagesPort,
    PolicyPort,
    SessionsPort,
    StatePort,
    WatchPort,
)
from gpud.engine.reducer import react
from gpud.engine.state import State, Tenant
from gpud.memory.store.host import NoRoomError, make_slots
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model import refusals
from gpud.model.errors import ProtocolError
from gpud.model.levels import Level
from gpud.model.units import MILLISECOND, SECOND

log = logging.getLogger("gpud.engine")
audit_log = logging.getLogger("gpud.audit")
audit_log.setLevel(logging.INFO)  # who has changed what is written, however little else is

ADOPT_NS = 10 * SECOND
"""How long clients of an earlier daemon may take to come back."""
LEVELS_NS = 500 * MILLISECOND
"""On file they may be this old: whoever reads them knows what has been charged since."""
TOGETHER_NS = 1 * MILLISECOND
"""What is due so soon after something that is due now is done with it: one wake-up, not two."""
SELDOM = (20_000, 20, 20)
"""How often the collector looks. A tick with many clients makes thousands of small things, and hardly a circle."""
_LOOKS = ev.AllocAsked | ev.SlotsAsked | ev.Swapped | ev.LockAsked | ev.LockIsIn | ev.LockBack
"""What is decided after these depends on what everybody holds, where memory is swapped."""
DRIVER_S = 0.5
"""Between two questions to the driver, while a policy wants to know what only it knows."""


class Engine:
    """Made by `open_engine`. Other tasks may read `state` between awaits, never change it."""

    def __init__(
        self,
        state: State,
        pages: PagesPort,
        sessions: SessionsPort,
        file: StatePort,
        *,
        boot: str,
        now: Callable[[], int],
        wall: Callable[[], int],
        policies: PolicyPort | None,
    ) -> None:
        self.state = state
        self.pages = pages
        self.now = now
        self._wall = wall
        self._sessions = sessions
        self._file = file
        self._boot = boot
        self._policies = policies
        self._driver_wanted = trio.Event()
        self._anybody = trio.Event()
        self._asleep: trio.CancelScope | None = None
        self._due: int | None = None
        """Of the loop's wait."""
        self._round = trio.Event()
        """The loop is at its beginning again."""
        self._levels: list[Level] = []
        """As put on file last, or to be."""
        self._levels_at = 0
        self._unsettled = False
        """Another set of policies has come since the collector looked."""
        self._to_make, self._wanted = trio.open_memory_channel[do.MakeHostSlots](math.inf)
        self.watching: WatchPort | None = None
        self.ending: EndPort | None = None
        self._observers: tuple[ObserverPort, ...] = ()
        self.ticks = 0
        """Timer wake-ups so far."""

    async def run(self, events: "trio.MemoryReceiveChannel[ev.Event]") -> None:
        """Until cancelled. Without clients it waits for events only, without any timer."""
        while True:
            self._round.set()
            self._due = ticking.next_wakeup(self.state)
            wait_s = math.inf if self._due is None else max(self._due - self.now(), 0) / SECOND
            event: ev.Event | None = None
            with trio.move_on_after(wait_s) as self._asleep:
                event = await events.receive()
            self._asleep = None
            if event is not None:
                self.handle(event)
            due = ticking.next_wakeup(self.state)  # of now: the event may have brought it forward
            if due is not None and self.now() >= due:
                self.tick()
            if self._unsettled:
                self._unsettled = False
                _settle()

    async def go_round(self) -> None:
        """Returns once the loop has come round: it takes events, and does what is due."""
        if self._round.is_set():
            self._round = trio.Event()
        if self._asleep is not None:
            self._asleep.cancel()
        await self._round.wait()

    def tick(self) -> None:
        """Time has passed."""
        self.ticks += 1
        began, soon = self.state.cpu_ns(), self.now() + TOGETHER_NS
        reading = self.read(ticking.needs(self.state, self.now())) if ticking.wants_reading(self.state, soon) else None
        due = self.state.levels_due_ns
        motion = self.pages.step_levels(self.now()) if due is not None and due <= soon else None
        barred = self.pages.barred() if motion is not None else {}
        self._decide(ev.Tick(motion=motion, barred=barred, reading=reading))
        if reading is not None:
            ticking.note_cost(self.state, self.state.cpu_ns() - began)
        if self.watching is not None:
            self.watching.happened(reading.counters if reading is not None else None)

    def read(self, needs: ticking.Needs) -> ev.Reading:
        """The world now, as far as policies want to know."""
        return ev.Reading(
            wall_ns=self._wall(),
            counters=hookless_memory.amended(self.state, self.pages.counters()),
            histograms=self.pages.histograms(needs.histograms),
            delays=self.pages.delays(needs.delays),
            host_free=host.memory_free() if needs.host else None,
        )

    def wall_offset(self) -> int:
        """Unix time less the monotonic clock, now."""
        return self._wall() - self.now()

    def levels(self) -> Levels:
        """Of all tenants whose time is divided, as of the last step."""
        return {(level.tenant, level.slot): level for level in self.pages.levels()}

    def sums(self) -> Held:
        """What all clients say of themselves now, for whoever wants to see it."""
        self.state.reasons = self.pages.reasons()
        return hookless_memory.amended(self.state, self.pages.counters())

    def handle(self, event: ev.Event) -> None:
        """Decides, and does what was decided. Never waits."""
        self._decide(event)
        if self.watching is not None:
            self.watching.happened(None)

    def _decide(self, event: ev.Event) -> None:
        if isinstance(event, ev.BoardChanged) and event.reading is None:
            event = evolve(event, reading=self.read(swap_board.needs(self.state, event.board)))
        if isinstance(event, _LOOKS if self.state.moves.devices else ev.AllocAsked) and event.held is None:
            event = evolve(event, held=self.pages.counters())
        if self._observers and isinstance(event, ev.Detached):
            event = evolve(event, held=self.pages.counters())
        pending = [event]
        while pending:
            one, now = pending.pop(0), self.now()
            effects = react(self.state, one, now)
            pending += self._carry_out(effects)
            if self.watching is not None:
                self.watching.decided(effects, now)
            for observer in self._observers:
                try:
                    observer.saw(one, effects, now)
                except Exception:
                    log.exception("an error in gpud: %s stops observing", type(observer).__name__)
                    self._observers = tuple(other for other in self._observers if other is not observer)
        self._unsettled = self._unsettled or isinstance(event, ev.BoardChanged)
        if ticking.needs_driver(self.state):
            self._driver_wanted.set()
        if self.state.clients:
            self._anybody.set()
        if self._asleep is not None:  # another task calls: what it has brought may be due before the alarm clock rings
            due = ticking.next_wakeup(self.state)
            if due is not None and (self._due is None or due < self._due):
                self._asleep.cancel()

    def observe(self, observer: ObserverPort) -> None:
        """From now on it hears of each event."""
        self._observers += (observer,)

    def change(self, event: rulings.Asked) -> Tenant:
        """Changes a job as a person asks, and answers with it. Raises Refused: then it is as it was."""
        tenant = rulings.judge(self.state, event)
        self.handle(event)
        return tenant

    def evict(self, event: ev.EvictAsked) -> str:
        """Takes the devices from a job; a sentence about what leaves, and what does not. Raises Refused."""
        if self.state.moves.devices:
            self._carry_out(memory.take(self.state, self.pages.counters(), self.now()))
        found = evict.judge(self.state, event)
        self.handle(event)
        return found.text

    def record(self, line: do.Record) -> None:
        """Writes a line of somebody else's, as if it had been decided here."""
        self._do(line)
        if self.watching is not None:
            self.watching.decided([line], self.now())

    async def watch_driver(self, driver: DriverPort) -> None:
        """Asks the driver of its devices while a policy wants to know what only it knows, and not otherwise."""
        while True:
            await self._driver_wanted.wait()
            if not ticking.needs_driver(self.state):
                self._driver_wanted = trio.Event()
                continue
            await self.ask_driver(driver)
            await trio.sleep(DRIVER_S)

    async def watch_unmanaged(self, driver: DriverPort) -> None:
        """Looks for processes without a hook while anybody is attached; without clients they concern nobody."""
        while True:
            await self._anybody.wait()
            if not self.state.clients:
                self._anybody = trio.Event()
                continue
            await self.ask_driver(driver)
            await trio.sleep(unmanaged.LOOK_S)

    async def ask_driver(self, driver: DriverPort) -> None:
        """What the driver says now, or said a moment ago. Never waits for long."""
        held, held_ns = self.pages.counters(), self.now()
        self.hear_driver(await driver.usage(), driver.asked_ns, held, held_ns)

    def hear_driver(self, usage: Mapping[bytes, DeviceUsage], asked_ns: int, held: Held, held_ns: int) -> None:
        """Takes an answer of the driver. `asked_ns`: when the question was put; `held`: what clients held before, at
        `held_ns`."""
        devices = {uuid: _seen(one) for uuid, one in usage.items()}
        after = self.pages.counters()
        self.handle(ev.DriverTold(devices=devices, asked_ns=asked_ns, held=held, held_ns=held_ns, after=after))

    def adopt(self) -> None:
        """After a restart: begins the policies of devices taken over, and watches the launchers of jobs."""
        self._carry_out(runs.keep_up(self.state, self.now()))
        for tenant in self.state.tenants.values():
            if tenant.launcher and tenant.launcher_alive:
                self._sessions.watch_launcher(tenant.id, tenant.who.pid, tenant.who.started)

    def drain(self) -> None:
        """Takes nobody new and leaves everything as it is, on file and in the pages."""
        self.handle(ev.DrainAsked())

    def stop(self) -> int:
        """Opens every gate. Returns how many clients that concerned."""
        self.handle(ev.StopAsked())
        return sum(client.session is not None for client in self.state.clients.values())

    def _carry_out(self, effects: Iterable[do.Effect]) -> list[ev.Event]:
        """Returns the events of what went wrong."""
        failed: list[ev.Event] = []
        for effect in effects:
            try:
                self._do(effect)
            except (OSError, ProtocolError) as error:
                if isinstance(effect, do.CreatePages):
                    # The rest of this list does nothing for it: it has no pages to publish to or to hand over.
                    failed.append(_no_pages(effect, error))
                else:
                    log.warning("%s failed: %s", type(effect).__name__, error)
        return failed

    def _do(self, effect: do.Effect) -> None:
        pages, sessions = self.pages, self._sessions
        match effect:
            case do.PublishDevice():
                pages.publish(effect.client, effect.slot, effect.words)
            case do.PublishFailsafe():
                pages.publish_failsafe(effect.client, effect.after_ns)
            case do.Divide():
                pages.divide(effect.slot, effect.division, effect.resumed, self.now())
            case do.TellEdges():
                pages.tell_edges(effect.slot, effect.told)
            case do.RefreshLease():
                pages.refresh_lease(effect.until_ns)
            case do.CreatePages():
                self._create(effect)
            case do.DropPages():
                pages.drop(effect.client)
            case do.SendWelcome():
                sessions.welcome(effect)
            case do.SendSlots():
                sessions.send_slots(effect.client, effect.slots)
            case do.SendPeers():
                sessions.send_peers(effect.client, effect.serial, effect.peers)
            case do.SendAllocReply():
                sessions.send_alloc_reply(effect.client, effect.slot, effect.request, effect.code)
            case do.SwapOut():
                sessions.send_swap_out(effect.client, effect.slot, effect.request, effect.bytes)
            case do.MakeHostSlots():
                self._to_make.send_nowait(effect)
            case do.SendNoSlots():
                sessions.send_host_slots(effect.client, effect.slot, effect.request, 0, None, memory_line.NO_HOST)
            case do.SendLockGranted():
                sessions.send_lock_granted(
                    effect.client,
                    effect.slots,
                    effect.epoch,
                    effect.until_ns,
                    effect.bytes,
                    only_bytes=effect.only_bytes,
                )
            case do.SendLockAgain():
                sessions.send_lock_again(effect.client, effect.slots, effect.epoch)
            case do.SendLockRevoked():
                sessions.send_lock_revoked(effect.client, effect.slots, effect.epoch, effect.deadline_ns)
            case do.SendLockRefused():
                sessions.send_lock_refused(effect.client, effect.request, effect.text)
            case do.SendJob():
                sessions.send_job(effect.session, effect.job, effect.environment)
            case do.SendAttached():
                sessions.send_attached(effect.job, effect.pid)
            case do.SendQueued():
                sessions.send_queued(effect.session, effect.wait_ns, effect.text)
            case do.Refuse():
                sessions.refuse(effect.session, effect.code, effect.text)
            case do.EndJob():
                if self.ending is not None:
                    self.ending.end(effect)
            case do.SaveState():
                self._save()
            case do.Record():
                to = audit_log if effect.kind == "audit" else log
                to.log(logging.WARNING if effect.level == "warning" else logging.INFO, "%s", effect.text)
            case do.KnobChanged():
                if log.isEnabledFor(logging.DEBUG):
                    whose = f", job {effect.job}" if effect.job is not None else ""
                    before, because = effect.tell()
                    log.debug("device %d%s: %s, was %s", effect.slot, whose, sentence(because), before)
            case _:
                self._tell(effect)

    def _tell(self, effect: do.Effect) -> None:
        """Whoever decides which policies run."""
        if self._policies is None:
            return
        match effect:
            case do.Reloaded():
                self._policies.reloaded(effect)
            case do.StruckOut():
                self._policies.struck_out(effect)
            case do.DevicesChanged():
                self._policies.devices_changed()

    async def make_host_slots(self) -> None:
        """One after the other, in a thread: the kernel clears what it gives, which takes a second for some GiB."""
        async for one in self._wanted:
            try:
                fd = await trio.to_thread.run_sync(make_slots, one.client, one.bytes)
            except NoRoomError as error:
                failed = ev.SlotsFailed(
                    client=one.client, slot=one.slot, request=one.request, bytes=one.bytes, text=str(error)
                )
                self.handle(failed)
                continue
            try:
                if one.client in self.state.clients:
                    self._sessions.send_host_slots(one.client, one.slot, one.request, one.bytes, fd, memory_line.YES)
            finally:
                os.close(fd)

    def _create(self, effect: do.CreatePages) -> None:
        if not effect.adopt:
            self.pages.create(effect.client, effect.generation)
            return
        brought = self._sessions.take_pages(effect.session)
        if brought is None:
            raise ProtocolError("the client is gone, or brought no pages")
        self.pages.adopt(effect.client, effect.generation, *brought)

    def _save(self) -> None:
        """At once and on this task: the file is small, and what is told to a client must be on file before."""
        now = self.now()
        if now - self._levels_at >= LEVELS_NS or self.state.draining:
            self._levels, self._levels_at = self.pages.levels(), now
        self._file.write(saved.dump(self.state, self._boot, self._levels))


def _seen(usage: DeviceUsage) -> ev.Seen:
    return ev.Seen(
        total_bytes=usage.total_bytes,
        used_bytes=usage.used_bytes,
        power_w=usage.power_w,
        temperature_c=usage.temperature_c,
        utilisation=usage.utilisation,
        processes=usage.processes,
        mps=usage.mps,
        mps_clients=usage.mps_clients,
    )


def _settle() -> None:
    """Another set of policies is there, and what lives now lives about as long as it does. The collector looks at it
    once, here, and not again: that takes 30 ms, in which nothing else happens."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _no_pages(effect: do.CreatePages, error: OSError | ProtocolError) -> ev.PagesFailed:
    if isinstance(error, ProtocolError):
        return ev.PagesFailed(client=effect.client, text=str(error), code=refusals.PROTOCOL)
    text = f"no pages can be made: {error.strerror or error}"
    return ev.PagesFailed(client=effect.client, text=text, code=refusals.RESOURCES)


@asynccontextmanager
async def open_engine(
    state: State,
    pages: PagesPort,
    sessions: SessionsPort,
    file: StatePort,
    events: "trio.MemoryReceiveChannel[ev.Event]",
    *,
    boot: str,
    now: Callable[[], int] = time.monotonic_ns,
    wall: Callable[[], int] = time.time_ns,
    policies: PolicyPort | None = None,
    driver: DriverPort | None = None,
) -> AsyncIterator[Engine]:
    """Runs until left; leaving it changes neither pages nor file. Without a `driver` nobody knows how full devices
    are."""
    engine = Engine(state, pages, sessions, file, boot=boot, now=now, wall=wall, policies=policies)
    gc.freeze()  # the first set, likewise
    thresholds = gc.get_threshold()
    gc.set_threshold(*SELDOM)
    try:
        async with events, trio.open_nursery() as nursery:
            engine.adopt()
            nursery.start_soon(engine.run, events)
            nursery.start_soon(engine.make_host_slots)
            if driver is not None:
                nursery.start_soon(engine.watch_driver, driver)
                nursery.start_soon(engine.watch_unmanaged, driver)
            yield engine
            nursery.cancel_scope.cancel()
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
