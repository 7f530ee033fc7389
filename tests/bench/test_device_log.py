"""What benches read out of a device log."""

import json

import pytest

from bench import device_log as truth
from gpud.cli.sim.devicelog import DeviceLog, parse

MS = 1_000_000


def log_of(*lines: dict[str, object], scale: float = 2.0, epoch: int = 1000) -> DeviceLog:
    header = {
        "type": "header",
        "profile": "test",
        "devices": 2,
        "time_scale": scale,
        "epoch_ns": epoch,
        "slice_ns": 2 * MS,
        "switch_ns": 0,
    }
    return parse([json.dumps(line) + "\n" for line in (header, *lines)])


def work(
    pid: int, *pieces: tuple[float, float], kind: str = "kernel", device: int = 0, **more: object
) -> dict[str, object]:
    spans = [[round(a * MS), round(b * MS)] for a, b in pieces]
    line: dict[str, object] = {
        "type": kind,
        "device": device,
        "pid": pid,
        "context": pid,
        "queue": 1,
        "submit": spans[0][0],
        "start": spans[0][0],
        "end": spans[-1][1],
        "run": sum(b - a for a, b in spans),
        "overrun": 0,
        "pieces": spans,
    }
    named: dict[str, object] = {"name": "k"} if kind == "kernel" else {"bytes": 8}
    return line | named | more


def test_only_what_computed_counts() -> None:
    """Copies over the bus do not; what was dropped with its program does, as far as it came."""
    log = log_of(
        work(1, (0, 1)),
        work(1, (1, 2), kind="memset"),
        work(1, (2, 3), kind="copy", direction="d2d"),
        work(1, (3, 4), kind="copy", direction="h2d"),
        work(1, (4, 5), dropped=True),
        work(2, (5, 6)),
        work(1, (6, 7), device=1),
    )
    mine = truth.work_of(log, [1])
    assert truth.intervals(mine) == [(0, 3 * MS), (4 * MS, 5 * MS), (6 * MS, 7 * MS)]
    assert truth.intervals(truth.work_of(log, [1], device=1)) == [(6 * MS, 7 * MS)]
    assert truth.intervals(truth.work_of(log, [1, 2], device=0))[-1] == (4 * MS, 6 * MS)


def test_kernels_side_by_side_count_once() -> None:
    log = log_of(work(1, (0, 4)), work(1, (1, 2)), work(1, (3, 5), (7, 8)))
    assert truth.intervals(truth.work_of(log, [1])) == [(0, 5 * MS), (7 * MS, 8 * MS)]


def test_within_and_binned_agree() -> None:
    spans = [(0, 3), (5, 12), (29, 31), (100, 200)]
    assert truth.within(spans, 2, 30) == 1 + 7 + 1
    assert truth.binned(spans, 0, 10, 4) == [3 + 5, 2, 1, 1]
    for index, had in enumerate(truth.binned(spans, 2, 7, 20)):
        assert had == truth.within(spans, 2 + 7 * index, 9 + 7 * index)


def test_shares_of_the_window_and_of_what_was_used() -> None:
    times = {"a": [(0, 6), (10, 12)], "b": [(6, 8)]}
    assert truth.shares(times, 0, 35, 10, of_used=False) == [
        {"a": 0.6, "b": 0.2},
        {"a": 0.2, "b": 0.0},
        {"a": 0.0, "b": 0.0},
    ]
    assert truth.shares(times, 0, 35, 10, of_used=True) == [{"a": 0.75, "b": 0.25}, {"a": 1.0, "b": 0.0}]


def test_a_turn_lasts_until_somebody_else_has_the_device() -> None:
    times = {"a": [(0, 2), (3, 5), (9, 10)], "b": [(6, 8), (20, 21)]}
    assert truth.turns(times, 0, 15) == [("a", 5), ("b", 2), ("a", 1)]
    assert truth.turns(times, 1, 15) == [("a", 2), ("b", 2), ("a", 1)]


def test_mean_error_is_over_windows_and_units() -> None:
    found = [{"a": 0.5, "b": 0.5}, {"a": 0.7, "b": 0.3}]
    assert truth.mean_error(found, {"a": 0.6, "b": 0.4}) == pytest.approx(10)
    assert truth.mean_error(found, {"a": 0.6}) == pytest.approx(10)
    with pytest.raises(truth.Unusable):
        truth.mean_error([], {"a": 0.6})


def test_a_request_lasts_from_its_arrival_to_the_end_of_its_last_kernel() -> None:
    """Arrivals are wall-clock stamps: wall = 1000 + model × 2."""
    log = log_of(
        work(1, (0, 1)), work(1, (10, 11)), work(1, (11, 13)), work(2, (12, 15)), work(1, (20, 21)), work(1, (22, 24))
    )
    requests = [
        truth.Request(arrival_ns=1000 + 18 * MS, begin_ns=1000 + 19 * MS, end_ns=1000 + 27 * MS),
        truth.Request(arrival_ns=1000 + 22 * MS, begin_ns=1000 + 39 * MS, end_ns=1000 + 49 * MS),
    ]
    assert truth.latencies_ms(log, 1, requests, 2) == pytest.approx([4, 13])
    assert truth.latencies_ms(log, 1, [], 2) == []


def test_a_request_whose_kernels_are_missing_is_no_measurement() -> None:
    log = log_of(work(1, (10, 11)))
    request = truth.Request(arrival_ns=1000, begin_ns=1000, end_ns=1000 + 30 * MS)
    with pytest.raises(truth.Unusable, match="1 requests of 2 kernels, but 1 kernels"):
        truth.latencies_ms(log, 1, [request], 2)


def test_rates_count_ends() -> None:
    log = log_of(*(work(1, (at, at + 0.5)) for at in (0, 1, 2.6, 3)))
    assert truth.rates(log.kernels, 0, 2 * MS, 2) == [1000.0, 1000.0]


@pytest.mark.parametrize(
    ("values", "longest"), [([], 0), ([1, 1], 0), ([0, 1, 0, 0, 1, 0], 2), ([0, 0, 0], 3), ([1, 0.94, 0.95], 1)]
)
def test_longest_below(values: list[float], longest: int) -> None:
    assert truth.longest_below(values, 0.95) == longest


def test_parts_are_of_what_was_wanted_over_the_last_windows() -> None:
    """A demand that changes changes what counts, window by window."""
    assert truth.parts([4, 0, 2, 2], [4, 4, 2, 2], 1) == [1, 0, 1, 1]
    assert truth.parts([4, 0, 2, 2], [4, 4, 2, 2], 2) == [1, 0.5, 2 / 6, 1]
    assert truth.parts([], [], 3) == []
