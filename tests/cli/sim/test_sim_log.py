"""`gpud sim log`: reading, counting and drawing scripted device logs."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from gpud.cli.sim.devicelog import BadLog, DeviceLog, parse, read_log
from gpud.cli.sim.picture import draw, joined, step_ns
from gpud.cli.sim.summary import busy_ns, summarise
from gpud.cli.sim.table import duration, size
from tests.cli.conftest import Gpud

MS = 1_000_000
ONE, TWO = 11, 22


def line(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields})


def header(**changes: Any) -> str:
    fields = {
        "version": 1, "simulated": True, "node": "n", "profile": "test-small", "mode": "timeslice", "devices": 2,
        "time_scale": 2, "epoch_ns": 1000, "slice_ns": 2 * MS, "switch_ns": MS // 10, "uuids": ["GPU-a", "GPU-b"],
    }  # fmt: skip
    return line("header", **(fields | changes))


def work(kind: str, pid: int, start_ms: float, end_ms: float, **fields: Any) -> str:
    start, end = int(start_ms * MS), int(end_ms * MS)
    common = {
        "device": 0, "pid": pid, "context": pid, "queue": pid, "ticket": 1, "submit": start - MS, "start": start,
        "end": end, "run": end - start, "slices": len(fields.get("pieces", [0])), "overrun": 0,
    }  # fmt: skip
    return line(kind, **(common | fields))


def kernel(pid: int, start_ms: float, end_ms: float, name: str = "k", **fields: Any) -> str:
    return work("kernel", pid, start_ms, end_ms, name=name, blocks=1, **fields)


def counters(kind: str = "end", **changes: Any) -> str:
    fields = {
        "device": 0, "model_ns": 99, "busy_ns": 5, "copy_busy_ns": 6, "overrun_ns": 0, "kernels": 1, "copies": 1,
        "switches": 1, "switch_ns": 7, "lost_lines": 0, "valid": True,
    }  # fmt: skip
    return line(kind, **(fields | changes))


SCRIPT = (
    header(),
    line("client", pid=ONE, what="attached", model_ns=0, reason=""),
    line("client", pid=TWO, what="attached", model_ns=0, reason=""),
    work("copy", ONE, 1, 3, direction="h2d", bytes=4 << 20),
    kernel(ONE, 3, 9, "train", pieces=[[3 * MS, 5 * MS], [7 * MS, 9 * MS]], run=4 * MS),
    line("switch", device=0, **{"from": ONE}, to=TWO, start=5 * MS, end=int(5.1 * MS)),
    kernel(TWO, 5.1, 7, "serve"),
    kernel(TWO, 20, 21, "serve", device=1),
    work("memset", ONE, 9, 10, bytes=100),
    work("copy", TWO, 21, 23, direction="d2h", bytes=1 << 20, device=1),
    work("copy", ONE, 10, 12, direction="d2d", bytes=64),
    line("fault", pid=TWO, model_ns=24 * MS, call="cuMemAlloc_v2", what="fail ERROR_OUT_OF_MEMORY"),
    line("lost", device=1, pid=TWO, model_ns=25 * MS),
    kernel(TWO, 24, 25, "serve", device=1, dropped=True),
    line("client", pid=ONE, what="detached", model_ns=26 * MS, reason="left"),
    line("client", pid=TWO, what="detached", model_ns=26 * MS, reason="its process ended"),
    line("something", of="a newer version"),
    counters(),
    counters(device=1),
)


@pytest.fixture
def log() -> DeviceLog:
    return parse(SCRIPT)


def test_every_line_is_read(log: DeviceLog) -> None:
    assert [k.name for k in log.kernels] == ["train", "serve", "serve"]
    assert [c.direction for c in log.copies] == ["h2d", "d2h", "d2d"]
    assert [m.size for m in log.memsets] == [100]
    assert [(s.from_context, s.to_context) for s in log.switches] == [(ONE, TWO)]
    assert [(c.pid, c.what) for c in log.clients] == [
        (ONE, "attached"), (TWO, "attached"), (ONE, "detached"), (TWO, "detached"),
    ]  # fmt: skip
    assert [f.call for f in log.faults] == ["cuMemAlloc_v2"]
    assert [one.device for one in log.lost] == [1]
    assert len(log.dropped) == 1
    assert log.complete
    assert log.valid
    assert log.header.mode == "timeslice"


def test_summary(log: DeviceLog) -> None:
    summary = summarise(log)
    first, second = summary.devices
    assert first.busy_ns == 4 * MS + int(1.9 * MS) + MS + 2 * MS  # the copy over the bus is beside it
    assert (first.kernels, first.copies, first.switches, first.switch_ns) == (2, 1, 1, MS // 10)
    assert first.lost_ns is None
    assert second.lost_ns == 25 * MS
    one, two, elsewhere = summary.programs
    assert (one.pid, one.device, one.end, one.h2d_bytes, one.cuts) == (ONE, 0, "left", 4 << 20, 1)
    assert one.run_ns == 4 * MS + MS + 2 * MS
    assert (two.pid, two.wait_p50_ns, two.end) == (TWO, MS, "its process ended")
    assert (elsewhere.pid, elsewhere.device, elsewhere.d2h_bytes, elsewhere.dropped) == (TWO, 1, 1 << 20, 1)
    assert [(k.name, k.count) for k in summary.kernels] == [("train", 1), ("serve", 2)]
    assert summary.faults == ("cuMemAlloc_v2 of process 22: fail ERROR_OUT_OF_MEMORY",)


def test_document_says_that_it_is_simulated(log: DeviceLog) -> None:
    document = summarise(log).document()
    assert list(document)[:3] == ["simulated", "node", "profile"]
    assert document["simulated"] is True
    assert document["profile"] == "test-small"
    json.dumps(document)


def test_overlapping_work_is_busy_once() -> None:
    log = parse([header(), kernel(ONE, 1, 4), kernel(ONE, 2, 3), kernel(ONE, 3, 5), kernel(ONE, 7, 8)])
    assert busy_ns(log.kernels) == 5 * MS


def test_a_log_that_is_being_written() -> None:
    log = parse([header(), kernel(ONE, 1, 2), counters("counters")])
    assert not log.complete
    assert summarise(log).programs[0].end == "running"


def test_wall_time_becomes_model_time() -> None:
    log = parse([header(), line("clock", model_ns=500, epoch_ns=2000)])
    assert log.model_ns(1400) == 200
    assert log.model_ns(2000 + 2 * 600) == 600  # after the clock was set back by 1000
    assert log.model_ns(1000 + 2 * 499) == 499


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "has no header"),
        ([kernel(ONE, 1, 2)], "1: not a line .* before the header"),
        (["{"], "1: not a line of a device log"),
        ([header(), "[]"], "2: not a line of a device log"),
        ([header(), line("kernel", device=0)], "KeyError"),
        ([header(), work("copy", ONE, 1, 2, direction="up", bytes=1)], "direction 'up'"),
        ([header(), line("client", pid=1, what="danced", model_ns=0, reason="")], "what 'danced'"),
        ([header(time_scale=0)], "time_scale"),
        ([header().replace('"time_scale": 2', '"time_scale": 1e999')], "time_scale inf"),
        ([header(), header()], "a second header"),
        ([counters(), header()], "1: not a line .* before the header"),
        ([header(devices=10**9)], "devices 1000000000"),
        ([header(), kernel(ONE, 1, 2, device=2)], "device 2"),
        ([header(), kernel(ONE, 2, 1)], "end 1000000"),
        ([header(), kernel(ONE, 1, 2, pieces=[[2, 1]])], "piece 1"),
        ([header(), kernel(ONE, 1, 2).replace('"run": 1000000', '"run": 1e999')], "run inf"),
        ([header(), kernel(ONE, 1, 2, run=1.5)], "run 1.5"),
        ([header(), kernel(ONE, 1, 2, run=True)], "run True"),
        ([header(), kernel(ONE, 1, 2, name=7)], "name is no text"),
        ([header(), counters(valid=1)], "valid is neither"),
        ([header(), "[" * 200_000], "2: not a line of a device log .RecursionError"),
        (["x" * (1 << 24)], "does not end"),
        ([header(), counters(lost_lines=3)], "3 lines could not be written"),
    ],
)
def test_wrong_logs(lines: list[str], words: str) -> None:
    with pytest.raises(BadLog, match=words):
        parse(lines, "x")


def test_a_log_that_is_cut_off(tmp_path: Path) -> None:
    """Wherever its writer was killed: what is whole is read, and the log is not complete."""
    text = "\n".join(SCRIPT) + "\n"
    file = tmp_path / "log"
    begin, end = text.index("\n") + 1, text.rindex("\n", 0, -1)
    for length in [*range(begin, len(text), 41), end, len(text) - 2]:
        file.write_text(text[:length])
        log = read_log(file)
        assert not log.complete
        whole = text[:length].split("\n")
        assert len(log.clients) == sum('"client"' in one and one.endswith("}") for one in whole)
        summarise(log)
    file.write_text(text[: begin - 2])
    with pytest.raises(BadLog, match="1: not a line of a device log"):
        read_log(file)
    file.write_text(text.replace('"switch"', '"switch', 1))  # a line in the middle
    with pytest.raises(BadLog, match="6: not a line of a device log"):
        read_log(file)


def test_texts_of_programs_do_no_harm() -> None:
    """Names and reasons are anybody's: neither the picture nor the terminal suffers from them."""
    evil = "\x00\ud800\x1b[2J<&\u202e"
    lines = [header(node=evil), kernel(ONE, 1, 2, evil), line("fault", pid=1, model_ns=MS, call=evil, what=evil)]
    log = parse(lines)
    assert log.kernels[0].name == "???[2J<&?"
    assert "???[2J<&?: ???[2J<&?" in list(ET.fromstring(draw(log).encode()).itertext())
    json.dumps(summarise(log).document(), ensure_ascii=False).encode()


def test_cuts_are_counted_beyond_the_pieces() -> None:
    log = parse([header(), kernel(ONE, 1, 2, pieces=[[MS, 2 * MS]], slices=70_000)])
    assert summarise(log).programs[0].cuts == 69_999


def test_picture(log: DeviceLog) -> None:
    text = draw(log)
    root = ET.fromstring(text)
    words = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "device 0" in words
    assert "device 1" in words
    assert "process 11" in words
    assert words.count("process 22") == 2
    assert "copies to it" in words
    assert "switches" in words
    assert any("simulated, profile test-small" in text for text in words)
    assert any("device 1 is lost" in text for text in words)
    # One box a piece: two of the first kernel, in the colour of its process.
    boxes = [e for e in root.iter("{http://www.w3.org/2000/svg}rect") if e.get("fill") == "#0969da"]
    assert len(boxes) >= 3


def test_picture_of_a_part(log: DeviceLog) -> None:
    words = ["".join(e.itertext()) for e in ET.fromstring(draw(log, 19 * MS, 22 * MS)).iter()]
    assert "process 11" not in words  # it did nothing then
    assert "process 22" in words


def test_picture_of_nothing() -> None:
    assert "device 0" in draw(parse([header()]))


def test_boxes_that_nobody_could_tell_apart_are_one() -> None:
    assert joined([(0, 1, "a"), (2, 3, "a"), (9, 10, "a"), (11, 12, "b")], 2) == [
        (0, 3, "a"),
        (9, 10, "a"),
        (11, 12, "b"),
    ]


def test_steps_of_the_axis() -> None:
    assert [step_ns(x) for x in (0, 1, 3, 12, 51, 400_000)] == [1, 1, 5, 20, 100, 500_000]


def test_words_for_amounts() -> None:
    assert [duration(x) for x in (0, 12, 1_250, 2_000_000, 3_210_000_000)] == [
        "0",
        "12 ns",
        "1.25 us",
        "2 ms",
        "3.21 s",
    ]
    assert [size(x) for x in (0, 12, 2048, 64 << 20, 3 << 30)] == ["0", "12 B", "2 KiB", "64 MiB", "3 GiB"]


def test_verb(gpud: Gpud, tmp_path: Path) -> None:
    file, picture = tmp_path / "log.jsonl", tmp_path / "out.svg"
    file.write_text("\n".join(SCRIPT))
    done = gpud("sim", "log", str(file))
    assert done.returncode == 0, done.stderr
    assert "node n: simulated, profile test-small, timeslice, time scale 2; times are model time" in done.stdout
    assert "its process ended, 1 dropped" in done.stdout
    assert "fault: cuMemAlloc_v2 of process 22" in done.stdout
    done = gpud("sim", "log", str(file), "--json", "--svg", str(picture), "--from", "1", "--to", "9")
    assert json.loads(done.stdout)["simulated"] is True
    assert ET.fromstring(picture.read_text()).tag.endswith("svg")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["{tmp}/nothing"], 1, "No such file"),
        (["{tmp}/log", "--from", "1"], 2, "add --svg FILE"),
        (["{tmp}/log", "--svg", "{tmp}/x/y.svg"], 2, "cannot write"),
        (["{tmp}/log", "--svg", "{tmp}/y.svg", "--from", "3", "--to", "2"], 2, "is not before"),
        (["{tmp}/binary"], 1, "not UTF-8"),
    ],
)
def test_verb_says_what_is_wrong(gpud: Gpud, tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    (tmp_path / "log").write_text("\n".join(SCRIPT))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    done = gpud("sim", "log", *(argument.format(tmp=tmp_path) for argument in arguments))
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
