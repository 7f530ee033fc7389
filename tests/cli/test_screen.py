"""Figures as tables show them."""

import pytest

from gpud.cli.screen import size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "–"), (0, "0 B"), (512 << 20, "512 MiB"), (140 << 30, "140 GiB"), (2**50 - 2**45, "1.02e+06 GiB"),
        (2**50, "?"), (2**64 - 1, "?"),
    ],
)  # fmt: skip
def test_a_size_is_short_and_nonsense_is_no_figure(count: int | None, text: str) -> None:
    assert size(count) == text
