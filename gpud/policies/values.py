"""Values that are more than a number."""

from attrs import frozen


@frozen
class Share:
    """A claim on GPU time: `fixed(30%)`, `weight(2)`, `equal`, `burst(weight = 4, max = 50%)`."""

    kind: str
    """`fixed`, `weight`, `equal`, `burst`."""
    percent: int = 0
    """Of a fixed share."""
    weight: float = 1
    max_percent: int = 100
    """Of a bursting share."""

    def __str__(self) -> str:
        if self.kind == "equal":
            return "equal"
        if self.kind == "fixed":
            return f"fixed({self.percent}%)"
        if self.kind == "weight":
            return f"weight({self.weight:g})"
        most = "" if self.max_percent == 100 else f", max = {self.max_percent}%"
        return f"burst(weight = {self.weight:g}{most})"


EQUAL = Share("equal")


@frozen
class Tier:
    """Where swapped memory goes."""

    kind: str
    """`host`, `disk`."""
    max_bytes: float
    """inf: unlimited."""
    path: str = ""
    """Of a disk tier."""


@frozen
class Choice:
    """A word with an argument: `wait(max = 10s)`, `queue(max = 5min)`, `spill(host)`, `soft(30%)`, `label("k")`."""

    word: str
    argument: object = None


@frozen
class LabelValue:
    """`label_bytes("k", default = 8GiB)`: read from the tenant's label when it attaches."""

    kind: str
    """`bytes`, `percent`."""
    key: str
    default: object
    """None: a tenant without the label has no limit here."""


RESIDENCIES = ("device", "host", "disk")
"""From near to far."""
