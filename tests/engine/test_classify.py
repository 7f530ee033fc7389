import pytest
from attrs import evolve

from gpud.engine.claims import is_member
from gpud.engine.classify import facts_of
from gpud.engine.standing import class_text
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.errors import Refused
from gpud.model.ids import ClientId, SessionId, Slot
from gpud.policies.label_values import limits, read_label
from tests.engine.conftest import GIB, UUID, World, board, new_state, only

PICKY = """
  class batch   { match label("tier") == "batch" }
  class service { match user == "bob" or exe ~ "*/vllm" }
  arbitrate preempt { order = [service, batch]  resume_after = 1ms  max_inflight = 2 }
"""
LIMITER = 'class big { match label("size") == "big" }  class rest { match any }  big.max_inflight = 1'


def refusal(world: World, who: ev.Who | None = None, **asked: str) -> str:
    _, effects = world.launch(who, **asked)
    (refused,) = effects
    assert isinstance(refused, do.Refuse)
    assert refused.code == 3
    assert world.state.tenants == {}
    return refused.text


@pytest.mark.parametrize(
    ("asked", "job_class"),
    [
        ({"label_tier": "batch"}, "batch"),
        ({"class": "service"}, "service"),
    ],
)
def test_first_match_wins(asked: dict[str, str], job_class: str) -> None:
    world = World(running=board(("picky", PICKY)))
    assert world.class_of(world.ready(world.launch(**asked)[0])) == job_class


def runs(world: World, launcher: ev.Who, exe: str) -> ClientId:
    """A process of the job attaches that runs this program."""
    who = evolve(world.who(((launcher.pid, launcher.started),)), exe=exe)
    return world.attach(who=who)[0]


def test_the_program_comes_from_the_kernel_once_a_process_attaches() -> None:
    """Until then it is what `gpud run` says: it must be let in, and holds nobody yet."""
    world = World(running=board(("picky", PICKY)))
    launcher, _ = world.launch(exe="/opt/vllm")
    (tenant,) = world.state.tenants.values()
    assert class_text(world.state, tenant) == "service"
    honest = runs(world, launcher, "/opt/vllm")
    assert world.class_of(honest) == "service"
    runs(world, launcher, "/bin/sh")  # the first one counts
    assert world.class_of(honest) == "service"
    assert tenant.facts.exe == "/opt/vllm"

    launcher, _ = world.launch(exe="/opt/vllm")
    client = runs(world, launcher, "/home/ann/mine")
    assert world.class_of(client) == "unclassified"
    tenant = world.state.tenants[world.state.clients[client].job]
    assert (tenant.exe, tenant.facts.exe) == ("/home/ann/mine", "/home/ann/mine")
    runs(world, launcher, "/opt/vllm")
    assert world.class_of(client) == "unclassified"


def test_a_program_that_the_kernel_names_otherwise_is_told_of() -> None:
    picky = PICKY.replace("batch]", "batch, rest]") + " class rest { match any }"
    world = World(running=board(("picky", picky)))
    launcher, _ = world.launch(exe="/opt/vllm")
    who = evolve(world.who(((launcher.pid, launcher.started),)), exe="/usr/bin/python3")
    _, effects = world.attach(who=who)
    assert only(effects, do.Record)[0].text == (
        "job 1 runs /usr/bin/python3, not /opt/vllm as gpud run said: service → rest"
    )
    launcher, _ = world.launch(exe="/opt/vllm", label_tier="batch")  # another class would not be right: no word of it
    _, effects = world.attach(who=evolve(world.who(((launcher.pid, launcher.started),)), exe="/bin/sh"))
    assert len(only(effects, do.Record)) == 1


def test_where_the_kernel_does_not_name_it_the_next_process_may_be_the_first() -> None:
    world = World(running=board(("picky", PICKY)))
    launcher, _ = world.launch(exe="/opt/vllm")
    who = evolve(world.who(((launcher.pid, launcher.started),)), exe="")
    client, _ = world.attach(who=who)
    world.react(ev.Mapped(client=client))
    world.react(ev.DevicesReported(client=client, devices=((UUID, GIB),)))
    assert world.class_of(client) == "service"
    assert world.state.clients[client].words[Slot(0)].rank == 0
    runs(world, launcher, "/bin/sh")
    assert world.class_of(client) == "unclassified"
    assert world.state.clients[client].words[Slot(0)].rank == 2


def test_a_pin_holds_whatever_the_program_is() -> None:
    world = World(running=board(("picky", PICKY)))
    launcher, _ = world.launch(exe="/opt/vllm", **{"class": "batch"})
    assert world.class_of(runs(world, launcher, "/bin/sh")) == "batch"


def test_the_user_comes_from_the_kernel() -> None:
    world = World(running=board(("picky", PICKY)))
    assert world.class_of(world.ready(world.launch(world.who(uid=1001, user="bob"))[0])) == "service"


def test_a_job_that_no_class_takes_is_refused_with_what_they_take() -> None:
    text = refusal(World(running=board(("picky", PICKY))))
    assert "no class of the policy picky takes this job" in text
    assert 'batch takes label("tier") == "batch"' in text
    assert "--class batch" in text


def test_a_process_that_no_class_takes_runs_below_all() -> None:
    """Refusing it would let it run without any gate."""
    world = World(running=board(("picky", PICKY)))
    _, effects = world.attach()
    assert any("no class takes job 1" in record.text for record in only(effects, do.Record))
    alone = world.ready()
    batch = world.ready(world.launch(label_tier="batch")[0])
    words = world.state.clients[alone].words[Slot(0)]
    assert world.class_of(alone) == "unclassified"
    assert (words.rank, words.max_inflight) == (2, 2)
    assert [peer.client for peer in words.peers] == [batch]


def test_no_class_to_choose() -> None:
    assert "no policy arbitrates here" in refusal(World(running=board(("limiter", LIMITER))), **{"class": "big"})
    picky = World(running=board(("picky", PICKY)))
    assert "unknown class 'gold'; the policy picky has batch, service" in refusal(picky, **{"class": "gold"})


def test_a_class_of_a_limiter_cannot_be_chosen() -> None:
    world = World(running=board(("picky", PICKY), ("limiter", LIMITER)))
    assert "unknown class 'big'; the policy picky has batch, service" in refusal(world, **{"class": "big"})
    client = world.ready(world.launch(**{"class": "batch", "label_size": "big"})[0])
    tenant = world.state.tenants[world.state.clients[client].job]
    placed = {applied.name: tenant.placed[applied.program.digest] for applied in world.state.board.applied}
    assert (placed["picky"].job_class, placed["picky"].how) == ("batch", "pinned")
    assert (placed["limiter"].job_class, placed["limiter"].how) == ("big", "match")
    assert world.state.clients[client].words[Slot(0)].max_inflight == 1


def test_a_limiter_goes_by_match_though_it_has_a_class_of_that_name() -> None:
    limiter = 'class batch { match label("size") == "big" }  class rest { match any }  batch.max_inflight = 1'
    world = World(running=board(("picky", PICKY), ("limiter", limiter)))
    client = world.ready(world.launch(**{"class": "batch"})[0])
    tenant = world.state.tenants[world.state.clients[client].job]
    assert [tenant.placed[applied.program.digest].job_class for applied in world.state.board.applied] == [
        "batch",
        "rest",
    ]


def test_an_amount_in_a_match_that_cannot_be_read_refuses_the_job() -> None:
    body = """
      class big  { match label_bytes("gpud.io/memory", default = 1GiB) > 4GiB }
      class rest { match any }
      arbitrate open {}
    """
    world = World(running=board(("sizes", body)))
    assert "gpud.io/memory=8GB is not an amount of memory" in refusal(world, **{"label_gpud.io/memory": "8GB"})
    assert world.class_of(world.ready(world.launch(**{"label_gpud.io/memory": "8GiB"})[0])) == "big"
    assert world.class_of(world.ready(world.launch()[0])) == "rest"


def test_a_job_that_one_of_two_arbiters_takes_may_come() -> None:
    site = 'apply "picky" to gpu 0\napply "other" to gpu *'
    other = "class all { match any }  arbitrate open {}"
    world = World(running=board(("picky", PICKY), ("other", other), site=site))
    launcher, effects = world.launch()
    assert only(effects, do.SendJob)
    client = world.ready(launcher, [bytes(16), bytes(range(16))])
    assert world.class_of(client) == "unclassified/all"


# Labels.


@pytest.mark.parametrize(
    ("label", "value", "says"),
    [
        ("", "x", "has no key"),
        ("a b", "x", "has no key"),
        ("-a", "x", "has no key"),
        ("a.", "x", "has no key"),
        ("ключ", "x", "has no key"),
        ("k", "two\nlines", "printable"),
        ("k", 'a "quote"', "printable"),
        ("k", "v" * 254, "longer than 253"),
        ("k" * 254, "v", "longer than 253"),
    ],
)
def test_labels_that_are_malformed(world: World, label: str, value: str, says: str) -> None:
    effects = world.react(ev.LaunchAsked(session=SessionId(1), who=world.who(), asked=((f"label.{label}", value),)))
    assert says in only(effects, do.Refuse)[0].text


def test_labels_of_a_cluster_are_well_formed(world: World) -> None:
    _, effects = world.launch(**{"label_gpud.io/memory": "8GiB", "label_app.kubernetes.io/name": "", "label_a": "b c"})
    assert only(effects, do.SendJob)


def test_a_label_given_twice(world: World) -> None:
    asked = (("label.k", "a"), ("label.k", "b"))
    effects = world.react(ev.LaunchAsked(session=SessionId(1), who=world.who(), asked=asked))
    assert "given twice, as 'a' and 'b'" in only(effects, do.Refuse)[0].text
    effects = world.react(ev.LaunchAsked(session=SessionId(1), who=world.who(), asked=asked[:1] * 2))
    assert only(effects, do.SendJob)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [("bytes", "8GiB", 8 << 30), ("bytes", "1.5GiB", 3 << 29), ("bytes", "1_024MiB", 1 << 30), ("percent", "15%", 15)],
)
def test_limits_in_labels(kind: str, text: str, value: int) -> None:
    assert read_label(kind, "k", text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(
            ("bytes", text)
            for text in ("", "8", "8GB", "0MiB", "-1GiB", "1KiB", "1.0001MiB", "8 GiB", "9" * 40 + "MiB")
        ),
        *(("percent", text) for text in ("", "15", "0%", "101%", "12.5%", "0.15", "%")),
    ],
)
def test_limits_in_labels_that_cannot_be_read(kind: str, text: str) -> None:
    with pytest.raises(Refused) as error:
        read_label(kind, "gpud.io/x", text)
    assert f"gpud.io/x={text}" in str(error.value)
    assert ("8GiB" if kind == "bytes" else "15%") in str(error.value)


QUOTAS = """
  class silver {
    match label("plan") == "silver"
    limit { memory = label_bytes("gpud.io/memory", default = 8GiB)  compute = label_percent("gpud.io/compute") }
  }
  class rest { match any }
"""


def test_a_limit_that_cannot_be_read_refuses_the_job() -> None:
    world = World(running=board(("quotas", QUOTAS)))
    text = refusal(world, **{"label_plan": "silver", "label_gpud.io/memory": "8GB"})
    assert "gpud.io/memory=8GB is not an amount of memory" in text
    text = refusal(world, **{"label_plan": "silver", "label_gpud.io/compute": "most"})
    assert "gpud.io/compute=most is not a whole percentage" in text
    _, effects = world.launch(**{"label_gpud.io/memory": "8GB"})  # of another class: nobody reads it
    assert only(effects, do.SendJob)


def test_limits_of_a_class() -> None:
    silver = board(("quotas", QUOTAS)).applied[0].program.ir.class_named("silver")
    assert limits(silver, {}) == {"memory": 8 << 30, "compute": None}
    found = limits(silver, {"gpud.io/memory": "512MiB", "gpud.io/compute": "40%"})
    assert found == {"memory": 512 << 20, "compute": 0.4}


# Claims.


def test_who_a_principal_means(world: World) -> None:
    who = world.who()
    assert is_member("ann", who)
    assert is_member("@video", who)
    assert is_member("@staff", who)
    assert is_member("uid:1000", who)
    for other in ("bob", "@ann", "@wheel", "uid:100", "uid:", "", "@"):
        assert not is_member(other, who)


@pytest.mark.parametrize(
    ("system", "claims", "asked", "allowed"),
    [
        (False, {}, {"label_tier": "online"}, True),
        (False, {"tier": ("bob",)}, {"label_tier": "online"}, False),
        (False, {"tier": ("@video",)}, {"label_tier": "online"}, True),
        (False, {"tier": ("bob",)}, {"label_other": "x"}, True),
        (True, {}, {"label_tier": "online"}, False),
        (True, {}, {}, True),
        (True, {"tier": ("ann",)}, {"label_tier": "online"}, True),
        (True, {"tier": ("ann",)}, {"label_tier": "online", "label_plan": "gold"}, False),
        (True, {"tier": ("ann",)}, {"class": "high"}, False),
        (True, {"class": ("ann",)}, {"class": "high"}, True),
        (False, {"class": ("bob",)}, {"class": "high"}, False),
    ],
)
def test_claims(system: bool, claims: dict[str, tuple[str, ...]], asked: dict[str, str], allowed: bool) -> None:
    world = World()
    world.state.claims, world.state.system = claims, system
    _, effects = world.launch(**asked)
    assert bool(only(effects, do.SendJob)) == allowed
    _, effects = world.launch(world.who(uid=0, user="root"), **asked)
    assert only(effects, do.SendJob), "root may write the claims as well"


def test_a_refused_claim_names_key_value_and_who_may() -> None:
    world = World(new_state())
    world.state.claims, world.state.system = {"tier": ("@ml-serving", "uid:7")}, True
    text = refusal(world, label_tier="online")
    assert "ann may not claim the label tier=online: @ml-serving, uid:7 may, by [claims] of gpud.toml" in text
    assert "--class high: nobody may" in refusal(world, **{"class": "high"})


@pytest.mark.parametrize(
    ("cgroup", "pod"),
    [
        ("/kubepods/burstable/pod0b8ac5a1-9c8e-4bd6-a5d9-9d6d0e8ad8b5/3f2a", "0b8ac5a1-9c8e-4bd6-a5d9-9d6d0e8ad8b5"),
        (
            "/kubepods.slice/kubepods-pod0b8ac5a1_9c8e_4bd6_a5d9_9d6d0e8ad8b5.slice/cri-containerd-3f2a.scope",
            "0b8ac5a1-9c8e-4bd6-a5d9-9d6d0e8ad8b5",
        ),
        ("/user.slice/podman.scope", ""),
    ],
)
def test_the_pod_comes_from_the_cgroup(world: World, cgroup: str, pod: str) -> None:
    who = world.who()
    facts = facts_of(ev.Who(pid=1, started=1, uid=1, user="u", command="", cgroup=cgroup), {}, "")
    assert facts.pod == pod
    assert facts_of(who, {}, "").exe == who.exe
    assert facts_of(who, {}, "/opt/x").exe == "/opt/x"
