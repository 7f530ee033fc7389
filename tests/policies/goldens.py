"""Reads the golden files, and writes what is expected of them: `python -m tests.policies.goldens NAME… [--write]`."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpud.policies.check.whole import check_library
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.enforce import THIS_VERSION
from gpud.policies.library import from_texts
from gpud.policies.placement import DeviceFacts
from gpud.policies.plugins.declare import Class, Duration, Number, Plugin, Signal
from gpud.policies.render import human
from gpud.policies.simulate.runner import run_test

GOLDEN = Path(__file__).parent / "golden"
CODE = re.compile(r"^(?:error|warning)\[(GP\d+)\]", re.MULTILINE)
_DIRECTIVE = re.compile(r"^# golden: (\w+) *(.*)$", re.MULTILINE)

VLLM = Plugin(
    name="vllm",
    signals=(Signal("queue_depth", Number, scope=Class), Signal("ttft_p99", Duration, scope=Class)),
    open=lambda publish, settings: None,
)
BROKEN = Plugin(name="broken", signals=(Signal("Depth", Number, scope="node"),))
"""Its declaration is wrong in two ways: names are lower case, and there is no scope `node`."""
PLUGINS = {plugin.name: plugin for plugin in (VLLM, BROKEN)}


class Golden(NamedTuple):
    """One case."""

    name: str
    files: dict[str, bytes]
    """By the name that is shown."""
    directives: dict[str, tuple[str, ...]]
    expected: Path


def goldens() -> list[Golden]:
    """All cases, by name."""
    cases = []
    for path in sorted(GOLDEN.iterdir()):
        if path.is_dir():
            files = {f"bad/{path.name}/{file.name}": file.read_bytes() for file in sorted(path.glob("*.gpol"))}
        elif path.suffix == ".gpol":
            files = {f"bad/{path.name}": path.read_bytes()}
        else:
            continue
        text = b"\n".join(files.values()).decode(errors="replace")
        directives = {word: tuple(rest.split()) for word, rest in _DIRECTIVE.findall(text)}
        cases.append(Golden(path.stem, files, directives, GOLDEN / f"{path.stem}.expected"))
    return cases


def found(case: Golden) -> list[Diagnostic]:
    """What is wrong with the files of a case."""
    return found_in(
        case.files,
        devices=case.directives.get("devices"),
        plugins=case.directives.get("plugin", ()),
        enforced="enforced" in case.directives,
        claims=case.directives.get("claims"),
        tests="test" in case.directives,
        whole="whole" in case.directives,
        mps="mps" in case.directives,
    )


def found_in(
    files: Mapping[str, str | bytes],
    *,
    devices: Sequence[str] | None = None,
    plugins: Sequence[str] = (),
    enforced: bool = False,
    claims: Sequence[str] | None = None,
    tests: bool = False,
    whole: bool = False,
    mps: bool = False,
) -> list[Diagnostic]:
    """What is wrong with a set of files, by name, on a machine with these devices and plugins beside vllm."""
    library = from_texts(files)
    used = {"vllm": VLLM} | {name: PLUGINS[name] for name in plugins}
    problems = check_library(
        library,
        used,
        None if devices is None else [DeviceFacts(index, uuid, mps) for index, uuid in enumerate(devices)],
        claims=frozenset(claims) if claims is not None else None,
        enforced=THIS_VERSION if enforced else None,
        whole=whole,
    )
    if not tests:
        return problems
    results = [run_test(test, file, library, used, most=20_000) for test, file in library.tests]
    return [*problems, *(diagnostic for result in results for diagnostic in result.diagnostics)]


def rendered(case: Golden) -> str:
    """The text of a case's findings."""
    return human(found(case))


def main(arguments: list[str]) -> int:
    write = "--write" in arguments
    names = [argument for argument in arguments if argument != "--write"]
    unknown = set(names) - {case.name for case in goldens()}
    for case in goldens():
        if names and case.name not in names:
            continue
        text = rendered(case)
        if write:
            case.expected.write_text(text)
        else:
            print(f"──── {case.name}\n{text}")
    if unknown:
        print(f"no such case: {', '.join(sorted(unknown))}", file=sys.stderr)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
