"""A device divided by the real steps (C) with hooks that obey what these publish, on a clock of its own. For tests: no
process, no page file, no waiting.

    device = DividedDevice(division)          # the engine's word: who is there, units, totals
    device.loads[JobId(1)] = Load(kernel_ns=MILLISECOND)
    device.run(SECOND)
    device.used(JobId(1))                     # GPU time, as the device has it

Launches are decided by the gate's model (gpud.policies.simulate.gate), the one that the contract's table holds to
gate_decide.c; kernels run one after the other in slices, as on a time-sliced device, without a cost of switching.
"""

from collections import deque
from typing import Any

from attrs import Factory, define

from gpud.hooks._pages import ffi, lib
from gpud.hooks.levels import Divided
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.levels import Division, Motion
from gpud.model.levels import Level as Saved
from gpud.model.units import MICROSECOND, MILLISECOND, SECOND
from gpud.policies.simulate.gate import decide
from gpud.policies.simulate.gate_words import (
    BUDGET,
    SHARE,
    TURN_NONE,
    WINDOW,
    Decision,
    Level,
    Own,
    Peer,
    Words,
)

STEP_NS = 50 * MICROSECOND
SLICE_NS = 1 * MILLISECOND
TICK_NS = 5 * MILLISECOND
GRACE_PART, LEAST_GRACE_NS, MOST_GRACE_NS = 8, 1 * MILLISECOND, 5 * MILLISECOND
"""A turn outlasts so short an idle moment: this part of it, within these."""


@define(kw_only=True)
class Load:
    """What a process would do if nobody held it: launch kernels, as many as its window takes."""

    kernel_ns: int
    window_ns: int = 2 * MILLISECOND
    work_ns: int = 0
    """It brings kernels of so much time …"""
    each_ns: int = 0
    """… this often, and waits with them as long as it is held; 0: it never has enough."""
    gap_ns: int = 0
    """Between the end of a kernel and the launch of the next, on the host."""
    real_ns: int | None = None
    """How long a kernel really is, where the estimate is wrong."""


@define(kw_only=True)
class _Process:
    client: ClientId
    tenant: JobId
    peers: tuple[ClientId, ...]
    control: Any
    presence: Any
    activity: Any
    queue: deque[int] = Factory(deque)
    """Real time that is left of each kernel."""
    inflight_ns: int = 0
    used_ns: int = 0
    ready_ns: int = 0
    """It launches nothing before."""
    brought: int = 0
    """How often, if it brings its work bit by bit."""
    left_ns: int = 0
    """Of that work."""


class DividedDevice:
    """Slot 0, from the second 100 on."""

    def __init__(self, division: Division, resumed: tuple[Saved, ...] = (), now: int = 100 * SECOND) -> None:
        self.now = now
        self.loads: dict[JobId, Load] = {}
        self.processes: dict[ClientId, _Process] = {}
        self.motion = Motion.SETTLED
        self.divided: Divided | None = None
        self.stepping = True
        """A daemon is there."""
        self.hidden: set[ClientId] = set()
        """Clients that the daemon does not see when it divides: they have not come back yet."""
        self._turn: deque[ClientId] = deque()
        self._left_ns = 0
        self._next_tick = now
        self.idle_ns = 0
        self.divide(division, resumed)

    def divide(self, division: Division, resumed: tuple[Saved, ...] = (), anew: bool = False) -> None:
        """The engine decides anew. `anew`: another daemon, which remembers only what is resumed."""
        for tenant in division.tenants:
            for client in tenant.clients:
                process = self.processes.get(client.client)
                if process is None:
                    process = self.processes[client.client] = _Process(
                        client=client.client,
                        tenant=tenant.tenant,
                        peers=client.peers,
                        control=ffi.new("struct gpud_control_page *"),
                        presence=ffi.new("struct gpud_presence_page *"),
                        activity=ffi.new("struct gpud_activity_page *"),
                    )
                process.peers = client.peers
                words = process.control.device[0]
                words.tenant, words.peer_count = tenant.tenant, len(client.peers)
        before = None if anew else self.divided
        self.divided = Divided(Slot(0), division, self._places, before, resumed)
        self.motion = self.divided.step(self.now)

    def words(self, client: int) -> Any:
        """What its control page says."""
        return self.processes[ClientId(client)].control.device[0]

    def presence(self, client: int) -> Any:
        """What it says of itself."""
        return self.processes[ClientId(client)].presence.device[0]

    def used(self, tenant: int) -> int:
        """GPU time so far."""
        return sum(process.used_ns for process in self.processes.values() if process.tenant == tenant)

    def run(self, ns: int) -> dict[JobId, float]:
        """Time passes. Returns what part of it each tenant has had the device."""
        before = {tenant: self.used(tenant) for tenant in {p.tenant for p in self.processes.values()}}
        end = self.now + ns
        while self.now < end:
            if self.now >= self._next_tick and self.stepping:
                self._next_tick = self.now + TICK_NS
                assert self.divided is not None
                self.motion = self.divided.step(self.now)
            for process in self.processes.values():
                self._launch(process)
            self._work(STEP_NS)
            self.now += STEP_NS
        return {tenant: (self.used(tenant) - used) / ns for tenant, used in sorted(before.items())}

    def lag(self, client: int, of: int | None = None) -> int:
        """How far a tenant is behind, as this client reads it: its own, or that of the client in its table."""
        me, words = self.processes[ClientId(client)], self.words(client)
        said = words if of is None else words.peers[me.peers.index(ClientId(of))]
        tenant = me.tenant if of is None else self.processes[ClientId(of)].tenant
        return _share(said).lag(self._spent(me, tenant), self.now)

    def cap(self, client: int) -> int:
        """What its tenant may still use, as this client reads it."""
        me = self.processes[ClientId(client)]
        words = self.words(client)
        return min(_cap(words).at(self._spent(me, me.tenant), self.now), int(words.cap_burst_ns))

    def _spent(self, me: _Process, tenant: JobId) -> int:
        """By those of its processes that this one sees."""
        return sum(self.presence(c).spent_ns for c in (me.client, *me.peers) if self.processes[c].tenant == tenant)

    def _places(self, client: ClientId) -> tuple[Any, Any, Any]:
        process = self.processes[client]
        if client in self.hidden:
            return ffi.NULL, ffi.NULL, ffi.NULL
        return process.control, process.presence, process.activity

    def _wants(self, process: _Process) -> bool:
        load = self.loads.get(process.tenant)
        if load is None or self.now < process.ready_ns:
            return False
        if load.each_ns and process.brought < self.now // load.each_ns:
            process.brought = self.now // load.each_ns
            process.left_ns += load.work_ns
        return not load.each_ns or process.left_ns > 0

    def _launch(self, process: _Process) -> None:
        """As many launches as pass now."""
        own = process.presence.device[0]
        own.waiting = 0
        load = self.loads.get(process.tenant)
        words = None
        while load is not None and self._wants(process):
            words = words or _words(process, load)
            decision = self._decide(process, words, load)
            own.turn = decision.turn
            if decision.hold:
                own.waiting = 1
                break
            own.spent_ns += load.kernel_ns
            process.inflight_ns += load.kernel_ns
            process.left_ns -= load.kernel_ns
            process.queue.append(load.real_ns or load.kernel_ns)
            if load.gap_ns:
                process.ready_ns = 2**63
        if load is not None and process.inflight_ns > load.window_ns // 2:
            own.full_ns = max(own.full_ns, self.now + process.inflight_ns - load.window_ns // 2)
        active = int(bool(process.queue))
        if active != own.active:
            own.edges += 1
            own.active, own.idle_since_ns = active, self.now
        if not active and not own.waiting and self.now >= own.idle_since_ns + _grace_ns(process):
            own.turn = TURN_NONE

    def _decide(self, process: _Process, words: Words, load: Load) -> Decision:
        page, own = process.control.device[0], process.presence.device[0]
        unused_ns = words.cap.at(self._spent(process, process.tenant), self.now) - page.cap_burst_ns
        return decide(
            words,
            [self._peer(process, index) for index in range(len(process.peers))],
            Own(
                inflight=len(process.queue),
                inflight_ns=process.inflight_ns,
                cost_ns=load.kernel_ns,
                spent_ns=own.spent_ns,
                turn=own.turn,
                forfeit_ns=max(unused_ns, 0),
            ),
            self.now,
        )

    def _peer(self, process: _Process, index: int) -> Peer:
        other = self.processes[process.peers[index]]
        its, said = other.presence.device[0], process.control.device[0].peers[index]
        return Peer(
            rank=0,
            active=bool(its.active),
            idle_since_ns=its.idle_since_ns,
            tenant=other.tenant,
            own=other.tenant == process.tenant,
            share=_share(said) if said.share_rate_ppm else None,
            spent_ns=its.spent_ns,
            waiting=its.waiting,
            turn=its.turn,
            full_ns=its.full_ns,
        )

    def _work(self, ns: int) -> None:
        """The device works on what is queued, a slice of each process after the other."""
        for process in self.processes.values():
            if process.queue and process.client not in self._turn:
                self._turn.append(process.client)
        while ns > 0 and self._turn:
            process = self.processes[self._turn[0]]
            self._left_ns = self._left_ns or SLICE_NS
            done = min(ns, self._left_ns, process.queue[0])
            process.queue[0] -= done
            process.used_ns += done
            self._left_ns -= done
            ns -= done
            if process.queue[0] == 0:
                process.queue.popleft()
                load = self.loads.get(process.tenant)
                process.inflight_ns = process.inflight_ns - load.kernel_ns if load and process.queue else 0
                if load is not None and load.gap_ns:
                    process.ready_ns = self.now + load.gap_ns
            if not process.queue:
                self._turn.popleft()
                self._left_ns = 0
            elif self._left_ns == 0:
                self._turn.rotate(-1)
        self.idle_ns += ns


def _words(process: _Process, load: Load) -> Words:
    """What its page says. A cap that nobody uses up stands there where there is none."""
    page = process.control.device[0]
    return Words(
        gate=BUDGET | WINDOW | (SHARE if page.share_rate_ppm else 0),
        tenant=process.tenant,
        max_inflight_ns=load.window_ns,
        others_lag_ns=page.others_lag_ns,
        cap=_cap(page),
        soft=bool(page.cap_flags & lib.GPUD_CAP_SOFT),
        share=_share(page),
        turn_ns=page.share_turn_ns,
    )


def _share(said: Any) -> Level:
    """Of a page, or of an entry of its table."""
    return Level(said.share_base_ns, said.share_rate_ppm, said.share_t0_ns)


def _cap(page: Any) -> Level:
    return Level(page.cap_base_ns, page.cap_rate_ppm, page.cap_t0_ns)


def _grace_ns(process: _Process) -> int:
    turn_ns = process.control.device[0].share_turn_ns
    return int(min(max(turn_ns // GRACE_PART, LEAST_GRACE_NS), MOST_GRACE_NS))
