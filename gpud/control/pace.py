"""How often somebody may do something: so many at once, then so many a second. Pure."""

from collections.abc import Hashable

MOST_KEPT = 1024


class Pace:
    """Of everybody, each by a key. `now`: seconds of any clock that does not go back."""

    def __init__(self, *, at_once: int, per_s: float) -> None:
        self._step = 1 / per_s
        self._ahead = (at_once - 1) * self._step
        self._due: dict[Hashable, float] = {}
        """When each would have used up what it may, were it to do no more."""

    def wait_s(self, key: Hashable, now: float) -> float:
        """Takes a place, and says how long it is until then; 0: at once."""
        due = max(self._due.get(key, now), now)
        self._keep(key, due + self._step, now)
        return max(due - self._ahead - now, 0.0)

    def may(self, key: Hashable, now: float) -> bool:
        """May it now? Then it has done it."""
        due = max(self._due.get(key, now), now)
        if due - self._ahead > now:
            return False
        self._keep(key, due + self._step, now)
        return True

    def _keep(self, key: Hashable, due: float, now: float) -> None:
        if len(self._due) >= MOST_KEPT:
            self._due = {one: at for one, at in self._due.items() if at > now}
        self._due[key] = due
