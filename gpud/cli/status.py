"""`gpud status`: what the daemon runs."""

import click

from gpud.cli.helped import Verb
from gpud.cli.policy.changes import policies_text, set_line
from gpud.cli.screen import ago, client, console, escape, print_json, size, table
from gpud.model.views import DeviceView, PolicyView, UnmanagedView


@click.command(
    "status",
    cls=Verb,
    examples=[
        ("gpud status", "policies, devices, the last reload"),
        ("gpud status --json", "for programs"),
    ],
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(as_json: bool) -> None:
    """What the daemon runs: policies, devices, and whether the last change of the policies was taken."""
    with client() as daemon:
        status = daemon.status()
    if as_json:
        print_json(status)
        return
    out = console()
    rows = {
        "daemon": f"{status.version}, pid {status.pid}, up {ago(status.uptime_ns)}, in {status.runtime_dir}",
        "policies": set_line(status.policy_set),
        "device": f"simulated, profile {status.simulated}" if status.simulated else "real",
        "driver": status.driver,
        "jobs": f"{status.jobs}; processes attached: {status.clients}; "
        f"taken over from an earlier daemon: {status.adopted}",
    }
    if status.policy_set.differs:
        more = " (gpud policy reload says more)" if status.policy_set.rejected is not None else ""
        rows["note"] = status.policy_set.differs + more
    for name, value in rows.items():
        out.print(f"[bold]{name:<8}[/bold] {escape(value)}", soft_wrap=True)
    for row in status.policies:
        out.print(f"[bold]{_gpu(row):<8}[/bold] {escape(policies_text(row))}", soft_wrap=True)
    if status.devices:
        shown = table(
            "gpu",
            "name",
            "uuid",
            "memory",
            "used",
            "busy",
            "power",
            "jobs",
            "turn",
            "unmanaged",
            right=("gpu", "memory", "used", "busy", "power"),
        )
        for device in status.devices:
            shown.add_row(
                "–" if device.slot is None else str(device.slot),
                escape(device.name) or "–",
                device.uuid,
                size(device.total_bytes),
                size(device.used_bytes),
                "–" if device.utilisation is None else f"{device.utilisation:.0%}",
                _power(device),
                ",".join(map(str, device.jobs)) or "–",
                _turn(device),
                ", ".join(map(_process, device.unmanaged)) or "–",
            )
        out.print(shown)
    for device in status.devices:
        where = f"gpu {device.slot}" if device.slot is not None else device.uuid
        for note in device.notes:
            out.print(f"[yellow]{where}: {escape(note)}[/yellow]", soft_wrap=True)


def _power(device: DeviceView) -> str:
    """`312 W, 71 °C`"""
    power = None if device.power_w is None else f"{device.power_w:.0f} W"
    degrees = None if device.temperature_c is None else f"{device.temperature_c:.0f} °C"
    return ", ".join(filter(None, (power, degrees))) or "–"


def _turn(device: DeviceView) -> str:
    """`job 3, 2 wait`"""
    waits = f", {device.waiters} wait" if device.waiters > 1 else ", 1 waits" if device.waiters else ""
    return f"job {device.holder}{waits}" if device.holder is not None else waits.removeprefix(", ") or "–"


def _process(one: UnmanagedView) -> str:
    return f"{one.pid} ({size(one.used_bytes)})"


def _gpu(row: PolicyView) -> str:
    return "gpu *" if row.device is None else f"gpu {row.device}"
