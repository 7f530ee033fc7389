"""Programs of the end-to-end tests, here too."""

from tests.e2e.conftest import counter, large

__all__ = ["counter", "large"]
