from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeVar

import pytest

from gpud.engine.board import Board
from gpud.engine.reducer import react
from gpud.engine.standing import class_text
from gpud.engine.state import State
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, Generation, SessionId, Slot
from gpud.model.levels import Motion
from gpud.model.rulings import By
from gpud.model.units import SECOND
from gpud.testing.boards import board_from_texts

_E = TypeVar("_E")
UUID = bytes(range(16))
GIB = 1 << 30
PREEMPT_MIX = """
  param quiet = 1ms
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate preempt { order = [high, low]  max_inflight = 1  resume_after = quiet  max_pause = 2s }
  failsafe { daemon_lost = hold  after = 30s }
"""


@cache
def board(*policies: tuple[str, str], site: str = "") -> Board:
    """(name, body) of each policy. All apply to every device, unless `site` has `apply` lines."""
    texts = {f"{name}.gpol": f'gpol 1\npolicy "{name}" {{{body}}}\n' for name, body in policies}
    if not site:
        site = "apply " + ", ".join(f'"{name}"' for name, _ in policies) + " to gpu *"
    return board_from_texts(texts | {"site.gpol": f"gpol 1\n{site}\n"})


def preempt_mix() -> Board:
    """Compiled once for all tests."""
    return board(("preempt-mix", PREEMPT_MIX))


def new_state(running: Board | None = None) -> State:
    return State(
        board=running or preempt_mix(),
        lease_ns=3 * SECOND,
        environment=(("GPUD_SIM_NODE", "n"),),
        last_generation=1000,
    )


def by(operator: bool = True) -> By:
    """Who asks for a change."""
    return By(name="root (uid 0)", operator=True) if operator else By(name="ann (uid 1000)", operator=False)


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

    def __init__(self, state: State | None = None, running: Board | None = None) -> None:
        self.state = state or new_state(running)
        self.now = 100 * SECOND
        self._session = 0
        self._pid = 100

    def react(self, event: ev.Event) -> list[Effect]:
        return react(self.state, event, self.now)

    def session(self) -> int:
        self._session += 1
        return self._session

    def who(self, ancestors: tuple[tuple[int, int], ...] = (), uid: int = 1000, user: str = "ann") -> ev.Who:
        self._pid += 1
        return ev.Who(
            pid=self._pid,
            started=1,
            uid=uid,
            user=user,
            command="python x.py",
            ancestors=ancestors,
            exe="/usr/bin/python3",
            cgroup=f"/user.slice/{user}",
            group="staff",
            groups=("staff", "video"),
        )

    def launch(self, who: ev.Who | None = None, **asked: str) -> tuple[ev.Who, list[Effect]]:
        who = who or self.who()
        pairs = tuple((key.replace("label_", "label."), value) for key, value in asked.items())
        return who, self.react(ev.LaunchAsked(session=SessionId(self.session()), who=who, asked=pairs))

    def class_of(self, client: ClientId) -> str:
        return class_text(self.state, self.state.tenants[self.state.clients[client].job])

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

    def react_devices(self, client: ClientId, devices: Sequence[bytes] = (UUID,)) -> list[Effect]:
        """It has mapped its pages, and tells of its devices."""
        effects = self.react(ev.Mapped(client=client))
        return effects + self.react(ev.DevicesReported(client=client, devices=tuple((uuid, GIB) for uuid in devices)))

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

    def later(self, ns: int, motion: Mapping[Slot, Motion] | None = None) -> list[Effect]:
        """Time passes; the policies are not looked at. `motion`: there was a step of the levels, and it found this."""
        self.now += ns
        return self.react(ev.Tick(motion=motion))

    def reading(
        self,
        counters: Mapping[ClientId, Counters] | None = None,
        histograms: Mapping[ClientId, tuple[int, ...]] | None = None,
        delays: Mapping[ClientId, tuple[int, ...]] | None = None,
        **more: int,
    ) -> ev.Reading:
        """Of now, on every device of each client; clients that are not named are idle."""
        clients = self.state.clients.values()
        return ev.Reading(
            wall_ns=more.get("wall_ns", self.now),
            counters={(c.id, slot): (counters or {}).get(c.id, Counters()) for c in clients for slot in c.slots()},
            histograms={(c.id, slot): (histograms or {}).get(c.id, (0,) * 32) for c in clients for slot in c.slots()},
            delays={(c.id, slot): (delays or {}).get(c.id, (0,) * 32) for c in clients for slot in c.slots()},
            host_free=more.get("host_free"),
        )

    def ticks(
        self,
        ns: int,
        counters: Mapping[ClientId, Counters] | None = None,
        histograms: Mapping[ClientId, tuple[int, ...]] | None = None,
        delays: Mapping[ClientId, tuple[int, ...]] | None = None,
        **more: int,
    ) -> list[Effect]:
        """Time passes, and the policies look at what was read."""
        self.now += ns
        return self.react(ev.Tick(reading=self.reading(counters, histograms, delays, **more)))


def only(effects: Sequence[object], kind: type[_E]) -> list[_E]:
    return [effect for effect in effects if isinstance(effect, kind)]


@pytest.fixture
def world() -> World:
    return World()
