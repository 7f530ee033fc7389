"""`gpud run`: starts a program as a job under the hook. Standard library only: neither click nor attrs is imported."""

import os
import sys

from gpud.cli.failure import EXIT_USAGE, Failure, error_text, of_system
from gpud.cli.hooklib import check_hook
from gpud.cli.launch import ask_for_job, describe, drain, merge
from gpud.cli.places import native_dir, runtime_dir
from gpud.cli.programs import GO_ON, find_program, why_unmanaged
from gpud.cli.run_options import USAGE, Asked, help_text, split
from gpud.cli.supervise import supervise
from gpud.cli.variables import check_variables
from gpud.model.errors import GpudError

DEFAULT_TIMEOUT_S = 10.0
LEAST_BYTES = 1 << 20
MAX_DEVICES = 8
"""Of a node, as the pages have room for."""
UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


def run(arguments: list[str]) -> int:
    """Runs a job to its end; the result is the exit code that `gpud run` ends with."""
    try:
        return _run(arguments)
    except (GpudError, OSError) as error:
        failure = of_system(error) if isinstance(error, OSError) else error
        print(error_text(failure, "run"), file=sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        return 130


def _run(arguments: list[str]) -> int:
    options, command = parse(arguments)
    if options.has("--help"):
        print(help_text(), end="")
        return 0
    if not command:
        raise Failure("no command given", f"usage: {USAGE}", code=EXIT_USAGE)
    environment = dict(os.environ)
    check_variables(environment)
    directory = runtime_dir(environment)
    path = os.path.join(directory, "hook.sock")
    natives = native_dir(environment)
    hook = os.path.join(natives, "libgpud_hook.so")
    hook_elf = check_hook(hook)
    program = find_program(command[0], environment)
    reason = why_unmanaged(program, hook_elf, environment)
    if reason and not options.has("--unmanaged"):
        raise Failure(reason, f"use a dynamic build for this machine, without special rights, or {GO_ON}")
    timeout_s = duration_s(options.get("--timeout")) if options.has("--timeout") else DEFAULT_TIMEOUT_S
    name = options.get("--name") or os.path.basename(command[0])
    wanted = {
        "class": options.get("--class"),
        "name": name,
        "gpu": options.get("--gpu"),
        "gpus": options.get("--gpus"),
        "mem": str(size_bytes(options.get("--mem"))) if options.has("--mem") else "",
        "compute": str(millionths(options.get("--compute"))) if options.has("--compute") else "",
        "exe": os.path.abspath(program),
        "traceparent": environment.get("TRACEPARENT", "")[:256],
    }
    lines = describe(wanted, options.all("--label"), command)
    job = ask_for_job(path, lines, timeout_s, patient=not options.has("--timeout"), say=_say)
    if reason:
        print(f"gpud run: warning: {reason}; it runs unmanaged", file=sys.stderr)
    if environment.get("GPUD_DISABLE") == "1":
        print("gpud run: warning: GPUD_DISABLE=1 is set, so the job runs unmanaged; unset it", file=sys.stderr)
    merged = merge(environment, job, hook, directory)
    if options.has("--sim"):
        simulate(merged, natives)
    return supervise(program, command, merged, job.connection, drain)


def _say(text: str) -> None:
    print(f"gpud run: {text}", file=sys.stderr, flush=True)


def parse(arguments: list[str]) -> tuple[Asked, list[str]]:
    """Options and command. Raises `Failure` with code 2 for wrong usage; `--help` prints and exits."""
    asked, command = split(arguments)
    keys = set()
    for label in asked.all("--label"):
        key, equals, _ = label.partition("=")
        if not equals or not key or "\n" in label:
            raise Failure(f"--label {label!r} is not KEY=VALUE", "for example: --label tier=online", code=EXIT_USAGE)
        if key in keys:
            raise Failure(f"--label {key} is given twice", "a label has one value", code=EXIT_USAGE)
        keys.add(key)
    if asked.has("--timeout"):
        duration_s(asked.get("--timeout"))
    if asked.has("--mem"):
        size_bytes(asked.get("--mem"))
    if asked.has("--compute"):
        millionths(asked.get("--compute"))
    _check_devices(asked)
    return asked, command


def _check_devices(asked: Asked) -> None:
    count = asked.get("--gpus")
    if asked.has("--gpus") and not (count.isascii() and count.isdigit() and 1 <= int(count) <= MAX_DEVICES):
        raise Failure(
            f"--gpus {count!r} is not a number from 1 to {MAX_DEVICES}", "for example: --gpus 2", code=EXIT_USAGE
        )
    if asked.has("--gpus") and asked.has("--gpu"):
        raise Failure("--gpu and --gpus exclude each other", "name devices, or say how many", code=EXIT_USAGE)


def size_bytes(text: str) -> int:
    """Of an amount of memory such as `4GiB`; raises UsageError, `Failure` with code 2 for too little."""
    from gpud.model.units import parse_bytes  # most jobs ask for none, and it costs a millisecond

    found = int(parse_bytes(text, "--mem"))
    if found < LEAST_BYTES:
        raise Failure(
            f"--mem {text} is less than 1MiB, with which nothing starts", "for example: --mem 4GiB", code=EXIT_USAGE
        )
    return found


def millionths(text: str) -> int:
    """Of a device, for `30%`; raises UsageError, `Failure` with code 2 for nothing at all."""
    from gpud.model.units import parse_ratio

    found = round(parse_ratio(text, "--compute") * 1_000_000)
    if not found:
        raise Failure("--compute 0%: every launch would wait", "for example: --compute 30%", code=EXIT_USAGE)
    return found


def duration_s(text: str) -> float:
    """Seconds of a duration such as 500ms, 10s, 2min or 1h; raises `Failure` with code 2."""
    number = text.rstrip("hminsu")
    unit = text[len(number) :]
    try:
        seconds = float(number) * UNITS_S[unit]
    except (ValueError, KeyError):
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise Failure(
            f"not a duration: {text!r}", "a number above 0 with ms, s, min or h, such as 10s", code=EXIT_USAGE
        )
    return seconds


def simulate(environment: dict[str, str], natives: str) -> None:
    """Puts the simulated driver in front of the real one, in a node of this user's unless one is named already."""
    directory = os.path.join(natives, "sim")
    if not os.path.exists(os.path.join(directory, "libcuda.so.1")):
        raise Failure(f"the simulated driver is not there: {directory}/libcuda.so.1", "install gpud again")
    if directory not in environment.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        rest = environment.get("LD_LIBRARY_PATH", "")
        environment["LD_LIBRARY_PATH"] = f"{directory}{os.pathsep}{rest}" if rest else directory
    environment.setdefault("GPUD_SIM_NODE", f"user-{os.getuid()}")
