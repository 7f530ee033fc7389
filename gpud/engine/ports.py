"""What the engine needs of the world. `daemon.py` passes the real ones in, tests pass fakes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from gpud.model.counters import Counters, HookCounters
from gpud.model.effects import Effect, EndJob, Reloaded, SendWelcome, StruckOut
from gpud.model.events import Event, Process
from gpud.model.ids import ClientId, Generation, JobId, SessionId, Slot
from gpud.model.knobs import DeviceWords, PeerEntry
from gpud.model.levels import Barred, Division, Level, Motion

if TYPE_CHECKING:
    from gpud.engine.journal import Numbered
    from gpud.engine.live import Rows


class PagesPort(Protocol):
    """The pages of all clients. Methods about a client that is not there do nothing."""

    def create(self, client: ClientId, generation: Generation) -> None:
        """Raises OSError."""

    def adopt(self, client: ClientId, generation: Generation, presence_fd: int, activity_fd: int) -> None:
        """Takes the descriptors over. Raises OSError, ProtocolError."""

    def drop(self, client: ClientId) -> None: ...

    def publish(self, client: ClientId, slot: Slot, words: DeviceWords) -> None: ...

    def publish_failsafe(self, client: ClientId, after_ns: int | None) -> None:
        """None: the gates never open by themselves."""

    def divide(self, slot: Slot, division: Division | None, resumed: Iterable[Level], now: int) -> None:
        """From now on; None: the device's time is not divided any more."""

    def tell_edges(self, slot: Slot, told: bool) -> None:
        """Shall hooks tell of their edges there?"""

    def step_levels(self, now: int) -> dict[Slot, Motion]:
        """Levels and shares move on to now, and are published."""

    def barred(self) -> dict[tuple[JobId, Slot], Barred]:
        """Who is not believed there, as of the last step."""

    def levels(self) -> list[Level]:
        """Of all tenants on divided devices, as of the last step."""

    def refresh_lease(self, until_ns: int) -> None: ...

    def counters(self) -> dict[tuple[ClientId, Slot], Counters]: ...

    def hook_counters(self, client: ClientId) -> HookCounters: ...

    def reasons(self) -> dict[tuple[ClientId, Slot], str]:
        """What programs say that their turns are for, as it may stand in a line; of those that say anything."""

    def histograms(self, wanted: Iterable[tuple[ClientId, Slot]]) -> dict[tuple[ClientId, Slot], tuple[int, ...]]:
        """Of holds, those of the wanted that can be seen."""

    def delays(self, wanted: Iterable[tuple[ClientId, Slot]]) -> dict[tuple[ClientId, Slot], tuple[int, ...]]:
        """Likewise, from launch to start."""


class SessionsPort(Protocol):
    """The connections. Nothing here waits: what cannot be sent now is kept, what cannot be kept ends that
    connection."""

    def take_pages(self, session: SessionId) -> tuple[int, int] | None:
        """The two descriptors that came with a HELLO, now the caller's; None when the session is gone."""

    def welcome(self, welcome: SendWelcome) -> None: ...

    def refuse(self, session: SessionId, code: int, text: str) -> None: ...

    def send_queued(self, session: SessionId, wait_ns: int | None, text: str) -> None:
        """It waits in line, for so long at most: nobody hurries it meanwhile."""

    def send_slots(self, client: ClientId, slots: tuple[Slot | None, ...]) -> None: ...

    def send_peers(self, client: ClientId, serial: int, peers: tuple[PeerEntry, ...]) -> None: ...

    def send_alloc_reply(self, client: ClientId, slot: Slot, request: int, code: int) -> None:
        """`code` 0: there is room; else why not."""

    def send_swap_out(self, client: ClientId, slot: Slot, request: int, count: int) -> None: ...

    def send_host_slots(self, client: ClientId, slot: Slot, request: int, made: int, fd: int | None, code: int) -> None:
        """`fd` is copied or sent, and stays the caller's; None: `code` says why not."""

    def send_lock_granted(
        self, client: ClientId, slots: frozenset[Slot], epoch: int, until_ns: int, count: int, *, only_bytes: bool
    ) -> None: ...

    def send_lock_again(self, client: ClientId, slots: frozenset[Slot], epoch: int) -> None: ...

    def send_lock_revoked(self, client: ClientId, slots: frozenset[Slot], epoch: int, deadline_ns: int) -> None: ...

    def send_lock_refused(self, client: ClientId, request: int, text: str) -> None: ...

    def send_job(self, session: SessionId, job: JobId, environment: tuple[tuple[str, str], ...]) -> None: ...

    def send_attached(self, job: JobId, pid: int) -> None: ...

    def watch_launcher(self, job: JobId, pid: int, started: int) -> None: ...


class StatePort(Protocol):
    """The state file."""

    def write(self, content: bytes) -> None:
        """Replaces it at once as a whole. Raises OSError."""


class PolicyPort(Protocol):
    """Whoever decides which policies run. Called on the engine's task: nothing here waits."""

    def reloaded(self, done: Reloaded) -> None:
        """The set is in force: all pages are written."""

    def struck_out(self, out: StruckOut) -> None:
        """A policy of the running set does not do: another set is asked for by BoardChanged."""

    def devices_changed(self) -> None:
        """Where `apply` lines point may be another device now."""


class WatchPort(Protocol):
    """Whoever shows what the engine does, and keeps it. Called on the engine's task: nothing here waits."""

    def decided(self, effects: Sequence[Effect], now: int) -> None:
        """They have just been carried out. `now`: when they were decided, before anybody could see anything of it."""

    def happened(self, counters: Mapping[tuple[ClientId, Slot], Counters] | None) -> None:
        """After an event and all that came of it. `counters`: what it has brought of them, of just now."""


class EndPort(Protocol):
    """Whoever ends jobs that a policy ends. Called on the engine's task: nothing here waits."""

    def end(self, effect: EndJob) -> None: ...


class KeeperPort(Protocol):
    """Whoever keeps decisions and figures beyond the daemon's life. Called on the engine's task: nothing here waits."""

    def decided(self, decisions: "Sequence[Numbered]", offset: int, name_of: Callable[[int], str]) -> None:
        """`offset`: Unix time less the monotonic clock; `name_of`: of a job, while this is called."""

    def looked(self, rows: "Rows", offset: int) -> None:
        """Once a second at most, while anything is attached."""


class ObserverPort(Protocol):
    """Whoever draws conclusions from what happens, of the state that it was made with and never changes. Called on the
    engine's task: nothing here waits."""

    def saw(self, event: Event, effects: Sequence[Effect], now: int) -> None:
        """After an event whose effects have just been carried out. One that raises is not called again."""


class DeviceUsage(Protocol):
    """What the driver says of a device."""

    @property
    def total_bytes(self) -> int: ...

    @property
    def used_bytes(self) -> int: ...

    @property
    def power_w(self) -> float | None: ...

    @property
    def temperature_c(self) -> float | None: ...

    @property
    def utilisation(self) -> float | None: ...

    @property
    def processes(self) -> tuple[Process, ...] | None: ...

    @property
    def mps(self) -> bool: ...

    @property
    def mps_clients(self) -> bool: ...


class DriverPort(Protocol):
    """The driver's own figures."""

    @property
    def asked_ns(self) -> int:
        """When the question behind the last answer began, monotonic."""

    async def usage(self) -> Mapping[bytes, DeviceUsage]:
        """By UUID; empty while it does not answer. Never waits for long."""
