"""`gpud status`: what the daemon runs."""

import click
from rich.markup import escape

from gpud.cli.screen import ago, client, console, print_json, size, table


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(as_json: bool) -> None:
    """What the daemon runs: policy, classes, devices."""
    with client() as daemon:
        status = daemon.status()
    if as_json:
        print_json(status)
        return
    out = console()
    parameters = ", ".join(f"{name} {value}" for name, value in status.parameters.items())
    rows = {
        "daemon": f"{status.version}, pid {status.pid}, up {ago(status.uptime_ns)}, in {status.runtime_dir}",
        "policy": f"{status.policy}: {parameters}",
        "classes": " > ".join(status.classes),
        "device": f"simulated, profile {status.simulated}" if status.simulated else "real",
        "driver": status.driver,
        "jobs": f"{status.jobs}; processes attached: {status.clients}; "
        f"taken over from an earlier daemon: {status.adopted}",
    }
    for name, value in rows.items():
        out.print(f"[bold]{name:<8}[/bold] {escape(value)}")
    if status.devices:
        shown = table(
            "gpu",
            "name",
            "uuid",
            "memory",
            "used",
            "busy",
            "jobs",
            "unmanaged",
            right=("gpu", "memory", "used", "busy"),
        )
        for device in status.devices:
            shown.add_row(
                "–" if device.slot is None else str(device.slot),
                escape(device.name) or "–",
                device.uuid,
                size(device.total_bytes),
                size(device.used_bytes),
                "–" if device.utilisation is None else f"{device.utilisation:.0%}",
                ",".join(map(str, device.jobs)) or "–",
                ",".join(map(str, device.unmanaged_pids)) or "–",
            )
        out.print(shown)
