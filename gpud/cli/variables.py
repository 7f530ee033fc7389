"""Checks the `GPUD_*` variables a job inherits: garbage in one is an error that names it. Standard library only."""

from collections.abc import Mapping

from gpud.cli.failure import EXIT_USAGE, Failure

LEVELS = ("error", "warning", "info", "debug")


def check_variables(environment: Mapping[str, str]) -> None:
    """Raises `Failure` for the first `GPUD_*` variable whose value cannot be meant. Empty is the same as unset."""
    for name, value in environment.items():
        if not name.startswith("GPUD_") or not value:
            continue
        allowed = _allowed(name, value)
        if allowed:
            raise Failure(f"{name} is {value!r}", f"allowed: {allowed}; correct it or unset it", code=EXIT_USAGE)


def _allowed(name: str, value: str) -> str:
    """What may stand in `name` when `value` may not; "" when it may."""
    if name == "GPUD_DISABLE":
        return "" if value in ("0", "1") else "0 or 1"
    if name == "GPUD_LOG":
        return "" if value in LEVELS else ", ".join(LEVELS)
    if name in ("GPUD_RUNTIME_DIR", "GPUD_NATIVE_DIR"):
        return "" if value.startswith("/") else "an absolute path"
    if name == "GPUD_SIM_DEVICES":
        return "" if value.isascii() and value.isdigit() and 1 <= int(value) <= 8 else "a number from 1 to 8"
    if name == "GPUD_SIM_TIME_SCALE":
        try:
            good = 0.001 <= float(value) <= 1000
        except ValueError:
            good = False
        return "" if good else "a number from 0.001 to 1000"
    if name == "GPUD_SIM_NODE":
        good = len(value) <= 64 and value.isascii() and all(letter.isalnum() or letter in "-_." for letter in value)
        return "" if good else "up to 64 letters, digits, '-', '_' and '.'"
    return ""
