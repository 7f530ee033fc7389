"""What `gpud doctor` looks at. Each check is a function that yields findings and raises nothing a machine can cause."""

import ctypes
import os
import platform
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator

from attrs import frozen

from gpud.cli.demo import prerequisites
from gpud.cli.hooklib import check_hook
from gpud.config import Config, load_config, unknown_variables
from gpud.control.client import Client
from gpud.devices.mps import is_offered, pipe_directory
from gpud.model.errors import GpudError, NoDaemon
from gpud.model.text import UNDER_MPS
from gpud.native import hook_library, sim_dir

OK, WARN, FAIL = "ok", "warn", "fail"
DOMAIN_QUERY, MEMBARRIER_PRIVATE_EXPEDITED = 0, 8
MEMBARRIER_NUMBERS = {"x86_64": 324, "aarch64": 283}
DRIVER_PROBE = """
import ctypes, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    sys.exit(f"absent {error}")
result = cuda.cuInit(0)
if result:
    sys.exit(f"cuInit answers {result}")
version, count = ctypes.c_int(), ctypes.c_int()
cuda.cuDriverGetVersion(ctypes.byref(version))
cuda.cuDeviceGetCount(ctypes.byref(count))
print(f"CUDA {version.value // 1000}.{version.value % 1000 // 10}, {count.value} device(s)")
"""
HOOK_PROBE = """
import ctypes, sys
hook = ctypes.CDLL(sys.argv[1])
wanted = "cuLaunchKernel", "cuLaunchKernelEx", "cuGetProcAddress_v2", "dlsym"
missing = [name for name in wanted if not hasattr(hook, name)]
sys.exit("does not export " + ", ".join(missing) if missing else 0)
"""


@frozen(kw_only=True)
class Finding:
    """One line of the doctor's report."""

    check: str
    result: str
    """`ok`, `warn` (something will not work, or not well) or `fail` (nothing will)."""
    text: str
    remedy: str = ""


Findings = Iterator[Finding]


def all_checks() -> list[Finding]:
    """Every finding, in the order in which they should be mended."""
    found: list[Finding] = []
    try:
        config = load_config()
    except GpudError as error:
        found.append(Finding(check="settings", result=FAIL, text=str(error), remedy="correct it, or unset it"))
        config = None
    else:
        found += settings()
    checks: list[Callable[[], Findings]] = [kernel, hook, driver, mps, simulator, demo]
    for check in checks:
        found += check()
    if config is not None:
        found += runtime_dir(config)
        found += policies(config)
        found += daemon(config)
    return found


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


def kernel() -> Findings:
    """What gpud asks of Linux."""
    lacks = []
    try:
        os.close(os.memfd_create("gpud-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    except OSError as error:
        lacks.append(f"memfd_create ({error.strerror})")
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        lacks.append(f"pidfd_open ({error.strerror})")
    if lacks:
        yield Finding(
            check="kernel",
            result=FAIL,
            text=f"Linux {platform.release()} lacks or forbids {', '.join(lacks)}",
            remedy="use Linux 5.3 or newer; in a container, allow these calls in its seccomp profile",
        )
    elif not _membarrier():
        yield Finding(
            check="kernel",
            result=WARN,
            text="membarrier is refused: each launch takes a full fence (some ns more)",
            remedy="allow membarrier in the container's seccomp profile",
        )
    else:
        yield Finding(check="kernel", result=OK, text=f"Linux {platform.release()}: memfd, pidfd, membarrier")


def _membarrier() -> bool:
    number = MEMBARRIER_NUMBERS.get(platform.machine())
    if number is None:
        return False
    commands = ctypes.CDLL(None, use_errno=True).syscall(number, DOMAIN_QUERY, 0, 0)
    return bool(commands > 0 and commands & MEMBARRIER_PRIVATE_EXPEDITED)


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


def driver() -> Findings:
    """Is there a real driver, and does it start?"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUD_") and k != "LD_PRELOAD"}
    paths = environment.get("LD_LIBRARY_PATH", "").split(":")
    environment["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path and path != str(sim_dir()))
    try:
        probe = subprocess.run(
            [sys.executable, "-c", DRIVER_PROBE], env=environment, capture_output=True, text=True, timeout=30
        )
    except subprocess.TimeoutExpired:
        yield Finding(
            check="driver",
            result=FAIL,
            text="the driver does not answer within 30 s",
            remedy="see the kernel's log (dmesg); the GPU may have to be reset",
        )
        return
    said = (probe.stderr.strip().splitlines() or ["it crashed"])[-1]
    if probe.returncode == 0:
        yield Finding(check="driver", result=OK, text=probe.stdout.strip())
    elif said.startswith("absent"):
        yield Finding(
            check="driver",
            result=WARN,
            text="there is no NVIDIA driver (libcuda.so.1) here",
            remedy="install one, or use the simulated GPU: gpud serve --sim, gpud demo",
        )
    else:
        yield Finding(
            check="driver",
            result=FAIL,
            text=said,
            remedy="see nvidia-smi; the device files in /dev must be readable and writable",
        )


def mps() -> Findings:
    """Do programs started here go through NVIDIA's multi-process server?"""
    directory = pipe_directory(os.environ)
    if is_offered(os.environ):
        yield Finding(
            check="mps",
            result=WARN,
            text=f"programs started here run through MPS ({directory}): {UNDER_MPS}",
            remedy="echo quit | nvidia-cuda-mps-control, where gates and shares are to hold as on a device without it",
        )
    else:
        yield Finding(check="mps", result=OK, text=f"no MPS server is at {directory}")


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


def daemon(config: Config) -> Findings:
    """Does a daemon of this version answer?"""
    from gpud import __version__

    try:
        with Client(config, timeout=3.0) as client:
            status = client.status()
    except NoDaemon as error:
        yield Finding(
            check="daemon", result=WARN, text=str(error), remedy="gpud serve (without a GPU: gpud serve --sim)"
        )
        return
    except GpudError as error:
        yield Finding(check="daemon", result=FAIL, text=str(error), remedy="gpud stop, then gpud serve")
        return
    if status.version != __version__:
        yield Finding(
            check="daemon",
            result=WARN,
            text=f"the daemon is of version {status.version}, this command of {__version__}",
            remedy="restart the daemon; programs go on meanwhile",
        )
    elif status.policy_set.differs:
        yield Finding(check="daemon", result=WARN, text=status.policy_set.differs, remedy="see: gpud policy reload")
    elif status.driver != "ok":
        yield Finding(
            check="daemon", result=WARN, text=f"running, but its driver: {status.driver}", remedy="see above: driver"
        )
    else:
        what = f"simulated {status.simulated}" if status.simulated else "real devices"
        yield Finding(check="daemon", result=OK, text=f"version {status.version}, pid {status.pid}, {what}")
