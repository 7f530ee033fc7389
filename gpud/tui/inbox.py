"""What a feed's thread leaves for the loop that draws."""

from collections import deque
from collections.abc import Callable

from gpud.tui.feed import Item


class Inbox:
    """Thread-safe. Items wait there before there is a screen, too: the daemon is asked while Textual is imported."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._wake: Callable[[], object] | None = None

    def post(self, item: Item) -> None:
        self._items.append(item)
        wake = self._wake
        if wake is not None:
            wake()

    def wake_by(self, wake: Callable[[], object] | None) -> None:
        """Called after each item, from the thread that posts it; and now, for those that are there."""
        self._wake = wake
        if wake is not None and self._items:
            wake()

    def drain(self) -> list[Item]:
        """All that have come."""
        items: list[Item] = []
        while self._items:
            items.append(self._items.popleft())
        return items
