"""Shares of GPU time against their targets, all jobs with work all the time, with kernels of unequal length.

A job's GPU time is the number of its steps times what one takes alone, measured before. The contrast is the same jobs
without gpud.
"""

from attrs import frozen

from bench.gpu.place import Parts, Place, all_ready, options_of, place, same, together
from bench.gpu.windows import busy_percent, mean_error_points, shares
from bench.report import Row

SETTLE_S = 1.0


@frozen(kw_only=True)
class Unit:
    """One job of a case."""

    label: str
    ms: float
    """Length of its kernels."""
    share: float
    """What it must get when all want all."""


CASES: dict[str, tuple[str, tuple[Unit, ...]]] = {
    "equal2": (
        "share-equal",
        (Unit(label="job=a", ms=0.3, share=0.5), Unit(label="job=b", ms=2.0, share=0.5)),
    ),
    "equal4": (
        "share-equal",
        tuple(
            Unit(label=f"job={name}", ms=ms, share=0.25)
            for name, ms in (("a", 0.3), ("b", 0.5), ("c", 1.0), ("d", 2.0))
        ),
    ),
    "mix": (
        "share-mix",
        (
            Unit(label="plan=gold", ms=2.0, share=0.3),
            Unit(label="team=a", ms=0.3, share=0.35),
            Unit(label="team=b", ms=1.0, share=0.175),
            Unit(label="job=rest", ms=2.0, share=0.175),
        ),
    ),
}


def main() -> None:
    options = options_of(__doc__ or "", seconds=6.0)
    parts = Parts("shares", options)
    with place(options) as here:
        contrast = (f"equal2_{here.sharing}", *CASES["equal2"], False)
        for name, policy, units, managed in [*((name, *case, True) for name, case in CASES.items()), contrast]:
            with parts.part(name):
                parts.device, rows = measure(here, name, policy, units, managed=managed)
                parts.rows += rows
    parts.end()


def measure(here: Place, name: str, policy: str, units: tuple[Unit, ...], *, managed: bool) -> tuple[str, list[Row]]:
    """The device, and the rows of one case."""
    with here.node(policy) as node:
        jobs = {}
        for number, unit in enumerate(units):
            key, _, value = unit.label.partition("=")
            jobs[f"unit{number}"] = here.job(node, f"unit{number}", {key: value}, managed=managed)
        measuring = here.job(node, "measuring", managed=False)
        device = all_ready([*jobs.values(), measuring])
        step_s = {
            job: same([measuring, jobs[job]], f"k{unit.ms}", unit.ms) / 1e3
            for job, unit in zip(jobs, units, strict=True)
        }
        seconds = here.seconds + SETTLE_S
        orders = [
            (jobs[job], "train", {"kind": f"k{unit.ms}", "seconds": seconds})
            for job, unit in zip(jobs, units, strict=True)
        ]
        answers = together(orders)
    first = max(answer["start"] for answer in answers) + SETTLE_S
    last = min(answer["start"] for answer in answers) + seconds
    ends = {job: answer["ends"] for job, answer in zip(jobs, answers, strict=True)}
    targets = {job: unit.share for job, unit in zip(jobs, units, strict=True)}
    seen = {width: shares(ends, step_s, first, last, width) for width in (1.0, 0.1)}
    goal = (1.0, 3.0, 97.0) if managed else (None, None, None)
    errors = [mean_error_points(seen[width], targets) for width in (1.0, 0.1)]
    return device, [
        Row(name=f"shares_{name}_mean_error_points", value=errors[0], unit="points over 1 s", target=goal[0]),
        Row(name=f"shares_{name}_100ms_error_points", value=errors[1], unit="points over 100 ms", target=goal[1]),
        Row(
            name=f"shares_{name}_busy_percent", value=busy_percent(seen[1.0]), unit="%", target=goal[2], better="higher"
        ),
    ]


if __name__ == "__main__":
    main()
