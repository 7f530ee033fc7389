"""What gpud itself is made of: settings, hook, simulator, directories, policies."""

import os
import shutil
import stat
import subprocess
import sys

from gpud.cli.checks.finding import FAIL, OK, WARN, Finding, Findings
from gpud.cli.demo import prerequisites
from gpud.cli.hooklib import check_hook
from gpud.config import Config, unknown_variables
from gpud.model.errors import GpudError
from gpud.native import hook_library, sim_dir

HOOK_PROBE = """
import ctypes, sys
hook = ctypes.CDLL(sys.argv[1])
wanted = "cuLaunchKernel", "cuLaunchKernelEx", "cuGetProcAddress_v2", "dlsym"
missing = [name for name in wanted if not hasattr(hook, name)]
sys.exit("does not export " + ", ".join(missing) if missing else 0)
"""


def settings() -> Findings:
    """Are there variables that nobody reads, or a bypass?"""
    unknown = unknown_variables(os.environ)
    if unknown:
        yield Finding(
            check="settings", result=WARN, text=f"nobody reads {', '.join(unknown)}", remedy="check the spelling"
        )
    if os.environ.get("GPUD_DISABLE") == "1":
        yield Finding(
            check="settings",
            result=WARN,
            text="GPUD_DISABLE=1: every job runs without gpud",
            remedy="unset GPUD_DISABLE",
        )
    if not unknown and os.environ.get("GPUD_DISABLE") != "1":
        yield Finding(check="settings", result=OK, text="no GPUD_* variable is wrong")


def hook() -> Findings:
    """Does the hook load, and does it export what it must?"""
    path = str(hook_library())
    try:
        check_hook(path)
    except GpudError as error:
        yield Finding(check="hook", result=FAIL, text=str(error), remedy=getattr(error, "remedy", ""))
        return
    try:
        probe = subprocess.run(
            [sys.executable, "-c", HOOK_PROBE, path],
            env=os.environ | {"GPUD_DISABLE": "1"},
            capture_output=True,
            text=True,
            timeout=30,
        )
    except subprocess.TimeoutExpired:
        yield Finding(
            check="hook", result=FAIL, text=f"{path} is not loaded within 30 s", remedy="is its file system reachable?"
        )
        return
    if probe.returncode:
        said = (probe.stderr.strip().splitlines() or [f"exit code {probe.returncode}"])[-1]
        yield Finding(
            check="hook", result=FAIL, text=f"{path}: {said}", remedy="install gpud again (in a checkout: make build)"
        )
        return
    yield Finding(check="hook", result=OK, text=f"{path} loads and exports its entries")


def simulator() -> Findings:
    """Are the parts of the simulated GPU there?"""
    missing = [
        name for name in ("libcuda.so.1", "libnvidia-ml.so.1", "gpud-sim-device") if not (sim_dir() / name).is_file()
    ]
    if missing:
        text = f"{sim_dir()} lacks {', '.join(missing)}"
        yield Finding(
            check="simulator", result=WARN, text=text, remedy="install gpud again (in a checkout: make build)"
        )
        return
    compiler = prerequisites.compiler()
    if compiler is None:
        yield Finding(
            check="simulator",
            result=WARN,
            text="no C compiler on PATH: the simulated GPU cannot run kernels",
            remedy="install one (Debian, Ubuntu: apt install gcc), or name it in CC",
        )
        return
    yield Finding(check="simulator", result=OK, text=f"{sim_dir()}; kernels are compiled with {compiler}")


def demo() -> Findings:
    """Can `gpud demo` run?"""
    missing = prerequisites.missing_packages()
    linker = prerequisites.linker_package()
    if missing:
        yield Finding(
            check="demo",
            result=WARN,
            text=f"gpud demo lacks {', '.join(missing)}",
            remedy="pip install 'gpud[demo]' (about 0.9 GiB)",
        )
    elif linker is not None:
        yield Finding(
            check="demo",
            result=WARN,
            text=f"{linker} is installed: with it numba makes cubins, which the simulated GPU refuses",
            remedy=f"pip uninstall {linker}",
        )
    else:
        yield Finding(check="demo", result=OK, text="gpud demo has its packages")


def runtime_dir(config: Config) -> Findings:
    """Is the directory of the sockets safe and usable?"""
    directory = config.runtime_dir
    try:
        found = directory.lstat()
    except FileNotFoundError:
        parent = next(parent for parent in directory.parents if parent.exists())
        if os.access(parent, os.W_OK | os.X_OK):
            yield Finding(check="directory", result=OK, text=f"{directory} will be made by gpud serve")
        else:
            yield Finding(
                check="directory",
                result=FAIL,
                text=f"{directory} is not there, and you may not make it",
                remedy="set GPUD_RUNTIME_DIR to a directory of your own",
            )
        return
    except OSError as error:
        yield Finding(
            check="directory",
            result=FAIL,
            text=f"{directory}: {(error.strerror or '').lower()}",
            remedy="set GPUD_RUNTIME_DIR to a directory of your own",
        )
        return
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (os.geteuid(), 0) or mode & 0o022:
        yield Finding(
            check="directory",
            result=FAIL,
            text=f"{directory} is not a directory of yours alone (owner {found.st_uid}, mode {mode:04o})",
            remedy=f"chmod 0700 {directory}, or set GPUD_RUNTIME_DIR to a directory of your own",
        )
        return
    free = shutil.disk_usage(directory).free
    if free < 1 << 20:
        yield Finding(
            check="directory",
            result=WARN,
            text=f"{directory} is on a full file system",
            remedy="make room: the state file needs some",
        )
        return
    yield Finding(check="directory", result=OK, text=str(directory))


def policies(config: Config) -> Findings:
    """Would a daemon load the policies?"""
    from gpud.engine.enforced import ENFORCED
    from gpud.policies.check.whole import check_library
    from gpud.policies.diagnostics import has_errors
    from gpud.policies.library import read_directory
    from gpud.policies.plugins.installed import InstalledPlugins
    from gpud.policies.render import summary

    library = read_directory(config.policies)
    found = check_library(library, InstalledPlugins(), enforced=ENFORCED)
    if has_errors(found):
        text = f"{config.policies} (by {config.policies_by}) does not load: {summary(found)}"
        yield Finding(check="policies", result=FAIL, text=text, remedy=f"see: gpud policy check {config.policies}")
    else:
        yield Finding(check="policies", result=OK, text=f"{config.policies}, {len(library.policies)} policies")
