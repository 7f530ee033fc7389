"""The shipped `quotas`, whole, above the shipped `share-equal`, with real programs: memory by plan, places and
promises, the guard. (Its limits of GPU time: test_shipped_shares.py.) On the simulated GPU."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpud.model.views import JobView
from gpud.native import shipped_policies, sim_dir
from gpud.testing.node import Node, until
from tests.hooks.allocators import OUT_OF_MEMORY, UNIT, job, memory

pytestmark = pytest.mark.e2e

PATIENCE_S = 60
"""What is waited for comes in seconds, or never."""
GIB = (1 << 30) // UNIT
GOLD, SILVER, NOBODY = {"plan": "gold", "n": "gold"}, {"plan": "silver", "n": "silver"}, {"n": "nobody"}


def line(text: str) -> str:
    """Where it stands in the file: `quotas.gpol:17`."""
    lines = (shipped_policies() / "quotas.gpol").read_text().splitlines()
    (number,) = [number for number, one in enumerate(lines, 1) if one.split("#")[0].strip() == text]
    return f"quotas.gpol:{number}"


@contextmanager
def shipped(directory: Path, memory_gib: int = 40) -> Iterator[Node]:
    """A device with so much memory, and the two policies as they are."""
    for name in ("quotas", "share-equal"):
        (directory / f"{name}.gpol").write_text((shipped_policies() / f"{name}.gpol").read_text())
    (directory / "site.gpol").write_text('gpol 1\napply "share-equal", "quotas" to gpu *\n')
    base = (sim_dir() / "profiles" / "a100-40gb.toml").read_text()
    profile = directory / "quotas.toml"
    profile.write_text(base.replace("memory_gib = 40", f"memory_gib = {memory_gib}"))
    with Node(profile=str(profile), policy=None, policies=directory) as node:
        yield node


def jobs(node: Node) -> dict[str, JobView]:
    with node.client() as client:
        return {one.labels["n"]: one for one in client.ps()}


def asks(node: Node, labels: Mapping[str, str]) -> "subprocess.Popen[str]":
    return node.run(["true"], labels={**labels, "n": "asks"}, stderr=subprocess.DEVNULL)


def in_line(node: Node) -> str:
    """What the job that asks waits for."""

    def found() -> str:
        one = jobs(node).get("asks")
        return one.why.text if one is not None and one.why is not None and one.state == "queued" else ""

    return until(found, PATIENCE_S, "it is in line")


def _contexts(node: Node) -> bool:
    """Silver has two; they count."""
    found = [memory(node, name).overhead or 0 for name in ("gold", "nobody", "silver")]
    return found[0] > 0 and found == [found[0], found[0], 2 * found[0]]


def test_memory_by_plan(tmp_path: Path) -> None:
    """Gold and whoever has no plan are refused what is beyond their limit; silver waits until there is room, or ten
    seconds."""
    room = {**SILVER, "gpud.io/memory": "1GiB"}
    with (
        shipped(tmp_path) as node,
        job(node, labels=GOLD) as (gold,),
        job(node, labels=NOBODY) as (nobody,),
        job(node, 2, labels=room) as (silver, other),
    ):
        limits = {name: (one.memory[0].limit, Path(one.memory[0].place).name) for name, one in jobs(node).items()}
        assert limits == {
            "gold": (24 << 30, line("memory      = 24_576MiB")),
            "nobody": (2 << 30, line("memory      = 2GiB")),
            "silver": (1 << 30, line('memory      = label_bytes("gpud.io/memory", default = 8GiB)')),
        }
        until(lambda: _contexts(node), PATIENCE_S, "all contexts are measured")
        assert gold.ask("alloc", "linear", 3 * GIB)[0] == 0
        assert gold.ask("alloc", "linear", 22 * GIB) == [OUT_OF_MEMORY, 0]
        assert nobody.ask("alloc", "linear", 1 * GIB)[0] == 0
        assert nobody.ask("alloc", "linear", 1 * GIB) == [OUT_OF_MEMORY, 0], "its context counts"
        room_left = silver.ask("info")[1] // UNIT
        result, number = silver.ask("alloc", "linear", room_left)
        assert result == 0
        other.say("alloc", "linear", 4)
        until(lambda: memory(node, "silver").waiting == 1, PATIENCE_S, "it waits")
        assert silver.ask("free", number) == [0]
        assert other.hear()[0] == 0
        assert silver.ask("alloc", "linear", room_left - 4)[0] == 0
        other.say("alloc", "linear", 4)
        until(lambda: memory(node, "silver").waiting == 1, PATIENCE_S, "it waits again")
        assert other.hear() == [OUT_OF_MEMORY, 0]


def test_places_and_promises(tmp_path: Path) -> None:
    """Two of gold, one and a half times the device's memory, and then a line."""
    with shipped(tmp_path) as node, job(node, labels=GOLD), job(node, labels={**GOLD, "n": "second"}):
        third = asks(node, GOLD)
        said = in_line(node)
        assert said.startswith("waits in line, up to 5min: the class gold has 2 jobs on device 0, as many as it may (")
        assert said.endswith(f"/{line('tenants     = 2')})")
        third.kill()
        until(lambda: "asks" not in jobs(node), PATIENCE_S, "it has left the line")
        asks(node, {**SILVER, "gpud.io/memory": "13GiB"})
        said = in_line(node)
        assert "13GiB of memory do not fit on device 0" in said
        assert said.endswith("(policy quotas)")


def test_the_guard(tmp_path: Path) -> None:
    """Less than 2 GiB are free: who has no plan stands, and no more of them are let in; silver goes on."""
    with (
        shipped(tmp_path, memory_gib=4) as node,
        job(node, labels=NOBODY) as (nobody,),
        job(node, labels={**SILVER, "gpud.io/memory": "3GiB"}) as (silver,),
    ):
        assert nobody.ask("alloc", "linear", 1)[0] == 0
        assert not _paused(node, "nobody")
        assert silver.ask("alloc", "linear", 2 * GIB)[0] == 0
        until(lambda: _paused(node, "nobody"), PATIENCE_S, "the guard is in force")
        assert not _paused(node, "silver")
        asks(node, {})
        assert "takes no new jobs now: promised memory is really being used" in in_line(node)


def _paused(node: Node, name: str) -> bool:
    with node.client() as client:
        (device,) = client.why(jobs(node)[name].id).devices
    found = [one.because for one in device.knobs if one.because.knob.endswith(".pause") and one.in_force]
    return [(one.policy, one.value, one.because) for one in found] == [
        ("quotas", "true", "promised memory is really being used")
    ]
