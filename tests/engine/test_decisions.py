"""What the engine does, as people read of it."""

from gpud.engine.decisions import Decisions, Made
from gpud.engine.publish import GATE_PAUSED
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.knobs import DeviceWords
from gpud.model.live_views import Decision
from gpud.model.units import SECOND
from tests.engine.conftest import GIB, UUID, World, board
from tests.engine.live_world import S0, TURNS

QUOTAS = "class job { match any  limit { memory = 100MiB } }"
ONE_JOB = "class job { match any  limit { tenants = 1 } }\n admit { when_full = queue(max = 1min) }"
BY_BUSY = """
  class job { match any }
  when gpu.busy > 50% { job.max_inflight = 1 }
"""


class Told(World):
    """Remembers what was decided."""

    def __init__(self, policy: str | None = None) -> None:
        super().__init__(running=board(("p", policy)) if policy else None)
        self.decisions = Decisions()
        self.made: list[Made] = []

    def react(self, event: ev.Event) -> list[Effect]:
        effects = super().react(event)
        self.made += self.decisions.of(self.state, effects, self.now)
        return effects

    def of(self, *kinds: str) -> list[Decision]:
        """All so far of these kinds, and forgets them."""
        found = [one.decision(1, 0) for one in self.made if one.kind in kinds]
        self.made = [one for one in self.made if one.kind not in kinds]
        return found

    def ask(self, client: ClientId) -> None:
        slots = frozenset({S0})
        self.react(ev.LockAsked(client=client, request=1, slots=slots, explicit=False, wait_ns=None))

    def back(self, client: ClientId, overrun: bool = False) -> None:
        epoch, slots = self.state.locks.last_epoch, frozenset({S0})
        self.react(ev.LockBack(client=client, slots=slots, epoch=epoch, overrun=overrun, never=False))


def test_a_job_comes_and_goes() -> None:
    world = Told()
    launcher, _ = world.launch(name="train")
    client = world.ready(launcher)
    world.gone(client)
    world.react(ev.LauncherEnded(job=world.state.tenants[1].id))  # type: ignore[index]
    found = world.of("admit", "attach", "detach", "note")
    assert [(one.kind, one.job) for one in found] == [("admit", 1), ("attach", 1), ("detach", 1), ("note", 1)]
    assert found[0].text == "job 1 (train, low) of ann began"
    assert found[3].text == "the launcher of job 1 ended"


def test_whose_a_job_was_is_known_when_it_has_ended() -> None:
    world = Told()
    client = world.ready()
    world.gone(client)
    assert not world.state.tenants
    assert {one.uid for one in world.made} == {1000}


def test_turns() -> None:
    world = Told(TURNS)
    first, second = world.low(), world.low()
    world.ask(first)
    world.ask(second)
    world.now += 10 * SECOND
    world.ticks(0)
    world.now += SECOND
    world.back(first)
    found = world.of("grant", "revoke", "back")
    assert [(one.kind, one.job, one.device, one.text) for one in found] == [
        ("grant", 1, 0, "job 1 (python) has device 0"),
        ("revoke", 1, 0, "job 1 (python) shall give device 0 back: job 2 (python) is next"),
        ("back", 1, 0, "job 1 (python) has given device 0 back after 11s"),
        ("grant", 2, 0, "job 2 (python) has device 0"),
    ]
    assert found[0].by == "p.gpol:4"
    world.gone(second)
    assert [one.text for one in world.of("back")] == ["job 2 (python) has given device 0 back after 0s"]


def test_a_turn_that_is_late_is_told_of_once() -> None:
    world = Told(TURNS)
    first, second = world.low(), world.low()
    world.ask(first)
    world.ask(second)
    world.ticks(10 * SECOND)
    world.back(first, overrun=True)
    world.back(first)
    kinds = [one.kind for one in world.of("grant", "revoke", "overrun", "back")]
    assert kinds == ["grant", "revoke", "overrun", "back", "grant"]


def test_a_hold_says_its_rule() -> None:
    world = Told("class job { match any }\n job.pause = true")
    world.low()
    (found,) = world.of("hold")
    assert (found.job, found.device, found.by) == (1, 0, "p.gpol:3")


def test_holds_of_a_job() -> None:
    world = Told()
    client = world.low()
    for gate in (GATE_PAUSED, GATE_PAUSED, 0, 0):
        effect = do.PublishDevice(client=client, slot=S0, words=DeviceWords(gate=gate, tenant=JobId(1)))
        world.made += world.decisions.of(world.state, [effect], world.now)
    assert [(one.kind, one.text) for one in world.of("hold", "go")] == [
        ("hold", "job 1 (python) is paused on device 0"),
        ("go", "job 1 (python) goes on on device 0"),
    ]


def test_a_knob_says_its_rule() -> None:
    world = Told(BY_BUSY)
    client = world.low()
    world.ticks(SECOND, {client: Counters()})
    for spent in (1, 2):
        world.ticks(SECOND // 10, {client: Counters(spent_ns=spent * SECOND, active=1, entered=spent)})
    (found,) = world.of("knob")
    assert (found.device, found.job, found.by) == (0, None, "p.gpol:4")
    assert found.text.startswith("job.max_inflight = 1 (p.gpol:4, when gpu.busy > 50%; gpu.busy = ")
    assert found.text.endswith(", was unlimited")


def test_who_waits_to_be_let_in_and_who_is_refused() -> None:
    world = Told(ONE_JOB)
    world.low()
    world.launch(name="late")
    world.later(61 * SECOND)
    found = world.of("queue", "refuse")
    assert [(one.kind, one.job) for one in found] == [("queue", 2), ("refuse", 2)]
    assert found[0].text.startswith("job 2 (late) of ann waits in line, up to 1min: ")


def test_a_refusal_without_a_job() -> None:
    world = Told()
    world.launch(None, **{"class": "gold"})
    (found,) = world.of("refuse")
    assert (found.job, found.level) == (None, "info")
    assert "gold" in found.text


def test_the_end_of_the_daemon_refuses_nobody_in_the_journal() -> None:
    world = Told()
    world.react(ev.DrainAsked())
    world.launch()
    assert world.of("refuse") == []


def test_allocations_that_fail_are_told_of_once_a_second() -> None:
    world = Told(QUOTAS)
    client = world.low()
    for number in range(5):
        world.react(ev.AllocAsked(client=client, slot=S0, request=number, bytes=GIB, time_ns=0, held={}))
    (found,) = world.of("oom")
    assert found.text == "an allocation of job 1 (python) on device 0 fails: it does not fit below its limit"
    assert (found.level, found.job, found.device) == ("warning", 1, 0)
    world.now += SECOND
    world.react(ev.AllocAsked(client=client, slot=S0, request=9, bytes=GIB, time_ns=0, held={}))
    assert len(world.of("oom")) == 1


def test_memory_that_is_asked_for() -> None:
    world = Told(TURNS)
    first, second = world.low(), world.low()
    world.ask(first)
    effect = do.SwapOut(client=second, slot=S0, request=1, bytes=2 * GIB)
    world.made += world.decisions.of(world.state, [effect], world.now)
    (found,) = world.of("swap_out")
    assert found.text == "job 2 (python) shall let 2GiB of device 0 go for job 1 (python)"


def test_a_reload_says_of_each_job_what_it_means_for_it() -> None:
    world = Told()
    world.low()
    changes = ("p applies on device 0", "job 1 (python) is gold now, was low", "job 7 stays pinned to x")
    effect = do.Reloaded(generation=2, digest="abcdef0123", why="files", changes=changes)
    world.made += world.decisions.of(world.state, [effect], world.now)
    (reload,) = world.of("reload")
    assert reload.text == "policies abcdef01 in force (files, number 2): p applies on device 0"
    assert [(one.job, one.text) for one in world.of("note")] == [(1, changes[1]), (7, changes[2])]


def test_another_set_is_one_decision() -> None:
    world = Told()
    world.react(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
    world.react(ev.BoardChanged(board=board(("p", QUOTAS)), why="files", reading=world.reading()))
    assert len(world.of("reload")) == 1


def test_what_was_written_for_the_log_alone_is_no_decision() -> None:
    world = Told()
    lines = [do.Record(level="info", text="x", kind=""), do.Record(level="info", text="y", kind="audit", by="ann")]
    world.made += world.decisions.of(world.state, lines, world.now)
    assert [(one.kind, one.by, one.device) for one in world.of("audit", "")] == [("audit", "ann", None)]


def test_text_of_others_stays_in_one_line() -> None:
    world = Told()
    line = do.Record(level="info", text="a\nb\x1b[31m" + "x" * 2000, slot=Slot(3))
    world.made += world.decisions.of(world.state, [line], world.now)
    (found,) = world.of("note")
    assert found.text.isprintable()
    assert (len(found.text), found.device) == (600, 3)
