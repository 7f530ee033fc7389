"""Figures from scripted device logs."""

import json
import math
from collections.abc import Sequence

import attrs
import pytest

from gpud.cli.demo.figures import (
    Request,
    RunFigures,
    Sample,
    Unusable,
    busy_ns,
    doubts,
    percentile,
    possible,
    simulated_run,
)
from gpud.cli.sim.devicelog import BadLog, DeviceLog, parse

MS = 1_000_000
SCALE = 2.5
EPOCH = 1_000_000_000_000
SERVING, TRAINING = 11, 22


def header(**changes: object) -> str:
    fields = {
        "type": "header", "version": 1, "simulated": True, "node": "n", "profile": "a100-40gb-demo", "devices": 1,
        "time_scale": SCALE, "epoch_ns": EPOCH, "slice_ns": 2 * MS, "switch_ns": 760_000,
    }  # fmt: skip
    return json.dumps(fields | changes)


def kernel(pid: int, start_ms: float, end_ms: float, **changes: object) -> str:
    start, end = int(start_ms * MS), int(end_ms * MS)
    fields = {
        "type": "kernel", "device": 0, "pid": pid, "context": pid, "queue": 1, "name": "k", "blocks": 1, "ticket": 1,
        "submit": start, "start": start, "end": end, "run": end - start, "slices": 1, "overrun": 0,
    }  # fmt: skip
    return json.dumps(fields | changes)


def log(*lines: str) -> DeviceLog:
    return parse([header(), *lines])


def wall(model_ms: float) -> int:
    return EPOCH + int(model_ms * MS * SCALE)


def request(number: int, arrival: float, begin: float, end: float) -> Request:
    return Request(number=number, arrival_ns=wall(arrival), begin_ns=wall(begin), end_ns=wall(end))


def two_requests() -> DeviceLog:
    return log(
        kernel(SERVING, 1, 3),  # warm-up, before the window
        kernel(SERVING, 11, 13),
        kernel(TRAINING, 13, 15),
        kernel(SERVING, 15, 17),
        kernel(TRAINING, 17, 19),
        kernel(SERVING, 31, 33),
        kernel(SERVING, 33, 35),
        kernel(TRAINING, 59, 61),  # ends after the window
    )


def figures(device_log: DeviceLog, requests: Sequence[Request], **changes: object) -> RunFigures:
    given: dict[str, object] = {
        "window": (wall(10), wall(60)), "serving_kernels": 2, "serving": SERVING, "training": TRAINING, "correct": True,
    }  # fmt: skip
    return simulated_run("run", device_log, requests, **(given | changes))  # type: ignore[arg-type]


def test_latency_is_from_arrival_to_the_end_of_the_last_kernel_in_model_time() -> None:
    found = figures(two_requests(), [request(0, 10.5, 10.9, 20), request(1, 12, 30, 36)])
    assert [sample.latency_ms for sample in found.samples] == pytest.approx([6.5, 23.0])
    assert [sample.at_s for sample in found.samples] == pytest.approx([0.0005, 0.002])
    assert found.wall_ms == pytest.approx([9.5 * SCALE, 24 * SCALE])
    assert found.p50_ms == pytest.approx(6.5)
    assert found.p99_ms == pytest.approx(23.0)


def test_training_counts_the_steps_that_end_in_the_window() -> None:
    found = figures(two_requests(), [request(0, 10.5, 10.9, 20)])
    assert found.training_steps_per_s == pytest.approx(2 / 0.05)
    assert found.training_step_ms == pytest.approx(2.0)
    assert figures(two_requests(), [request(0, 10.5, 10.9, 20)], training=None).training_steps_per_s is None


def test_gpu_busy_is_what_lies_in_the_window_and_overlap_counts_once() -> None:
    found = figures(two_requests(), [request(0, 10.5, 10.9, 20)])
    assert found.gpu_busy == pytest.approx((8 + 4 + 1) / 50)
    overlapping = log(kernel(1, 0, 10), kernel(2, 5, 15), kernel(3, 6, 7))
    assert busy_ns(overlapping.kernels, 0, 20 * MS) == 15 * MS
    assert busy_ns(overlapping.kernels, 12 * MS, 20 * MS) == 3 * MS


def test_a_kernel_in_pieces_is_busy_only_in_them() -> None:
    pieces = [[20 * MS, 21 * MS], [25 * MS, 26 * MS]]
    cut = log(kernel(SERVING, 11, 13), kernel(SERVING, 13, 15), kernel(TRAINING, 20, 26, run=2 * MS, pieces=pieces))
    found = figures(cut, [request(0, 10.5, 10.9, 20)])
    assert found.gpu_busy == pytest.approx(6 / 50)
    lanes = {lane.who: lane.pieces for lane in found.lanes}
    assert lanes["training"] == (
        (pytest.approx(0.010), pytest.approx(0.011)),
        (pytest.approx(0.015), pytest.approx(0.016)),
    )


def test_overruns_are_a_share_of_device_time() -> None:
    late = log(kernel(SERVING, 11, 13), kernel(SERVING, 13, 15, overrun=MS))
    assert figures(late, [request(0, 10.5, 10.9, 20)]).overrun == pytest.approx(0.25)


def test_a_request_without_its_kernels_makes_the_run_unusable() -> None:
    with pytest.raises(Unusable, match="request 1 has no 2 kernels"):
        figures(two_requests(), [request(0, 10.5, 10.9, 20), request(1, 40, 40, 50)])
    with pytest.raises(Unusable, match="request 0"):
        figures(two_requests(), [request(0, 10.5, 10.9, 16)])


def test_a_program_that_died_is_left_out() -> None:
    assert log(kernel(SERVING, 1, 2, dropped=True)).kernels == ()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "no header"),
        (["{}"], ":1: not a line"),
        ([header(), "not json"], ":2: not a line"),
        ([header(), '{"type": "kernel"}'], ":2: not a line"),
        ([header(), "[]"], ":2: not a line"),
        ([header(time_scale=0)], ":1: not a line"),
        ([header(), '{"type": "end", "lost_lines": 3}'], "3 lines could not be written"),
    ],
)
def test_a_log_that_is_none(lines: list[str], said: str) -> None:
    with pytest.raises(BadLog, match=said):
        parse(lines)


def test_other_lines_are_passed_over() -> None:
    lines = [header(), '{"type": "of a newer version"}']
    assert parse(lines).kernels == ()


def test_percentiles_are_nearest_rank() -> None:
    values = list(range(1, 101))
    assert percentile(values, 50) == 50
    assert percentile(values, 99) == 99
    assert percentile([3, 1, 2], 99) == 3
    assert percentile([7], 50) == 7
    assert math.isnan(percentile([], 50))


def run(name: str, latencies: Sequence[float], *, busy: float = 0.3, overrun: float = 0.0) -> RunFigures:
    return RunFigures(
        name=name,
        samples=tuple(Sample(at_s=i * 0.06, latency_ms=ms) for i, ms in enumerate(latencies)),
        wall_ms=tuple(latencies),
        window_s=1.0,
        training_steps_per_s=100.0,
        training_step_ms=2.0,
        gpu_busy=busy,
        overrun=overrun,
        correct=True,
    )


def test_what_is_possible() -> None:
    limits = possible(
        run("alone", [20], busy=1 / 3),
        step_ms=2.0,
        rate_per_s=1e3 / 60,
        resume_after_ms=1.0,
        window_ms=2.0,
        switch_ms=0.76,
    )
    assert limits.idle == pytest.approx(2 / 3)
    assert limits.training_steps_per_s == pytest.approx(2 / 3 * math.exp(-1 / 60) * 500)
    assert limits.delay_ms == pytest.approx(3.52)


def good() -> dict[str, RunFigures]:
    return {
        "alone": run("alone", [20] * 10),
        "shared": run("shared", [60] * 10),
        "preempt-mix": run("preempt-mix", [21] * 10),
    }


def test_figures_without_doubt() -> None:
    assert doubts(good(), run("null", [20.5] * 10)) == []


def test_a_null_contender_that_slows_serving_is_a_doubt() -> None:
    (doubt,) = doubts(good(), run("null", [20.5] * 9 + [22]))
    assert "p99 is 1.10 × alone" in doubt


def test_overruns_are_a_doubt() -> None:
    (doubt,) = doubts(good() | {"preempt-mix": run("preempt-mix", [21] * 10, overrun=0.011)}, None)
    assert doubt.startswith("preempt-mix: 1.1%")


def test_no_contrast_is_a_doubt() -> None:
    (doubt,) = doubts(good() | {"shared": run("shared", [39] * 10)}, None)
    assert "1.95 × alone" in doubt


def test_something_computed_wrong_is_a_doubt() -> None:
    wrong = attrs.evolve(run("shared", [60] * 10), correct=False)
    assert doubts(good() | {"shared": wrong}, None) == ["shared: a program computed something wrong"]
    assert doubts(good(), attrs.evolve(run("null", [20] * 10), correct=False)) != []
