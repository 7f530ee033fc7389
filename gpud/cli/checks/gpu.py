"""The GPU's driver: is it there, may you use it, and does it keep its state."""

import os
import subprocess
import sys
from pathlib import Path

from gpud.cli.checks.finding import FAIL, OK, WARN, Finding, Findings
from gpud.devices.mps import is_offered, pipe_directory
from gpud.model.text import UNDER_MPS
from gpud.native import sim_dir

PROBE_S = 30
DEVICES = Path("/dev")
FILES = ("", "ctl", "-uvm")
"""nvidia0, nvidiactl, nvidia-uvm; the others are not needed."""
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
PERSISTENCE_PROBE = """
import ctypes, sys
try:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
except OSError:
    sys.exit(0)
if nvml.nvmlInit_v2():
    sys.exit(0)
count = ctypes.c_uint()
nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
for index in range(count.value):
    device, mode = ctypes.c_void_p(), ctypes.c_uint(1)
    if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
        continue
    if not nvml.nvmlDeviceGetPersistenceMode(device, ctypes.byref(mode)):
        print(index, mode.value)
"""


def driver() -> Findings:
    """Is there a real driver, and does it start?"""
    try:
        probe = _probe(DRIVER_PROBE)
    except subprocess.TimeoutExpired:
        yield Finding(
            check="driver",
            result=FAIL,
            text=f"the driver does not answer within {PROBE_S} s",
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


def permissions() -> Findings:
    """May you use the driver's device files?"""
    found = sorted(DEVICES.glob("nvidia*"))
    files = [path for path in found if path.name.removeprefix("nvidia").strip("0123456789") in FILES]
    barred = [str(path) for path in files if not os.access(path, os.R_OK | os.W_OK)]
    if barred:
        yield Finding(
            check="permissions",
            result=FAIL,
            text=f"you may not read and write {', '.join(barred)}: no program of yours can use a GPU",
            remedy="join the group that owns them (ls -l), or let the container have them (docker run --gpus all)",
        )
    elif files:
        yield Finding(check="permissions", result=OK, text=f"you may use {', '.join(map(str, files))}")


def persistence() -> Findings:
    """Without it the driver starts anew with each first program, which takes seconds, and forgets limits of power."""
    try:
        probe = _probe(PERSISTENCE_PROBE)
    except subprocess.TimeoutExpired:
        return  # that it hangs is another check's
    rows = [line.split() for line in probe.stdout.splitlines()]
    off = [index for index, mode in rows if mode == "0"]
    if off:
        yield Finding(
            check="persistence",
            result=WARN,
            text=f"persistence is off on gpu {', '.join(off)}: while no program runs the driver lets the device "
            "go, and the next one waits for seconds",
            remedy="systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1",
        )
    elif rows:
        yield Finding(check="persistence", result=OK, text=f"persistence is on, {len(rows)} device(s)")


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


def _probe(program: str) -> "subprocess.CompletedProcess[str]":
    """Runs Python of its own, since a driver may crash or hang, without gpud and without the simulated driver. Raises
    TimeoutExpired."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUD_") and k != "LD_PRELOAD"}
    paths = environment.get("LD_LIBRARY_PATH", "").split(":")
    environment["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path and path != str(sim_dir()))
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=PROBE_S
    )
