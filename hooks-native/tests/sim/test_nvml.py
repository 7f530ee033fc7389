"""The simulated libnvidia-ml.so.1 under nvidia-ml-py: devices, memory, utilisation, processes, all names.

Exits with 77 (skipped) where nvidia-ml-py is not installed.
"""

import atexit
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

SIM = Path(os.environ["GPUD_NATIVE_DIR"]) / "sim"
CLIENT = os.environ.get("GPUD_TEST_SIM_CLIENT", "sim_client")


def refused(code: int, call: Callable[..., object], *arguments: object) -> None:
    """The call fails with this code."""
    import pynvml

    found = 0
    try:
        call(*arguments)
    except pynvml.NVMLError as error:
        found = int(error.value)
    assert found == code, f"{call.__name__}: {found}, not {code}"


def queries() -> None:
    """What a monitor asks, with a program on the device."""
    import pynvml as nv

    nv.nvmlInit()
    nv.nvmlInit()
    assert nv.nvmlSystemGetDriverVersion() == "580.00.gpud-simulated"
    assert nv.nvmlSystemGetCudaDriverVersion() == 13000
    assert nv.nvmlDeviceGetCount() == 2
    handles = [nv.nvmlDeviceGetHandleByIndex(i) for i in range(2)]
    uuids = [nv.nvmlDeviceGetUUID(h) for h in handles]
    assert all(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", u) for u in uuids)
    assert len(set(uuids)) == 2
    assert nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByUUID(uuids[1])) == 1
    assert nv.nvmlDeviceGetMinorNumber(handles[1]) == 1
    assert nv.nvmlDeviceGetName(handles[0]) == "gpud simulated A100-SXM4-40GB"
    pci = nv.nvmlDeviceGetPciInfo(handles[1])
    assert (pci.bus, pci.busId) == (2, "00000000:02:00.0")
    assert nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByPciBusId(pci.busId)) == 1
    assert nv.nvmlDeviceGetCudaComputeCapability(handles[0]) == (8, 0)
    memory = nv.nvmlDeviceGetMemoryInfo(handles[0], version=nv.nvmlMemory_v2)
    old = nv.nvmlDeviceGetMemoryInfo(handles[0])
    assert memory.total == 40 << 30
    assert memory.used == 0
    assert memory.free == memory.total - memory.reserved
    assert (old.total, old.free, old.used) == (memory.total, memory.free, memory.reserved)
    assert nv.nvmlDeviceGetComputeRunningProcesses(handles[0]) == []
    assert nv.nvmlDeviceGetGraphicsRunningProcesses(handles[0]) == []

    holder = subprocess.Popen([CLIENT, "hold", str(64 << 20)], stdout=subprocess.PIPE, text=True)
    worker = subprocess.Popen([CLIENT, "steady", "short_step"], stdout=subprocess.PIPE, text=True)
    atexit.register(holder.kill)
    atexit.register(worker.kill)
    assert holder.stdout
    assert worker.stdout
    assert holder.stdout.readline().startswith("holding")
    assert worker.stdout.readline().startswith("round")
    running = {p.pid: p.usedGpuMemory for p in nv.nvmlDeviceGetComputeRunningProcesses(handles[0])}
    assert running == {holder.pid: (64 + 418) << 20, worker.pid: 418 << 20}, running
    assert nv.nvmlDeviceGetComputeRunningProcesses(handles[1]) == []
    used = nv.nvmlDeviceGetMemoryInfo(handles[0], version=nv.nvmlMemory_v2)
    assert used.used == sum(running.values())
    assert used.free == memory.free - used.used
    for _ in range(300):
        assert worker.stdout.readline()
    assert nv.nvmlDeviceGetUtilizationRates(handles[0]).gpu > 0
    assert nv.nvmlDeviceGetUtilizationRates(handles[1]).gpu == 0
    for process in (holder, worker):
        process.kill()
        process.communicate()

    refused(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlDeviceGetHandleByIndex, 2)
    refused(nv.NVML_ERROR_NOT_FOUND, nv.nvmlDeviceGetHandleByUUID, "GPU-none")
    refused(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetTemperature, handles[0], nv.NVML_TEMPERATURE_GPU)
    nv.nvmlShutdown()
    assert nv.nvmlDeviceGetCount() == 2
    if os.fork() == 0:
        nv.nvmlInit()  # anew in a forked child
        os._exit(nv.nvmlDeviceGetCount() != 2)
    assert os.wait()[1] == 0
    nv.nvmlShutdown()
    refused(nv.NVML_ERROR_UNINITIALIZED, nv.nvmlDeviceGetCount)


def names() -> None:
    """Each name that nvidia-ml-py looks up is exported."""
    import ctypes

    import pynvml

    source = Path(pynvml.__file__).read_text()
    library = ctypes.CDLL(str(SIM / "libnvidia-ml.so.1"))
    wanted = set(re.findall(r'_nvmlGetFunctionPointer\(\s*["\'](\w+)["\']', source))
    missing = [name for name in sorted(wanted) if not hasattr(library, name)]
    assert len(wanted) > 300
    assert not missing


def main() -> None:
    """Run again with the simulated library in front of any real one."""
    try:
        import pynvml  # noqa: F401
    except ImportError:
        print("nvidia-ml-py is not installed")
        sys.exit(77)
    if not os.environ.get("GPUD_SIM_NODE", "").startswith("test-nvml-"):
        keep = {k: v for k, v in os.environ.items() if not k.startswith("GPUD_SIM_")}
        node = {"GPUD_SIM_NODE": f"test-nvml-{os.getpid()}", "GPUD_SIM_DEVICES": "2"}
        environment = keep | node | {"LD_LIBRARY_PATH": str(SIM)}
        sys.exit(subprocess.run([sys.executable, __file__], env=environment).returncode)
    names()
    queries()
    print("ok")


if __name__ == "__main__":
    main()
