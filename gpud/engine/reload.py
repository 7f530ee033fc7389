"""Which set of policies runs: the directory's, as long as it can be loaded; else the last one that could.

One change at a time, whoever asks. A change is read, checked and tried beside the running set, and only then takes its
place, at once and as a whole.
"""

import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import TypeVar

import trio
from attrs import define, evolve, field

from gpud.engine import device_facts, loading, plan, trials
from gpud.engine.board import OPEN, Board
from gpud.engine.history import Entry, History
from gpud.engine.loading import PolicySet, Rejected, Texts
from gpud.engine.reload_steps import Steps
from gpud.engine.service import Engine
from gpud.engine.set_views import findings_text, history_views, rejected_view, short, text_of
from gpud.engine.watch import watch
from gpud.model.effects import Record, Reloaded, StruckOut
from gpud.model.errors import SetupError, UsageError
from gpud.model.events import BoardChanged
from gpud.model.policy_views import DevicePlanView, HistoryView, RejectedView, ReloadView, SetView
from gpud.policies.placement import DeviceFacts
from gpud.policies.plugins.declare import Plugins
from gpud.policies.site import FLAG

log = logging.getLogger("gpud.reload")

_T = TypeVar("_T")
PATIENCE_S = 10.0
"""With a file system that hangs, and with a set that takes long to check."""
THREADS = 3
"""At most so many may hang; further changes are rejected until one is done."""
PROBATION_S = 30.0
"""After this a set counts as proved."""
BY_FILES = "files"
"""How a change came: the directory was seen to change."""


@define
class _Turn:
    """One reload that is to come."""

    done: trio.Event = field(factory=trio.Event)
    view: ReloadView | None = None


class Reloader:
    """Implements ports.PolicyPort. `start` finds the first set, `open_reload` follows the directory."""

    def __init__(
        self,
        directory: Path,
        applied: str | None,
        history: History,
        plugins: Plugins,
        *,
        claims: frozenset[str] | None = None,
        probation_s: float = PROBATION_S,
        wall: Callable[[], int] = time.time_ns,
        now: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.directory = directory
        self.running: PolicySet | None = None
        """None: the built-in `open`, since no other can run."""
        self.last: Reloaded | None = None
        """What the engine said of the last change."""
        self.follow: Callable[[], None] | None = None
        """Told whenever another set is in force."""
        self.changing: Callable[[bool], None] = lambda busy: None
        """Told when a change begins to be looked at (True), and when what comes of it is known."""
        self.look: Callable[[], Awaitable[None]] | None = None
        """Asks the driver how its devices are used, before a change is checked."""
        self.told: Callable[[Steps], None] = lambda steps: None
        """Hears of each change that was made or rejected."""
        self._applied = applied
        self._history = history
        self._plugins, self._claims = plugins, claims
        self._probation_s = probation_s
        self._wall, self._now = wall, now
        self._entry: Entry | None = None
        """Of the running set."""
        self._how, self._since_ns, self._proved_at = "start", wall(), inf
        self._seen = ""
        """Digest of what the directory held when it was looked at last."""
        self._differs = ""
        self._rejected: RejectedView | None = None
        self._engine: Engine | None = None
        self._lock = trio.Lock()
        self._turns: dict[str, _Turn] = {}
        """`how` → a reload that waits for the lock."""
        self._limiter = trio.CapacityLimiter(THREADS)
        self._todo, self._work = trio.open_memory_channel[Callable[[], Awaitable[None]]](inf)

    @property
    def board(self) -> Board:
        return _board(self.running)

    # ------------------------------------------------------------------------------------------------- the first set

    async def start(self, devices: Sequence[DeviceFacts]) -> None:
        """Loads the directory's set; where it does not load, or was given up before, the last good one. Raises
        SetupError with all findings when there is none."""
        await trio.to_thread.run_sync(self._history.open)
        texts: Texts | None = None
        given_up = ""
        try:
            texts = await self._in_thread("reading them", loading.read, self.directory, self._applied)
            self._seen = texts.digest
            given_up = self._history.given_up(texts.digest)
            if given_up:
                raise Rejected(f"they were given up: {given_up}")
            await self._begin(await self._load(texts, devices), "start")
            return
        except Rejected as rejected:
            problem = rejected
        if self._is_about_the_flag(problem):
            raise SetupError(f"{text_of(problem)}\n{problem.summary}")  # who typed it is there to correct it
        for entry in self._history.good():
            fresh = await self._load_kept(entry, devices)
            if fresh is not None:
                await self._begin(fresh, "last good")
                self._differs = f"{_set(self._seen)} in the directory does not run: {problem.summary}"
                self._rejected = rejected_view(self._seen, problem, self._wall(), 1)
                log.warning(
                    "the policies in %s do not run: %s; the last good set %s does\n%s",
                    self.directory, problem.summary, short(fresh.digest), text_of(problem),
                )  # fmt: skip
                return
        if texts is None or not given_up:
            raise SetupError(
                f"the policies in {self.directory} do not load, and no earlier ones are kept to start with\n\n"
                f"{text_of(problem)}\n{problem.summary}; correct them (gpud policy check {self.directory}), "
                "or name another directory with --policies"
            )
        log.warning("set %s was given up before (%s); there is no other", short(texts.digest), given_up)
        try:
            await self._begin(await self._load(texts, devices), "start")
        except Rejected as rejected:
            raise SetupError(f"{text_of(rejected)}\n{rejected.summary}") from None

    def _is_about_the_flag(self, problem: Rejected) -> bool:
        """What it says, or that it applies what this version does not enforce, though the files are all right."""
        errors = [finding for finding in problem.findings if not finding.is_warning]
        wrong = any(finding.primary.source.name == FLAG for finding in errors)
        return wrong or bool(self._applied and errors and all(finding.code == "GP404" for finding in errors))

    # ------------------------------------------------------------------------------------------------------- changes

    async def reload(self, how: str) -> ReloadView:
        """Takes what the directory holds now. `how`: `files`, `hangup`, `asked`. Who asks while another change is made
        waits for that and one more, which all who have asked meanwhile share."""
        while (turn := self._turns.get(how)) is not None:
            await turn.done.wait()
            if turn.view is not None:
                return turn.view
        turn = self._turns[how] = _Turn()
        try:
            async with self._lock:
                del self._turns[how]  # who asks from now on wants what is written from now on
                self.changing(True)
                try:
                    turn.view = await self._reload(how)
                finally:
                    self.changing(False)
                return turn.view
        finally:
            if self._turns.get(how) is turn:
                del self._turns[how]
            turn.done.set()

    async def _reload(self, how: str) -> ReloadView:
        steps, digest = Steps(how=how, now=self._now), ""
        try:
            with steps.step("parse"):
                texts = await self._in_thread("reading them", loading.read, self.directory, self._applied)
            digest = steps.digest = texts.digest
            if self.running is not None and digest == self.running.digest:
                self._seen, self._differs, self._rejected = digest, "", None
                return _unchanged(digest, f"set {short(digest)} runs already: nothing has changed")
            if how == BY_FILES and digest == self._seen:
                return _unchanged(digest, "nothing has changed since they were read last")
            self._seen = digest
            return await self._take(texts, steps, try_out=True)
        except Rejected as rejected:
            return self._refuse(digest, rejected)
        finally:
            if len(steps.done) > 1 or steps.rejected:
                self.told(steps)

    async def rollback(self, number: int | None) -> ReloadView:
        """Runs an earlier set: that number of the history, or the last good one before the one that runs. Raises
        UsageError when there is none."""
        async with self._lock:
            entry = self._earlier(number)
            before, steps = self._entry, Steps(how="rollback", now=self._now, digest=entry.digest)
            try:
                with steps.step("parse"):
                    texts = await self._kept(entry)
                view = await self._take(texts, steps, try_out=False)
            except Rejected as rejected:
                return ReloadView(
                    result="rejected",
                    digest=entry.digest,
                    text=f"set {short(entry.digest)} cannot run any more; what runs goes on",
                    rejected=rejected_view(entry.digest, rejected, self._wall(), 1),
                )
            finally:
                self.told(steps)
            if before is not None and before.digest != entry.digest:
                await self._note(before, failed="rolled back by the operator")
            if entry.digest != self._seen:
                self._differs = f"set {short(self._seen)} in the directory was rolled back; gpud policy reload takes it"
            return view

    async def diff(self) -> tuple[str, tuple[DevicePlanView, ...]]:
        """(digest, plan) of what the directory holds. Changes nothing. Raises Rejected."""
        texts = await self._in_thread("reading them", loading.read, self.directory, self._applied)
        fresh = await self._load(texts, await self._devices_now())
        return texts.digest, await self._plan(fresh)

    async def _take(self, texts: Texts, steps: Steps, *, try_out: bool) -> ReloadView:
        """Checks, tries, and puts in force. Raises Rejected."""
        with steps.step("check"):
            fresh = await self._load(texts, await self._devices_now())
        with steps.step("plan"):
            plans = await self._plan(fresh)
        tests = ""
        if try_out:
            with steps.step("test"):
                running = self.running.library if self.running is not None else None
                tests = await trials.try_out(running, fresh, self.directory)
        with steps.step("apply"):
            self._put_in_force(fresh, steps.how)
        applied = steps.done[-1]
        await self._begin(fresh, steps.how)
        log.info("set %s runs (%s)%s", short(fresh.digest), steps.how, f"; tests: {tests}" if tests else "")
        return ReloadView(
            result="loaded",
            digest=fresh.digest,
            text=f"set {short(fresh.digest)} runs now",
            warnings=findings_text(fresh.warnings),
            plan=plans,
            tests=tests,
            check_ns=steps.took("check") + steps.took("plan"),
            tests_ns=steps.took("test"),
            passed_ns=applied.began_ns,
            applied_ns=applied.ended_ns,
        )

    def _put_in_force(self, fresh: PolicySet | None, why: str) -> None:
        """At once. Raises Rejected when the engine cannot; then what ran goes on."""
        assert self._engine is not None
        before = self.running
        try:
            self._engine.handle(BoardChanged(board=_board(fresh), why=why))
            self.running = fresh
        except Exception as error:
            log.exception("a set of policies cannot be put in force")
            self._engine.handle(BoardChanged(board=_board(before), why="rollback"))
            raise Rejected(f"an error in gpud keeps them from running: {type(error).__name__}: {error}") from error

    async def _begin(self, fresh: PolicySet, how: str) -> None:
        """It runs, or is about to: remembers it, and begins its probation."""
        self.running, self._how, self._since_ns = fresh, how, self._wall()
        self._differs, self._rejected = "", None
        if fresh.warnings:
            log.warning("%s", findings_text(fresh.warnings))
        newest = self._history.entries[:1]
        if how in ("start", "last good") and newest and newest[0].digest == fresh.digest and not newest[0].failed:
            entry = newest[0]  # a restart is no change
        else:
            entry = Entry(
                number=0,
                digest=fresh.digest,
                files=fresh.files,
                applied=fresh.texts.applied,
                directory=os.fsencode(self.directory).decode("utf-8", "replace"),
                began_ns=self._since_ns,
                how=how,
            )
            entry = await trio.to_thread.run_sync(self._history.add, entry)
        self._entry = entry
        if not entry.proved:
            self._proved_at = trio.current_time() + self._probation_s
            self._todo.send_nowait(partial(self._prove, entry, self._proved_at))

    async def _prove(self, entry: Entry, at: float) -> None:
        await trio.sleep_until(at)
        async with self._lock:
            if self._entry is not None and self._entry.number == entry.number:
                await self._note(self._entry, proved=True)

    def _refuse(self, digest: str, rejected: Rejected) -> ReloadView:
        count = self._rejected.count + 1 if self._rejected is not None else 1
        self._rejected = rejected_view(digest, rejected, self._wall(), count)
        running = f"set {short(self.running.digest)}" if self.running is not None else "the built-in `open`"
        self._differs = f"{_set(digest)} in the directory does not run: {rejected.summary}"
        assert self._engine is not None
        said = f"policies rejected: {rejected.summary}; {running} goes on"
        self._engine.record(Record(level="warning", text=said, kind="reject"))
        log.warning("%s", text_of(rejected))
        text = f"rejected; {running} goes on"
        return ReloadView(result="rejected", digest=digest, text=text, rejected=self._rejected)

    # ------------------------------------------------------------------------------------------- what the engine says

    def reloaded(self, done: Reloaded) -> None:
        self.last = done
        if self.follow is not None:
            self.follow()

    def struck_out(self, out: StruckOut) -> None:
        self._todo.send_nowait(partial(self._give_up, out))

    def devices_changed(self) -> None:
        self._todo.send_nowait(self._look_at_devices)

    async def _give_up(self, out: StruckOut) -> None:
        """Back to the last good set, at once; where there is none, to no policy at all."""
        async with self._lock:
            assert self._engine is not None
            if out.generation != self._engine.state.board_generation or self._entry is None:
                return  # another set has come meanwhile
            digest, reason = self._entry.digest, f"policy {out.policy}: {out.text}"
            await self._note(self._entry, failed=reason)
            fresh: PolicySet | None = None
            for entry in self._history.good():
                fresh = await self._load_kept(entry, device_facts.devices(self._engine.state))
                if fresh is not None:
                    break
            instead = f"set {short(fresh.digest)} runs" if fresh is not None else "every gate is open"
            log.error("set %s is given up: %s; %s", short(digest), reason, instead)
            self._put_in_force(fresh, "struck out")
            if fresh is not None:
                await self._begin(fresh, "struck out")
            else:
                self._entry = None
            self._differs = f"set {short(digest)} was given up: {reason}"

    async def _look_at_devices(self) -> None:
        """The engine gives a device that comes what the `apply` lines say; whether they fit is still to be said."""
        async with self._lock:
            assert self._engine is not None
            devices = device_facts.devices(self._engine.state)
            if self.running is None or devices == self.running.devices:
                return
            try:
                fresh = await self._load(self.running.texts, devices)
            except Rejected as rejected:
                log.warning("policies do not fit the devices there are now\n%s", text_of(rejected))
                self.running = evolve(self.running, devices=devices)
                return
            if fresh.warnings and fresh.warnings != self.running.warnings:
                log.warning("%s", findings_text(fresh.warnings))
            self.running = evolve(self.running, devices=devices, warnings=fresh.warnings)

    # ------------------------------------------------------------------------------------------------------ for views

    def view(self) -> SetView:
        """What runs."""
        left = max(self._proved_at - trio.current_time(), 0) if self._entry and not self._entry.proved else 0
        return SetView(
            number=self._entry.number if self._entry is not None else 0,
            digest=self.running.digest if self.running is not None else "",
            directory=str(self.directory),
            applied=self.running.texts.applied if self.running is not None else None,
            since_ns=self._since_ns,
            how=self._how,
            probation_ns=round(left * 1e9),
            differs=self._differs,
            rejected=self._rejected,
        )

    def rejected(self, problem: Rejected) -> RejectedView:
        """Of a set that nobody asked to put in force."""
        return rejected_view("", problem, self._wall(), 0)

    def history(self) -> list[HistoryView]:
        return history_views(self._history.entries, self._entry.number if self._entry is not None else 0)

    # -------------------------------------------------------------------------------------------------------- helpers

    def join(self, engine: Engine, follow: Callable[[], None] | None) -> None:
        self._engine, self.follow = engine, follow

    async def work(self) -> None:
        """Does what the engine asked for, until cancelled."""
        async with trio.open_nursery() as nursery:
            async for job in self._work:
                nursery.start_soon(_carefully, job)

    async def files_changed(self) -> None:
        await _carefully(partial(self.reload, BY_FILES))

    async def hung_up(self) -> None:
        """On SIGHUP."""
        await _carefully(partial(self.reload, "hangup"))

    async def _devices_now(self) -> tuple[DeviceFacts, ...]:
        assert self._engine is not None
        if self.look is not None:
            await self.look()
        return device_facts.devices_now(self._engine.state)

    def _earlier(self, number: int | None) -> Entry:
        running = self._entry.number if self._entry is not None else 0
        digest = self.running.digest if self.running is not None else ""
        if number == running:
            raise UsageError(f"set number {number} runs already; see gpud policy history")
        for entry in self._history.entries if number is not None else self._history.good():
            if entry.number == number or (number is None and entry.digest != digest):
                return entry
        if number is None:
            raise UsageError("there is no earlier good set; see gpud policy history")
        raise UsageError(f"there is no set number {number}; see gpud policy history")

    async def _note(self, entry: Entry, *, proved: bool | None = None, failed: str | None = None) -> None:
        await trio.to_thread.run_sync(partial(self._history.change, entry.number, proved=proved, failed=failed))
        if self._entry is not None and self._entry.number == entry.number:
            self._entry = next((e for e in self._history.entries if e.number == entry.number), self._entry)

    async def _load(self, texts: Texts, devices: Sequence[DeviceFacts]) -> PolicySet:
        return await self._in_thread("checking them", loading.load, texts, devices, self._plugins, self._claims)

    async def _kept(self, entry: Entry) -> Texts:
        """Raises Rejected for one that is not as it was when it ran: somebody has edited what is kept."""
        texts = await self._in_thread("reading it", loading.of_files, entry.files, entry.applied)
        if texts.digest != entry.digest:
            raise Rejected("what is kept of it was changed since it ran")
        return texts

    async def _load_kept(self, entry: Entry, devices: Sequence[DeviceFacts]) -> PolicySet | None:
        try:
            return await self._load(await self._kept(entry), devices)
        except Rejected as rejected:
            log.warning("set %s, kept as good, does not load: %s", short(entry.digest), rejected.summary)
            return None

    async def _plan(self, fresh: PolicySet) -> tuple[DevicePlanView, ...]:
        assert self._engine is not None
        devices = [(device.slot, device.uuid, device.index) for device in self._engine.state.devices.values()]
        state, out = self._engine.state, dict[int, set[int]]()
        for (client, slot), row in state.held.items():
            if client in state.clients and row.host_bytes + row.lazy_bytes:
                out.setdefault(slot, set()).add(state.clients[client].job)
        return await self._in_thread("comparing them", plan.plan, self.board, fresh.board, devices, out)

    async def _in_thread(self, what: str, function: Callable[..., _T], *args: object) -> _T:
        """Raises Rejected when it takes too long (the thread is left to itself then), or fails."""
        try:
            with trio.move_on_after(PATIENCE_S):
                return await trio.to_thread.run_sync(function, *args, abandon_on_cancel=True, limiter=self._limiter)
        except Rejected:
            raise
        except Exception as error:  # of ours, or of a plugin's
            log.exception("%s failed", what)
            raise Rejected(f"an error in gpud: {what} failed with {type(error).__name__}: {error}") from error
        raise Rejected(f"{what} took longer than {PATIENCE_S:g} s")


def _board(one: PolicySet | None) -> Board:
    return one.board if one is not None else OPEN


def _set(digest: str) -> str:
    """ "" of what could not be read."""
    return f"set {short(digest)}" if digest else "what is"


def _unchanged(digest: str, text: str) -> ReloadView:
    return ReloadView(result="unchanged", digest=digest, text=text)


async def _carefully(job: Callable[[], Awaitable[object]]) -> None:
    """Nothing about policies may end the daemon."""
    try:
        await job()
    except Exception:
        log.exception("an error in gpud about policies; what runs goes on")


@asynccontextmanager
async def open_reload(
    reloader: Reloader, engine: Engine, follow: Callable[[], None] | None = None
) -> AsyncIterator[None]:
    """Follows the directory, and does what the engine asks for, until left. `follow` hears of each change."""
    reloader.join(engine, follow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reloader.work)
        await nursery.start(watch, reloader.directory, reloader.files_changed)
        yield
        nursery.cancel_scope.cancel()
