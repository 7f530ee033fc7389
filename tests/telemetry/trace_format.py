"""The trace event format, as its document says what must be in an event. Written from that document, not from what we
export."""

from collections import defaultdict
from typing import Any

_NEEDED = {
    "X": {"name", "ts", "dur", "pid", "tid"},
    "B": {"name", "ts", "pid", "tid"},
    "E": {"ts", "pid", "tid"},
    "i": {"name", "ts", "pid", "tid"},
    "C": {"name", "ts", "pid", "args"},
    "M": {"name", "pid", "args"},
}
_TOP = {
    "traceEvents", "displayTimeUnit", "systemTraceEvents", "otherData", "powerTraceAsString", "stackFrames", "samples",
    "controllerTraceDataKey", "metadata",
}  # fmt: skip
_METADATA = {
    "process_name": ("name", str),
    "process_labels": ("labels", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}


def check(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The events. Raises AssertionError for what the format does not allow."""
    assert set(document) <= _TOP
    assert document.get("displayTimeUnit", "ms") in ("ms", "ns")
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in document["traceEvents"]:
        kind = event["ph"]
        assert kind in _NEEDED, kind
        assert set(event) >= _NEEDED[kind], event
        assert all(type(event[name]) is int for name in ("pid", "tid") if name in event)
        assert all(isinstance(event[name], int | float) and event[name] >= 0 for name in ("ts", "dur") if name in event)
        assert isinstance(event.get("args", {}), dict)
        match kind:
            case "X":
                lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
            case "i":
                assert event.get("s", "t") in ("g", "p", "t")
            case "C":
                assert event["args"]
                assert all(type(value) in (int, float) for value in event["args"].values())
            case "M":
                key, kind_of = _METADATA[event["name"]]
                assert type(event["args"][key]) is kind_of
    for slices in lanes.values():
        _check_nesting(sorted(slices, key=lambda one: (one[0], -one[1])))
    return list(document["traceEvents"])


def _check_nesting(slices: list[tuple[float, float]]) -> None:
    """Complete events of one thread are inside each other, or apart."""
    around: list[float] = []
    for began, ended in slices:
        while around and around[-1] <= began + 1e-3:
            around.pop()
        assert not around or ended <= around[-1] + 1e-3, "slices of one lane overlap"
        around.append(ended)
