"""Measurements on machines that others use too: a bound that a late processor breaks is measured again, a fault of ours
breaks it each time."""

import time
from collections.abc import Callable

TRIES = 5
REST_S = 2.0
"""After the first try; then longer and longer, since what disturbs often passes."""


class Bounds:
    """What one try has missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def near(self, value: float, wanted: float, by: float, what: str) -> None:
        if not wanted - by <= value <= wanted + by:
            self.missed.append(f"{what}: {value:.4g}, not {wanted:g} ± {by:g}")

    def least(self, value: float, wanted: float, what: str) -> None:
        if value < wanted:
            self.missed.append(f"{what}: {value:.4g}, not {wanted:g} at least")

    def most(self, value: float, wanted: float, what: str) -> None:
        if value > wanted:
            self.missed.append(f"{what}: {value:.4g}, not {wanted:g} at most")


def measured(attempt: Callable[[Bounds], None]) -> None:
    """Makes the attempt until it misses no bound, TRIES times at most. What it asserts holds each time. Raises
    AssertionError with what each try has missed.

    A bound lies between what is right and what the fault that it is there for would show, and not near to either."""
    tries: list[str] = []
    while len(tries) < TRIES:
        bounds = Bounds()
        attempt(bounds)
        if not bounds.missed:
            return
        tries.append("; ".join(bounds.missed))
        print(f"try {len(tries)} missed: {tries[-1]}")
        if len(tries) < TRIES:
            time.sleep(REST_S * len(tries))
    raise AssertionError("missed each time: " + " | ".join(tries))
