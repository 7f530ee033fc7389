"""What is made of the memory of clients without hook, by lists of events. The device has 1 GiB."""

from gpud.engine import hookless_memory, memory_line, saved
from gpud.engine.slots import slot_named
from gpud.engine.state import State
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import ClientId
from gpud.model.knobs import UNLIMITED
from gpud.model.units import SECOND
from tests.engine.conftest import UUID, by, new_state, only
from tests.engine.swaps import MIB, SWAPS, ZERO, Swaps

TOTAL = 1024 * MIB


class Apart(Swaps):
    def join_hookless(self, swaps: bool = True) -> ClientId:
        client = self.join()
        found = self.state.clients[client]
        found.hookless, found.swaps = True, swaps
        return client

    def told(self, **used: int) -> list[Effect]:
        """The driver says what is in use, by `c` and the number of a client."""
        self.now += SECOND
        there = {ClientId(int(name[1:])): count * MIB for name, count in used.items()}
        processes = tuple(
            ev.Process(pid=who.pid, started=who.started, user="", command="", used_bytes=count)
            for client, count in there.items()
            for who in (self.state.clients[client].who,)
        )
        seen = ev.Seen(total_bytes=TOTAL, used_bytes=sum(there.values()), processes=processes)
        event = ev.DriverTold(
            devices={UUID: seen}, asked_ns=self.now, held=self.held, held_ns=self.now, after=self.held
        )
        return self.react(event)

    def granted(self, effects: list[Effect], client: ClientId) -> list[int]:
        return [one.bytes for one in effects if isinstance(one, do.SendLockGranted) and one.client == client]

    def restarted(self) -> State:
        new = new_state(self.state.board)
        found = saved.load(saved.dump(self.state, "boot"), "boot")
        assert found is not None
        saved.restore(new, found, lambda _pid, _started: True, self.now + SECOND)
        return new

    def has_had_a_turn(self, client: ClientId) -> None:
        self.ask(client)
        self.is_in(client)
        self.now += SECOND
        self.back(client)


def name(client: ClientId) -> str:
    return f"c{client}"


def test_what_it_holds_can_leave_or_is_pinned_and_others_are_what_their_pages_say() -> None:
    world = Apart()
    hooked, moves, stays = world.join(resident=100 * MIB), world.join_hookless(), world.join_hookless(swaps=False)
    world.told(**{name(hooked): 100, name(moves): 200, name(stays): 300})
    rows = world.state.held
    assert rows[hooked, ZERO] == world.rows[hooked]
    assert (rows[moves, ZERO].resident_bytes, rows[moves, ZERO].pinned_bytes) == (200 * MIB, 0)
    assert (rows[stays, ZERO].resident_bytes, rows[stays, ZERO].pinned_bytes) == (0, 300 * MIB)
    assert hookless_memory.amended(world.state, rows) == rows


def test_it_is_asked_once_the_driver_has_told_what_it_holds_and_lacks_what_left() -> None:
    world = Apart()
    one, other = world.join_hookless(), world.join(lazy=700 * MIB)
    world.has_had_a_turn(one)
    world.told(**{name(one): 600})
    world.told(**{name(one): 600})
    (asked,) = only(world.ask(other), do.SwapOut)
    assert asked.client == one
    world.react(ev.Swapped(client=one, slot=ZERO, request=asked.request, code=1, bytes=asked.bytes, held=world.held))
    row = world.state.held[one, ZERO]
    assert (row.resident_bytes, row.pinned_bytes, row.host_bytes) == (0, 600 * MIB, 600 * MIB), "nobody knows yet"
    world.told(**{name(one): 50})
    row = world.state.held[one, ZERO]
    assert (row.resident_bytes, row.pinned_bytes, row.host_bytes) == (0, 50 * MIB, 550 * MIB)


def test_it_comes_in_when_the_driver_says_that_there_is_room() -> None:
    world = Apart()
    one = world.join_hookless()
    world.has_had_a_turn(one)
    world.state.apart[one, ZERO] = hookless_memory.Apart(used=50 * MIB, away=True, before=600 * MIB, was_in=True)
    world.told(**{name(one): 50})
    assert world.granted(world.ask(one), one) == [0]
    assert world.granted(world.told(**{name(one): 50}), one) == [UNLIMITED]
    world.is_in(one)
    assert world.state.held[one, ZERO].resident_bytes == 600 * MIB, "until the driver says otherwise"


def test_for_one_that_has_never_been_in_others_without_hook_let_go() -> None:
    world = Apart()
    one, hooked = world.join_hookless(), world.join(resident=100 * MIB)
    world.has_had_a_turn(one)
    world.told(**{name(one): 200, name(hooked): 100})
    new = world.join_hookless()
    effects = world.ask(new)
    assert world.granted(effects, new) == [0]
    (asked,) = only(effects, do.SwapOut)
    assert asked.client == one
    done = ev.Swapped(client=one, slot=ZERO, request=asked.request, code=1, bytes=asked.bytes, held=world.held)
    assert world.granted(world.react(done), new) == [UNLIMITED]


def away(world: Apart, used: int = 50, before: int = 600) -> ClientId:
    """One that has had a turn, and has let go."""
    one = world.join_hookless()
    world.has_had_a_turn(one)
    world.state.apart[one, ZERO] = hookless_memory.Apart(
        used=used * MIB, away=True, before=before * MIB, was_in=True, seen_ns=world.now
    )
    return one


def done(world: Apart, asked: do.SwapOut) -> list[Effect]:
    return world.react(
        ev.Swapped(client=asked.client, slot=ZERO, request=asked.request, code=1, bytes=asked.bytes, held=world.held)
    )


def test_what_the_driver_tells_while_it_lets_go_is_not_what_it_held() -> None:
    world = Apart()
    one, other = world.join_hookless(), world.join(lazy=700 * MIB)
    world.has_had_a_turn(one)
    world.told(**{name(one): 600})
    world.told(**{name(one): 600})
    effects = world.ask(other)
    (asked,) = only(effects, do.SwapOut)
    kinds = [type(effect) for effect in effects]
    assert kinds.index(do.SaveState) < kinds.index(do.SwapOut), "another daemon knows what it held"
    world.told(**{name(one): 300})
    world.told(**{name(one): 50})
    done(world, asked)
    world.told(**{name(one): 50})
    assert world.state.held[one, ZERO].host_bytes == 550 * MIB
    new = world.restarted()
    assert new.apart[one, ZERO].lacks == 600 * MIB, "until the driver is asked"


def test_one_that_has_no_room_for_what_is_kept_comes_in_all_the_same() -> None:
    world = Apart(SWAPS.replace("4GiB)]", "4GiB)]  keep = 512MiB"))
    one = away(world, used=0, before=900)
    world.told(**{name(one): 0})
    assert world.granted(world.ask(one), one) == [0]
    assert world.granted(world.told(**{name(one): 0}) + world.told(**{name(one): 0}), one) == [UNLIMITED]


def test_where_the_driver_does_not_tell_of_processes_they_take_turns_all_the_same() -> None:
    world = Apart()
    one, other = world.join_hookless(), world.join_hookless()
    for client in (one, other):
        world.has_had_a_turn(client)
    effects = world.ask(one)
    for _ in range(2):
        world.now += SECOND
        seen = ev.Seen(total_bytes=TOTAL, used_bytes=0, processes=None)
        effects += world.react(ev.DriverTold(devices={UUID: seen}, asked_ns=world.now, after=world.held))
    for asked in only(effects, do.SwapOut):
        effects += done(world, asked)
    assert world.granted(effects, one)[-1:] == [UNLIMITED]


def test_what_has_just_left_makes_no_allocation_fail() -> None:
    world = Apart()
    one, other = world.join_hookless(), world.join()
    world.has_had_a_turn(one)
    world.ask(other)
    world.is_in(other)
    for _ in range(2):
        world.told(**{name(one): 600})
    asks = ev.AllocAsked(client=other, slot=ZERO, request=7, bytes=700 * MIB, time_ns=0, held=world.held)
    (asked,) = only(world.react(asks), do.SwapOut)
    assert only(done(world, asked), do.SendAllocReply) == []
    replies = only(world.told(**{name(one): 50}) + world.told(**{name(one): 50}), do.SendAllocReply)
    assert [reply.code for reply in replies] == [memory_line.YES]


def test_one_that_is_evicted_during_its_turn_lets_go_once_it_is_measured() -> None:
    world = Apart()
    one = world.join_hookless()
    world.ask(one)
    world.is_in(one)
    world.told(**{name(one): 600})
    world.react(ev.EvictAsked(job=world.state.clients[one].job, by=by()))
    world.now += SECOND
    assert only(world.back(one), do.SwapOut) == [], "nobody knows yet what it holds"
    assert [asked.client for asked in only(world.told(**{name(one): 600}), do.SwapOut)] == [one]


def test_one_that_is_asked_comes_in_only_when_it_has_answered() -> None:
    world = Apart()
    one, other = world.join_hookless(), world.join(lazy=700 * MIB)
    world.has_had_a_turn(one)
    world.told(**{name(one): 600})
    world.told(**{name(one): 600})
    (asked,) = only(world.ask(other), do.SwapOut)
    world.back(other)
    assert world.granted(world.ask(one), one) == [0]
    done(world, asked)
    world.told(**{name(one): 50})
    assert world.granted(world.told(**{name(one): 50}), one) == [UNLIMITED]


def test_what_came_in_unheard_can_be_asked_to_leave() -> None:
    world = Apart()
    one = away(world, used=40)
    world.told(**{name(one): 50})
    assert world.state.held[one, ZERO].resident_bytes == 0
    world.told(**{name(one): 600})
    assert world.state.held[one, ZERO].resident_bytes == 600 * MIB


def test_what_a_process_below_it_holds_is_its() -> None:
    world = Apart()
    one, hooked = world.join_hookless(), world.join()
    at = [(who.pid, who.started) for who in (world.state.clients[one].who, world.state.clients[hooked].who)]
    told = [
        ev.Process(pid=at[1][0], started=at[1][1], user="", command="", used_bytes=100 * MIB, ancestors=(at[0],)),
        ev.Process(pid=9001, started=1, user="", command="", used_bytes=200 * MIB, ancestors=((9000, 1), at[0])),
        ev.Process(pid=9002, started=1, user="", command="", used_bytes=300 * MIB, ancestors=(at[1], at[0])),
        ev.Process(pid=9003, started=1, user="", command="", used_bytes=None, ancestors=(at[0],)),
    ]
    seen = ev.Seen(total_bytes=TOTAL, used_bytes=600 * MIB, processes=tuple(told))
    world.now += SECOND
    world.react(ev.DriverTold(devices={UUID: seen}, asked_ns=world.now, held=world.held, after=world.held))
    assert world.state.held[one, ZERO].used_bytes == 200 * MIB


def test_one_that_is_still_out_says_so() -> None:
    world = Apart()
    one = world.join_hookless()
    world.state.apart[one, ZERO] = hookless_memory.Apart(used=50 * MIB, before=600 * MIB, was_in=True)
    slots = frozenset({ZERO})
    world.react(
        ev.LockAsked(
            client=one, request=1, slots=slots, explicit=True, wait_ns=None, swaps=True, out=True, held=world.held
        )
    )
    assert world.state.apart[one, ZERO].away
    assert world.state.apart[one, ZERO].before == 600 * MIB


def test_a_device_is_named_by_its_number_or_by_what_is_known() -> None:
    world = Apart()
    client = world.state.clients[world.join_hookless()]
    assert slot_named(world.state, client, bytes(16), 0) == ZERO
    assert slot_named(world.state, client, bytes(16), 1) is None
    assert slot_named(world.state, client, UUID, 0) == ZERO
    assert slot_named(world.state, client, bytes(15) + b"x", 0) is None, "it makes no device known"
