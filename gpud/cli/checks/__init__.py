"""What `gpud doctor` looks at. Each check is a function that yields findings and raises nothing a machine can cause."""

from collections.abc import Callable

from gpud.cli.checks import gpu, machine, parts, service
from gpud.cli.checks.finding import FAIL, OK, WARN, Finding, Findings
from gpud.config import load_config
from gpud.model.errors import GpudError

__all__ = ["FAIL", "OK", "WARN", "Finding", "all_checks"]


def all_checks() -> list[Finding]:
    """Every finding, in the order in which they should be mended."""
    found: list[Finding] = []
    try:
        config = load_config()
    except GpudError as error:
        found.append(Finding(check="settings", result=FAIL, text=str(error), remedy="correct it, or unset it"))
        config = None
    else:
        found += parts.settings()
    checks: list[Callable[[], Findings]] = [
        *(machine.kernel, machine.limits, machine.shared_memory, machine.control_groups),
        *(parts.hook, gpu.driver, gpu.permissions, gpu.persistence, gpu.mps, parts.simulator, parts.demo),
    ]
    for check in checks:
        found += check()
    if config is not None:
        found += parts.runtime_dir(config)
        found += parts.policies(config)
        found += service.units()
        found += service.daemon(config)
    return found
