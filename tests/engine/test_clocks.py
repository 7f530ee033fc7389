"""Steps of the wall clock change nothing but `hours`: whoever decides reads CLOCK_MONOTONIC."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WALL = {"gpud/engine/service.py": "open_engine", "gpud/engine/reload.py": "__init__"}
"""Where the wall clock is handed in, for `hours` and for what people read in the history."""
_HELD = {
    "gpud/engine/reload.py": {"wall", "_wall"},
    "gpud/engine/service.py": {"wall", "_wall", "wall_ns", "wall_offset"},
    "gpud/engine/signals.py": {"wall_offset_ns", "wall_ns"},
    "gpud/engine/runs.py": {"wall_offset_ns"},
    "gpud/engine/ticking.py": {"wall_offset_ns"},
    "gpud/engine/state.py": {"wall_offset_ns"},
    "gpud/engine/launches.py": {"wall_offset_ns"},
    "gpud/engine/rulings.py": {"wall_offset_ns"},
    "gpud/engine/held.py": {"wall_offset_ns"},
    "gpud/engine/in_words.py": {"wall_offset_ns"},
    "gpud/engine/watching.py": {"wall_offset"},
}
"""Who handles what came from it, and under which name. `runs` and `ticking` hand it to the policies' `hours`; the
last five only say it: when a person ruled, for how long that has been so, when something was decided."""
_TIME = {"time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "CLOCK_REALTIME", "CLOCK_TAI"}
_DATETIME = {"now", "today", "utcnow"}
_C = re.compile(
    r"\bCLOCK_(?:REALTIME\w*|TAI)\b|\bFUTEX_CLOCK_REALTIME\b|\bgettimeofday\b|\btime\s*\(\s*(?:NULL|0|&)|\btimespec_get\b|\bftime\b"
    r"|\bpthread_cond_timedwait\b|\bsem_timedwait\b|\bpthread_mutex_timedlock\b"
)
"""The last three wait until a time of the wall clock."""


def wall_clock_reads(text: str) -> Iterator[tuple[str, int]]:
    """(function, line) of each read of the wall clock in Python source."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, int]]:
        inside = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.Attribute):
            words = ast.unparse(node).split(".")
            if (words[0] == "time" and words[-1] in _TIME) or (
                words[0] in ("datetime", "date") and words[-1] in _DATETIME
            ):
                yield inside, node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from ((inside, node.lineno) for name in node.names if name.name in _TIME)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inside)

    return visit(ast.parse(text), "")


def _words(text: str) -> str:
    """Python without its comments and texts."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return " ".join(token.string for token in tokens if token.type == tokenize.NAME)


def _code(text: str) -> str:
    """C without its comments and strings."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


def _files(*patterns: str) -> list[Path]:
    found = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    assert found
    return found


@pytest.mark.parametrize("path", _files("gpud/engine/*.py", "gpud/hooks/*.py"), ids=lambda path: path.name)
def test_daemon_decides_by_the_monotonic_clock(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    reads = [(function, line) for function, line in wall_clock_reads(path.read_text()) if WALL.get(name) != function]
    assert reads == [], f"{name} reads the wall clock"
    names = {word for word in re.findall(r"\w+", _words(path.read_text())) if "wall" in word.lower()}
    assert names <= _HELD.get(name, set()), f"{name} handles what came from the wall clock"


@pytest.mark.parametrize(
    "path", _files("hooks-native/src/*.[ch]", "gpud/hooks/*.[ch]"), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_hook_decides_by_the_monotonic_clock(path: Path) -> None:
    assert _C.findall(_code(path.read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        "import time\nx = time.time()",
        "from time import time_ns",
        "import datetime\nx = datetime.datetime.now()",
        "from datetime import datetime\nx = datetime.now(UTC)",
        "import time\nx = time.clock_gettime(time.CLOCK_REALTIME)",
    ],
)
def test_a_read_of_the_wall_clock_is_seen(text: str) -> None:
    assert list(wall_clock_reads(text))


@pytest.mark.parametrize(
    "text",
    [
        "clock_gettime(CLOCK_REALTIME, &t);",
        "gettimeofday(&t, NULL);",
        "x = time(NULL);",
        "pthread_cond_timedwait(&c, &m, &t);",
    ],
)
def test_a_read_of_the_wall_clock_in_c_is_seen(text: str) -> None:
    assert _C.findall(_code(text))
    assert not _C.findall(_code(f"/* {text} */"))
