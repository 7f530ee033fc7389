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
    samples = nv.nvmlDeviceGetProcessUtilization(handles[0], 0)
    assert [s.pid for s in samples] == [worker.pid], samples
    assert 0 < samples[0].smUtil <= 100
    refused(nv.NVML_ERROR_NOT_FOUND, nv.nvmlDeviceGetProcessUtilization, handles[0], 1 << 62)
    refused(nv.NVML_ERROR_NOT_FOUND, nv.nvmlDeviceGetProcessUtilization, handles[1], 0)
    # Power and temperature follow from the utilisation.
    assert 50_000 < nv.nvmlDeviceGetPowerUsage(handles[0]) <= 400_000
    assert nv.nvmlDeviceGetPowerUsage(handles[1]) == 50_000
    assert nv.nvmlDeviceGetPowerManagementLimit(handles[1]) == 400_000
    assert nv.nvmlDeviceGetEnforcedPowerLimit(handles[1]) == 400_000
    assert 30 < nv.nvmlDeviceGetTemperature(handles[0], nv.NVML_TEMPERATURE_GPU) <= 80
    assert nv.nvmlDeviceGetTemperature(handles[1], nv.NVML_TEMPERATURE_GPU) == 30
    assert nv.nvmlDeviceGetTemperatureV(handles[1], nv.NVML_TEMPERATURE_GPU) == 30
    energy = [nv.nvmlDeviceGetTotalEnergyConsumption(h) for h in handles]
    assert energy[0] > energy[1] > 0, energy
    assert nv.nvmlDeviceGetCurrentClocksEventReasons(handles[0]) == 0
    assert nv.nvmlDeviceGetCurrentClocksEventReasons(handles[1]) == nv.nvmlClocksEventReasonGpuIdle
    for process in (holder, worker):
        process.kill()
        process.communicate()

    refused(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlDeviceGetHandleByIndex, 2)
    refused(nv.NVML_ERROR_NOT_FOUND, nv.nvmlDeviceGetHandleByUUID, "GPU-none")
    refused(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetFanSpeed, handles[0])
    refused(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlDeviceGetTemperature, handles[0], 1)
    nv.nvmlShutdown()
    assert nv.nvmlDeviceGetCount() == 2
    if os.fork() == 0:
        nv.nvmlInit()  # anew in a forked child
        os._exit(nv.nvmlDeviceGetCount() != 2)
    assert os.wait()[1] == 0
    nv.nvmlShutdown()
    refused(nv.NVML_ERROR_UNINITIALIZED, nv.nvmlDeviceGetCount)


def facts() -> None:
    """What does not change, on a device that is whole."""
    import pynvml as nv

    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceGetMigMode(device) == [0, 0]
    assert nv.nvmlDeviceGetMaxMigDeviceCount(device) == 0
    assert nv.nvmlDeviceIsMigDeviceHandle(device).value == 0
    refused(nv.NVML_ERROR_NOT_FOUND, nv.nvmlDeviceGetMigDeviceHandleByIndex, device, 0)
    refused(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetGpuInstanceId, device)
    assert nv.nvmlDeviceGetArchitecture(device) == nv.NVML_DEVICE_ARCH_AMPERE
    assert nv.nvmlDeviceGetNumGpuCores(device) == 6912
    assert nv.nvmlDeviceGetMemoryBusWidth(device) == 5120
    assert nv.nvmlDeviceGetClockInfo(device, nv.NVML_CLOCK_SM) == 1410
    assert nv.nvmlDeviceGetMaxClockInfo(device, nv.NVML_CLOCK_MEM) == 1215
    refused(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlDeviceGetClockInfo, device, 9)
    assert nv.nvmlDeviceGetPerformanceState(device) == 0
    assert nv.nvmlDeviceGetPersistenceMode(device) == 1
    assert nv.nvmlDeviceGetComputeMode(device) == nv.NVML_COMPUTEMODE_DEFAULT
    assert nv.nvmlDeviceGetDisplayActive(device) == 0
    assert nv.nvmlDeviceGetTotalEccErrors(device, 0, 0) == 0
    assert nv.nvmlDeviceGetEncoderUtilization(device)[0] == 0
    assert nv.nvmlDeviceGetMPSComputeRunningProcesses(device) == []
    assert nv.nvmlDeviceGetBAR1MemoryInfo(device).bar1Total == 64 << 30
    assert [v.nvmlReturn for v in nv.nvmlDeviceGetFieldValues(device, [1, 2])] == [nv.NVML_ERROR_NOT_SUPPORTED] * 2
    assert nv.nvmlSystemGetProcessName(os.getpid())
    nv.nvmlShutdown()


def divided() -> None:
    """Two MIG instances of one device, a process on the second."""
    import pynvml as nv

    nv.nvmlInit()
    assert nv.nvmlDeviceGetCount() == 1
    whole = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceGetMigMode(whole) == [1, 1]
    assert nv.nvmlDeviceGetMaxMigDeviceCount(whole) == 7
    parts = [nv.nvmlDeviceGetMigDeviceHandleByIndex(whole, i) for i in range(2)]
    refused(nv.NVML_ERROR_NOT_FOUND, nv.nvmlDeviceGetMigDeviceHandleByIndex, whole, 2)
    uuids = [nv.nvmlDeviceGetUUID(part) for part in parts]
    assert all(uuid.startswith("MIG-") for uuid in uuids)
    assert len({*uuids, nv.nvmlDeviceGetUUID(whole)}) == 3
    assert nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByUUID(uuids[1])) == uuids[1]
    for number, part in enumerate(parts):
        assert nv.nvmlDeviceIsMigDeviceHandle(part).value == 1
        assert nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)) == nv.nvmlDeviceGetUUID(
            whole
        )
        assert nv.nvmlDeviceGetGpuInstanceId(part) == number + 1
        assert nv.nvmlDeviceGetComputeInstanceId(part) == 0
        assert nv.nvmlDeviceGetName(part) == "gpud simulated A100-SXM4-40GB MIG 3g.20gb"
        assert nv.nvmlDeviceGetAttributes(part).multiprocessorCount == 42
        refused(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetUtilizationRates, part)
        refused(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetPowerUsage, part)
    refused(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetUtilizationRates, whole)
    holder = subprocess.Popen([CLIENT, "hold", str(64 << 20)], stdout=subprocess.PIPE, text=True)
    atexit.register(holder.kill)
    assert holder.stdout
    assert holder.stdout.readline().startswith("holding")
    memory = [nv.nvmlDeviceGetMemoryInfo(h, version=nv.nvmlMemory_v2) for h in (whole, *parts)]
    assert memory[0].total == 40 << 30
    assert memory[1].total == memory[2].total == 20 << 30
    assert memory[0].used == memory[1].used > 64 << 20
    assert memory[2].used == 0
    (found,) = nv.nvmlDeviceGetComputeRunningProcesses(whole)
    assert (found.pid, found.gpuInstanceId, found.computeInstanceId) == (holder.pid, 1, 0)
    assert [p.pid for p in nv.nvmlDeviceGetComputeRunningProcesses(parts[0])] == [holder.pid]
    assert nv.nvmlDeviceGetComputeRunningProcesses(parts[1]) == []
    assert nv.nvmlDeviceGetPowerUsage(whole) == 50_000
    holder.kill()
    holder.communicate()
    nv.nvmlShutdown()


def lost() -> None:
    """A device that falls off the bus while NVML has it open."""
    import ctypes

    import pynvml as nv

    nv.nvmlInit()
    handles = [nv.nvmlDeviceGetHandleByIndex(i) for i in range(2)]
    uuid = nv.nvmlDeviceGetUUID(handles[1])
    loser = "import ctypes; assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0"
    environment = os.environ | {"GPUD_SIM_FAULTS": "cuInit: lose 1"}
    cuda = next(p for p in (SIM, SIM / "cuda") if (p / "libcuda.so.1").exists())
    environment["LD_LIBRARY_PATH"] += f":{cuda}"
    subprocess.run([sys.executable, "-c", loser], env=environment, check=True)
    gone = nv.NVML_ERROR_GPU_IS_LOST
    refused(gone, nv.nvmlDeviceGetMemoryInfo, handles[1])
    refused(gone, nv.nvmlDeviceGetName, handles[1])
    refused(gone, nv.nvmlDeviceGetUtilizationRates, handles[1])
    refused(gone, nv.nvmlDeviceGetComputeRunningProcesses, handles[1])
    refused(gone, nv.nvmlDeviceGetHandleByIndex, 1)
    refused(gone, nv.nvmlDeviceGetHandleByUUID, uuid)
    assert nv.nvmlDeviceGetCount() == 2
    assert nv.nvmlDeviceGetName(handles[0])
    assert nv.nvmlDeviceGetMemoryInfo(handles[0]).total == 40 << 30
    assert ctypes.CDLL("libnvidia-ml.so.1").nvmlErrorString
    nv.nvmlShutdown()


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


PARTS = {
    "whole": (lambda: (names(), facts(), queries()), {"GPUD_SIM_DEVICES": "2"}),
    "divided": (divided, {"GPUD_SIM_MODE": "mig:3g,3g"}),
    "lost": (lost, {"GPUD_SIM_DEVICES": "2"}),
}
"""Each on a node of its own: what is run, and the node's environment."""


def main() -> None:
    """Run again, once a part, with the simulated library in front of any real one."""
    try:
        import pynvml  # noqa: F401
    except ImportError:
        print("nvidia-ml-py is not installed")
        sys.exit(77)
    if len(sys.argv) > 1:
        PARTS[sys.argv[1]][0]()
        print(sys.argv[1], "ok")
        return
    keep = {k: v for k, v in os.environ.items() if not k.startswith("GPUD_SIM_")}
    for part, (_, wanted) in PARTS.items():
        node = {"GPUD_SIM_NODE": f"test-nvml-{part}-{os.getpid()}", "LD_LIBRARY_PATH": str(SIM)}
        done = subprocess.run([sys.executable, __file__, part], env=keep | node | wanted)
        if done.returncode:
            sys.exit(done.returncode)


if __name__ == "__main__":
    main()
