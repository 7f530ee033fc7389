"""What the engine needs of the world. `daemon.py` passes the real ones in, tests pass fakes."""

from collections.abc import Iterable
from typing import Protocol

from gpud.model.counters import Counters, HookCounters
from gpud.model.effects import SendWelcome
from gpud.model.events import Presence
from gpud.model.ids import ClientId, Generation, JobId, SessionId, Slot
from gpud.model.knobs import DeviceWords, PeerEntry


class PagesPort(Protocol):
    """The pages of all clients. Methods about a client that is not there do nothing."""

    def create(self, client: ClientId, generation: Generation) -> None:
        """Raises OSError."""

    def adopt(self, client: ClientId, generation: Generation, presence_fd: int, activity_fd: int) -> None:
        """Takes the descriptors over. Raises OSError, ProtocolError."""

    def drop(self, client: ClientId) -> None: ...

    def publish(self, client: ClientId, slot: Slot, words: DeviceWords) -> None: ...

    def publish_others(self, client: ClientId, slot: Slot, active: bool) -> None: ...

    def refresh_lease(self, until_ns: int) -> None: ...

    def counters(self) -> dict[tuple[ClientId, Slot], Counters]: ...

    def hook_counters(self, client: ClientId) -> HookCounters: ...

    def presence(self, wanted: Iterable[tuple[ClientId, Slot]]) -> dict[tuple[ClientId, Slot], Presence]: ...


class SessionsPort(Protocol):
    """The connections. Nothing here waits: what cannot be sent now is kept, what cannot be kept ends that
    connection."""

    def take_pages(self, session: SessionId) -> tuple[int, int] | None:
        """The two descriptors that came with a HELLO, now the caller's; None when the session is gone."""

    def welcome(self, welcome: SendWelcome) -> None: ...

    def refuse(self, session: SessionId, code: int, text: str) -> None: ...

    def send_slots(self, client: ClientId, slots: tuple[Slot | None, ...]) -> None: ...

    def send_peers(self, client: ClientId, serial: int, peers: tuple[PeerEntry, ...]) -> None: ...

    def send_job(self, session: SessionId, job: JobId, environment: tuple[tuple[str, str], ...]) -> None: ...

    def send_attached(self, job: JobId, pid: int) -> None: ...

    def watch_launcher(self, job: JobId, pid: int, started: int) -> None: ...


class StatePort(Protocol):
    """The state file."""

    def write(self, content: bytes) -> None:
        """Replaces it at once as a whole. Raises OSError."""
