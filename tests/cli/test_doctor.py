"""What the doctor finds: each check against a machine made for it."""

import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpud.cli.checks import gpu, machine, service
from gpud.cli.checks.finding import Finding
from tests.cli.conftest import ROOT, Gpud, compile_c

INFINITY = resource.RLIM_INFINITY


def only(found: Iterator[Finding]) -> Finding:
    (one,) = found
    return one


def test_every_finding_that_is_not_ok_has_a_remedy(gpud: Gpud) -> None:
    findings = json.loads(gpud("doctor", "--json").stdout)
    assert {one["check"] for one in findings} >= {
        *("settings", "kernel", "limits", "shm", "cgroups", "hook", "driver", "mps", "simulator", "demo"),
        *("directory", "policies", "units", "daemon"),
    }
    for one in findings:
        assert one["result"] in ("ok", "warn", "fail")
        assert one["result"] == "ok" or one["remedy"]


@pytest.mark.parametrize(
    ("files", "sizes", "locked", "says"),
    [
        (1_000_000, INFINITY, INFINITY, ["1000000 open files, locked memory unlimited"]),
        (1_000_000, INFINITY, 8 << 20, ["1000000 open files, locked memory 8 MiB"]),
        (256, INFINITY, INFINITY, ["256 open files at most: a daemon started here has room for 64 processes"]),
        (4096, 1 << 20, INFINITY, ["files may have 1 MiB at most (ulimit -f)"]),
        (4096, INFINITY, 64 << 10, ["64 KiB of memory may be locked (ulimit -l)"]),
        (16, 1, 1, ["has room for 0 processes", "files may have 1 B", "1 B of memory may be locked"]),
    ],
)
def test_limits(monkeypatch: pytest.MonkeyPatch, files: int, sizes: int, locked: int, says: list[str]) -> None:
    hard = {resource.RLIMIT_NOFILE: files, resource.RLIMIT_FSIZE: sizes, resource.RLIMIT_MEMLOCK: locked}
    monkeypatch.setattr(machine.resource, "getrlimit", lambda kind: (0, hard[kind]))
    found = list(machine.limits())
    assert len(found) == len(says)
    for one, text in zip(found, says, strict=True):
        assert text in one.text
        assert one.result == ("ok" if "open files, locked" in text else "warn")
        assert one.result == "ok" or "ulimit" in one.remedy


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, dict[str, str]], Finding]:
    """The finding for this content of /proc/self/cgroup, and these limits of groups."""

    def find(lines: str, limits: dict[str, str]) -> Finding:
        (tmp_path / "self").write_text(lines)
        for path, text in limits.items():
            (tmp_path / "fs" / path).mkdir(parents=True, exist_ok=True)
            (tmp_path / "fs" / path / "memory.max").write_text(text)
        monkeypatch.setattr(machine, "OWN_GROUP", tmp_path / "self")
        monkeypatch.setattr(machine, "CGROUPS", tmp_path / "fs")
        return only(machine.control_groups())

    return find


def test_control_groups(group: Callable[[str, dict[str, str]], Finding], monkeypatch: pytest.MonkeyPatch) -> None:
    assert group("0::/a/b\n", {"a": "max\n", "a/b": "max\n"}).text == "version 2, no limit of memory"
    tight = group("0::/a/b\n", {"a": f"{1 << 30}\n", "a/b": f"{8 << 30}\n"})
    assert (tight.result, "1 GiB" in tight.text, "host(max)" in tight.remedy) == ("warn", True, True)
    assert group("0::/c\n", {"c": f"{64 << 30}\n"}).result == "ok"
    assert group("5:memory:/x\n1:name=systemd:/y\n", {}).text.startswith("version 1")
    monkeypatch.setattr(machine, "OWN_GROUP", Path("/nowhere/cgroup"))
    assert only(machine.control_groups()).result == "warn"


def test_shared_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "SHM", tmp_path)
    monkeypatch.setattr(machine, "SMALL_SHM", 0)
    assert only(machine.shared_memory()).result == "ok"
    monkeypatch.setattr(machine, "SMALL_SHM", 1 << 62)
    small = only(machine.shared_memory())
    assert (small.result, "--shm-size" in small.remedy) == ("warn", True)
    monkeypatch.setattr(machine, "SHM", tmp_path / "none")
    gone = only(machine.shared_memory())
    assert (gone.result, "no such file" in gone.text) == ("warn", True)


def test_device_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu, "DEVICES", tmp_path)
    assert list(gpu.permissions()) == []
    for name in ("nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia-modeset", "nvidia-caps"):
        (tmp_path / name).touch()
    (tmp_path / "nvidia-modeset").chmod(0)
    fine = only(gpu.permissions())
    names = ("nvidia-uvm", "nvidia0", "nvidia12", "nvidiactl")
    assert (fine.result, fine.text) == ("ok", f"you may use {', '.join(str(tmp_path / name) for name in names)}")
    monkeypatch.setattr(gpu.os, "access", lambda path, mode: path.name != "nvidia12")
    barred = only(gpu.permissions())
    assert (barred.result, barred.text.split(":")[0]) == ("fail", f"you may not read and write {tmp_path / 'nvidia12'}")


NVML = """
int nvmlInit_v2(void) { return INIT; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(unsigned long)(i + 1); return i == 2 ? 15 : 0; }
int nvmlDeviceGetPersistenceMode(void *d, unsigned *m) { *m = (unsigned long)d == 1 ? FIRST : 1; return 0; }
"""


@pytest.mark.parametrize(
    ("first", "init", "said"),
    [
        (0, 0, [("warn", "persistence is off on gpu 0:")]),
        (1, 0, [("ok", "persistence is on, 2 device(s)")]),
        (0, 9, []),
    ],
)
def test_persistence(
    cc: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: int, init: int, said: list[tuple[str, str]]
) -> None:
    """By a library that says so; of a device that is lost, and without a driver that starts, nothing is said."""
    (tmp_path / "nvml.c").write_text(NVML)
    library = tmp_path / "libnvidia-ml.so.1"
    compile_c(cc, tmp_path / "nvml.c", library, "-shared", "-fPIC", f"-DFIRST={first}", f"-DINIT={init}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    found = list(gpu.persistence())
    assert [(one.result, one.text[: len(text)]) for one, (_, text) in zip(found, said, strict=True)] == said


SYSTEMCTL = '#!/bin/sh\n[ "$1" = "$SCOPE" ] || { echo LoadState=not-found; exit 0; }\nprintf "$STATE"\n'


@pytest.mark.parametrize(
    ("state", "result", "says"),
    [
        ("LoadState=loaded\nActiveState=active\nUnitFileState=enabled\nResult=success\n", "ok", "is active"),
        (
            "LoadState=loaded\nActiveState=failed\nUnitFileState=enabled\nResult=watchdog\n",
            "fail",
            "has failed (watchdog)",
        ),
        ("LoadState=loaded\nActiveState=inactive\nUnitFileState=static\nResult=success\n", "ok", "when its socket is"),
        ("LoadState=loaded\nActiveState=inactive\nUnitFileState=disabled\nResult=success\n", "warn", "and disabled"),
        ("LoadState=not-found\nActiveState=inactive\n", "ok", "is not installed"),
        ("", "warn", "does not answer"),
    ],
)
def test_units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: str, result: str, says: str) -> None:
    (tmp_path / "systemctl").write_text(SYSTEMCTL)
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(service, "SYSTEMD", tmp_path)
    monkeypatch.setattr(service.os, "geteuid", lambda: 0)
    for name, value in (("SCOPE", "--system"), ("STATE", state)):
        monkeypatch.setenv(name, value)
    found = list(service.units())
    assert found[0].result == result
    assert says in found[0].text
    assert result == "ok" or "systemctl" in found[0].remedy


def test_a_user_without_a_unit_is_told_of_the_machines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "systemctl").write_text(SYSTEMCTL)
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(service, "SYSTEMD", tmp_path)
    monkeypatch.setattr(service.os, "geteuid", lambda: 1000)
    monkeypatch.setenv("SCOPE", "--system")
    monkeypatch.setenv("STATE", "LoadState=loaded\nActiveState=active\n")
    assert only(service.units()).text == "gpud.service (system) is active"
    monkeypatch.setattr(service, "SYSTEMD", tmp_path / "none")
    assert "no systemd here" in only(service.units()).text


def test_benches_are_those_of_the_checkout(gpud: Gpud) -> None:
    listed = gpud("bench")
    assert listed.returncode == 0
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert {"launch_overhead", "attach", "gpu.isolation"} <= set(names)
    assert "harness" not in names
    assert json.loads(gpud("bench", "--json").stdout) == names
    wrong = gpud("bench", "launch")
    assert wrong.returncode == 2
    assert "there are " in wrong.stderr


def test_a_bench_gets_its_options_and_its_exit_code_counts(gpud: Gpud) -> None:
    helped = gpud("bench", "launch_overhead", "--", "--help")
    assert helped.returncode == 0
    assert "--quick" in helped.stdout
    assert gpud("bench", "launch_overhead", "--no-such-option").returncode == 2


def test_an_installed_gpud_says_that_it_has_none(tmp_path: Path, gpud: Gpud) -> None:
    (tmp_path / "gpud").symlink_to(ROOT / "gpud")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from gpud.cli.main import main; sys.exit(main(['bench']))"
    )
    done = subprocess.run(
        [os.sys.executable, "-c", script], capture_output=True, text=True, cwd="/", timeout=60,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )  # fmt: skip
    assert done.returncode == 125
    assert "run it from a checkout of gpud's source" in done.stderr
