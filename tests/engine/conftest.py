from collections.abc import Sequence
from typing import TypeVar

import pytest

from gpud.engine.preempt_mix import PreemptMix
from gpud.engine.reducer import react
from gpud.engine.state import State
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, Generation, SessionId, Slot
from gpud.model.units import MILLISECOND, SECOND

_E = TypeVar("_E")
UUID = bytes(range(16))
GIB = 1 << 30


def new_state() -> State:
    policy = PreemptMix(resume_after_ns=MILLISECOND, max_inflight=1, max_pause_ns=2 * SECOND)
    return State(policy=policy, lease_ns=3 * SECOND, environment=(("GPUD_SIM_NODE", "n"),), last_generation=1000)


def asks(session: int, who: ev.Who, client: int = 0, generation: int = 0) -> ev.AttachAsked:
    """A hook wants in: anew, or with the pages of that client and generation."""
    return ev.AttachAsked(
        session=SessionId(session),
        who=who,
        client=ClientId(client),
        generation=Generation(generation),
        again=client != 0,
    )


class World:
    """A state, a clock, and short words for events. Every method returns the effects."""

    def __init__(self, state: State | None = None) -> None:
        self.state = state or new_state()
        self.now = 100 * SECOND
        self._session = 0
        self._pid = 100

    def react(self, event: ev.Event) -> list[Effect]:
        return react(self.state, event, self.now)

    def session(self) -> int:
        self._session += 1
        return self._session

    def who(self, ancestors: tuple[tuple[int, int], ...] = ()) -> ev.Who:
        self._pid += 1
        return ev.Who(pid=self._pid, started=1, uid=0, user="ann", command="python x.py", ancestors=ancestors)

    def launch(self, **asked: str) -> tuple[ev.Who, list[Effect]]:
        who = self.who()
        pairs = tuple((key.replace("label_", "label."), value) for key, value in asked.items())
        return who, self.react(ev.LaunchAsked(session=self.session(), who=who, asked=pairs))

    def attach(self, launcher: ev.Who | None = None, who: ev.Who | None = None) -> tuple[ClientId, list[Effect]]:
        who = who or self.who(((launcher.pid, launcher.started),) if launcher else ())
        effects = self.react(asks(self.session(), who))
        welcome = [effect for effect in effects if isinstance(effect, do.SendWelcome)]
        return (welcome[0].client if welcome else ClientId(0)), effects

    def ready(self, launcher: ev.Who | None = None, devices: Sequence[bytes] = (UUID,)) -> ClientId:
        """Attached, mapped, devices known and slots heard, whoever is slow."""
        client, _ = self.attach(launcher)
        self.react(ev.Mapped(client=client))
        self.react(ev.DevicesReported(client=client, devices=tuple((uuid, GIB) for uuid in devices)))
        self.all_map()
        return client

    def all_map(self) -> list[Effect]:
        """Every client maps the peers it was told of."""
        return [
            effect
            for c in list(self.state.clients.values())
            for effect in self.react(ev.PeersMapped(client=c.id, serial=c.serial, mapped=len(c.peers)))
        ]

    def high(self) -> ClientId:
        return self.ready(self.launch(label_tier="online")[0])

    def low(self) -> ClientId:
        return self.ready(self.launch()[0])

    def gone(self, client: ClientId) -> list[Effect]:
        return self.react(
            ev.Detached(client=client, session=self.state.clients[client].session, reason="its process ended")
        )

    def later(self, ns: int, presence: dict[tuple[ClientId, Slot], ev.Presence] | None = None) -> list[Effect]:
        self.now += ns
        return self.react(ev.Tick(presence=presence or {}))


def only(effects: Sequence[object], kind: type[_E]) -> list[_E]:
    return [effect for effect in effects if isinstance(effect, kind)]


@pytest.fixture
def world() -> World:
    return World()
