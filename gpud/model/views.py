"""What screens and commands show. Built by the engine, carried by the control socket, printed by the command line."""

from attrs import frozen


@frozen(kw_only=True)
class DeviceView:
    """One device of the node."""

    slot: int | None
    """Number in the pages; None when there is no room for it (not managed)."""
    uuid: str
    """`GPU-…`, as the driver's tools print it."""
    name: str
    """Empty while the driver has not told."""
    total_bytes: int
    used_bytes: int | None
    """By the driver's account, all processes; None when the driver does not answer."""
    utilisation: float | None
    """0 … 1, the driver's figure; shown, never used for control."""
    jobs: tuple[int, ...]
    """Jobs with a process on it."""
    unmanaged_pids: tuple[int, ...]
    """Processes on it that no hook is in."""


@frozen(kw_only=True)
class HoldView:
    """Why a job does not run now."""

    code: str
    """`paused`, `preempt`, `window`, …: the gate's reason."""
    text: str
    """One sentence with evidence."""
    held_by: int | None
    """The job waited for."""
    for_ns: int
    """How long the launch that waits longest has been held."""
    device: int
    """Slot."""


@frozen(kw_only=True)
class JobView:
    """One job, as `gpud ps` shows it."""

    id: int
    name: str
    """As given by --name, else the program's file name."""
    user: str
    job_class: str
    state: str
    """`starting` (no process attached yet), `active`, `held`, `idle`."""
    pids: tuple[int, ...]
    """Attached processes."""
    launcher_pid: int | None
    """Of `gpud run`; None for a process that attached by itself."""
    command: str
    labels: dict[str, str]
    devices: tuple[int, ...]
    """Slots."""
    age_ns: int
    used_bytes: int
    """Device memory, by what passed through the hook, all devices."""
    why: HoldView | None


@frozen(kw_only=True)
class JobStats:
    """What a job has done since it attached, all its processes and devices together."""

    job: JobView
    launches: int
    """Launches that entered the gate."""
    launches_failed: int
    """The driver answered an error."""
    unfinished: int
    """Launches past the gate that the driver call has not returned for."""
    held: int
    """Times a launch was held."""
    held_ns: int
    """For how long in sum, finished holds only."""
    passed: int
    """Launches let through by max_pause."""
    allocations: int
    """Live ones."""
    held_histogram: tuple[int, ...]
    """Bucket i counts holds of 2^i … 2^(i+1) µs; the first all below 2 µs."""
    hook_errors: int
    """Faults inside the hook that were degraded and counted."""
    attaches: int
    """Re-attachments (a daemon was restarted)."""


@frozen(kw_only=True)
class StatusView:
    """What the daemon runs, as `gpud status` shows it."""

    version: str
    pid: int
    uptime_ns: int
    runtime_dir: str
    policy: str
    parameters: dict[str, str]
    """As text, in the units of the flags."""
    classes: tuple[str, ...]
    """In the order of the policy, highest first."""
    simulated: str | None
    """The profile's name; None on real devices."""
    driver: str
    """`ok`, else one sentence about what is wrong with the driver."""
    devices: tuple[DeviceView, ...]
    jobs: int
    clients: int
    adopted: int
    """Clients taken over from the daemon before this one."""
    attach_ns: int | None
    """The last attach, from connect to mapped; None before the first."""
