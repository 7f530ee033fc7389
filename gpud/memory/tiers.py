"""Budgets of what holds memory off the device. They are totals of the node, whoever's policies say so. Pure."""

import math
from collections.abc import Iterable

from attrs import Factory, define

from gpud.model.ids import ClientId
from gpud.policies.quantities import show_value
from gpud.policies.types import Type
from gpud.policies.values import Tier

UNIT = 2 << 20
"""Host slots are made of whole ones."""
LARGEST = 1 << 46
"""Of host memory, in bytes: nobody has more, whatever he says."""


def host_budget(tiers: Iterable[Iterable[Tier]]) -> float:
    """Of the host tier, bytes; `tiers`: those of each policy that has a `swap` block. The largest one holds: each says
    how much of the node's memory its clients may fill. 0: no policy swaps to the host."""
    return max((tier.max_bytes for found in tiers for tier in found if tier.kind == "host"), default=0)


@define(kw_only=True)
class HostTier:
    """What clients have of it."""

    budget: float
    given: dict[ClientId, int] = Factory(dict)
    """Bytes of slots that each was given."""
    has: dict[ClientId, int] = Factory(dict)
    """What each says that it has: less, where they were made and the daemon died before they got there. It is not
    believed for more."""
    making: set[ClientId] = Factory(set)
    """To whom some are on the way: it cannot know of them yet."""

    @property
    def used(self) -> int:
        return sum(map(self.of, self.given))

    def of(self, client: ClientId) -> int:
        """What counts as its."""
        given = self.given.get(client, 0)
        return given if client in self.making else min(given, self.has.get(client, given))

    def hear(self, client: ClientId, has: int) -> None:
        """It says that it has so much."""
        self.has[client] = has
        if has >= self.given.get(client, 0):
            self.making.discard(client)

    @property
    def left(self) -> float:
        """Below zero after the budget was lowered: who has slots keeps them."""
        return self.budget - self.used

    def refuses(self, count: int) -> str:
        """Why so much more cannot be had; "": it can."""
        if count <= 0:
            return "no bytes were asked for"
        if count > LARGEST:
            return f"{count} bytes are more than any host has"
        if count <= self.left:
            return ""
        if not self.budget:
            return "no policy swaps to host memory: a `swap` block with tiers = [host(max = …)] would"
        most = "unlimited" if self.budget == math.inf else show_value(self.budget, Type.BYTES)
        used = show_value(self.used, Type.BYTES)
        return f"{show_value(count, Type.BYTES)} more do not fit into the host tier: {used} of {most} are given out"

    def give(self, client: ClientId, count: int) -> None:
        """Raises ValueError where it is refused: then nothing has changed."""
        why = self.refuses(count)
        if why:
            raise ValueError(why)
        self.given[client] = self.of(client) + count
        self.making.add(client)

    def take_back(self, client: ClientId, count: int) -> None:
        """Slots that could not be made after all."""
        self.making.discard(client)
        left = self.given.get(client, 0) - count
        if left > 0:
            self.given[client] = left
        else:
            self.given.pop(client, None)

    def gone(self, client: ClientId) -> int:
        """Its end. Returns what it had."""
        self.has.pop(client, None)
        self.making.discard(client)
        return self.given.pop(client, 0)
