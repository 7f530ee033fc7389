"""Who may ask what: a table of who × verb × whose job, and what a denial says."""

import itertools

import msgspec
import pytest

from gpud.control import wire
from gpud.control.authority import Denied, Owner, Peer, Rules, Sees, verb, wording

OWN = 990
"""The daemon's own user."""
READS: tuple[wire.Ask, ...] = (
    wire.AskStatus(),
    wire.AskPs(),
    wire.AskUnmanaged(),
    wire.AskStats(),
    wire.AskStats(job=1),
    wire.AskJobOf(pid=7),
    wire.AskWhy(job=1),
    wire.AskFeed(),
    wire.AskPast(at_ns=1),
    wire.AskJournal(since_at_ns=0, until_at_ns=1),
    wire.AskHistory(),
    wire.AskShow(),
    wire.AskDiff(),
)
CHANGES: tuple[wire.Ask, ...] = (
    wire.AskSet(job=1, job_class="high"),
    wire.AskPause(job=1),
    wire.AskResume(job=1),
    wire.AskEvict(job=1),
    wire.AskKill(job=1),
)
OPERATES: tuple[wire.Ask, ...] = (wire.AskStop(), wire.AskReload(), wire.AskRollback())
OTHERS_JOB = Owner(job=1, name="train", user="bob", uid=1002)
OWN_JOB = Owner(job=1, name="train", user="alice", uid=1001)


def peer(uid: int = 1001, groups: tuple[str, ...] = ("users",), user: str = "alice") -> Peer:
    return Peer(pid=4711, uid=uid, gid=100, groups=groups, user=user)


OPERATORS = {
    "root": peer(0, user="root"),
    "the daemon's own user": peer(OWN, user="gpud"),
    "a member": peer(1003, ("users", "gpud-operators"), "carol"),
}


def may(rules: Rules, who: Peer, ask: wire.Ask, owner: Owner | None = None) -> bool:
    try:
        rules.check(who, ask, owner)
    except Denied:
        return False
    return True


def test_every_question_is_in_the_table() -> None:
    asked = {type(ask) for ask in (*READS, *CHANGES, *OPERATES)}
    assert asked == set(wire.Ask.__args__)


@pytest.mark.parametrize("readers", ["everyone", "owners", "operators"])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_may_do_everything(name: str, readers: str) -> None:
    rules = Rules(own_uid=OWN, readers=readers)
    for ask, owner in itertools.product((*READS, *CHANGES, *OPERATES), (OWN_JOB, OTHERS_JOB, None)):
        assert may(rules, OPERATORS[name], ask, owner), (ask, owner)
    assert rules.sees(OPERATORS[name]) is Sees.ALL


@pytest.mark.parametrize(
    ("readers", "sees", "reads"),
    [("everyone", Sees.ALL, True), ("owners", Sees.OWN, True), ("operators", Sees.NOTHING, False)],
)
def test_a_user(readers: str, sees: Sees, reads: bool) -> None:
    rules, alice = Rules(own_uid=OWN, readers=readers), peer()
    assert [may(rules, alice, ask) for ask in READS] == [reads] * len(READS)
    assert [may(rules, alice, ask, OWN_JOB) for ask in CHANGES] == [True] * len(CHANGES)
    assert [may(rules, alice, ask, OTHERS_JOB) for ask in CHANGES] == [False] * len(CHANGES)
    assert [may(rules, alice, ask) for ask in OPERATES] == [False] * len(OPERATES)
    assert rules.sees(alice) is sees
    assert rules.may_see(alice, 1001)
    assert rules.may_see(alice, 1002) == (readers == "everyone")


def test_a_daemon_of_ones_own() -> None:
    """Its user is its operator, and so is root."""
    rules = Rules(own_uid=1001)
    assert all(may(rules, peer(), ask, OTHERS_JOB) for ask in (*READS, *CHANGES, *OPERATES))
    assert not may(rules, peer(1002), wire.AskStop())


def test_another_name_of_the_group() -> None:
    rules = Rules(own_uid=OWN, operators="wheel")
    assert rules.is_operator(peer(groups=("users", "wheel")))
    assert not rules.is_operator(peer(groups=("gpud-operators", "wheels")))


def test_a_user_called_like_the_group_is_no_operator() -> None:
    assert not Rules(own_uid=OWN).is_operator(peer(user="gpud-operators"))


@pytest.mark.parametrize(
    ("ask", "owner", "readers", "says"),
    [
        (
            wire.AskPause(job=1), OTHERS_JOB, "everyone",
            "pause: job 1 (train) is bob's, who may change it, and so may root, user 990 or a member of the group "
            "gpud-operators; you are alice (uid 1001)",
        ),
        (
            wire.AskKill(job=1), OTHERS_JOB, "owners",
            "kill: there is no job 1 of yours; you are alice (uid 1001)",
        ),
        (
            wire.AskStop(), None, "everyone",
            "stop is for operators: root, user 990 or a member of the group gpud-operators; you are alice (uid 1001)",
        ),
        (
            wire.AskPs(), None, "operators",
            "ps: only root, user 990 or a member of the group gpud-operators may read here, by `readers` of [control] "
            "in gpud.toml; you are alice (uid 1001)",
        ),
    ],
)  # fmt: skip
def test_a_denial_names_what_who_and_who_may(ask: wire.Ask, owner: Owner | None, readers: str, says: str) -> None:
    with pytest.raises(Denied) as denied:
        Rules(own_uid=OWN, readers=readers).check(peer(), ask, owner)
    assert str(denied.value) == says


def test_names_with_control_characters_cannot_write_lines() -> None:
    strange = Owner(job=1, name="a\nb\x1b[2J", user="bo\rb", uid=1002)
    with pytest.raises(Denied) as denied:
        Rules(own_uid=0).check(peer(user="al\nice"), wire.AskPause(job=1), strange)
    assert str(denied.value).isprintable()
    assert "user" not in str(denied.value), "root has no number of its own here"
    assert str(peer(user="al\nice")).isprintable()


def test_what_was_asked_in_words() -> None:
    assert wording(wire.AskSet(job=1, memory_bytes=5)) == "set memory_bytes=5"
    assert wording(wire.AskSet(job=1, job_class=None)) == "set job_class=None"
    assert wording(wire.AskKill(job=1, signal="9; rm\n")) == "kill signal=9; rm\\n pids=()"
    assert len(wording(wire.AskSet(job=1, job_class="\x00" * 100_000))) < 120
    assert verb(wire.AskRollback()) == "rollback"
    assert msgspec.structs.fields(wire.AskSet)[0].name == "job"
