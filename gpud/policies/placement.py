"""Which stack of policies a device has. site.py makes it of `apply` lines."""

from typing import Any

from attrs import field, frozen

from gpud.policies.ir import IrPolicy


@frozen
class DeviceFacts:
    """One device that is present."""

    index: int
    """In PCI order."""
    uuid: str
    """`GPU-5f3a…`, `MIG-…`."""
    mps: bool = field(default=False, eq=False)
    """It has clients of an MPS server: turns cannot begin there."""


@frozen(eq=False)
class Applied:
    """A policy with its arguments, as one `apply` line has it."""

    policy: IrPolicy
    arguments: tuple[tuple[str, Any], ...] = ()
    """Parameters given in `apply`, sorted; values as types.py says."""


@frozen(eq=False)
class Stack:
    """What runs on a device together, as written: at most one policy that arbitrates, any number that tighten."""

    policies: tuple[Applied, ...] = ()

    @property
    def arbiter(self) -> Applied | None:
        """None: nobody holds anybody, as with the built-in `open`."""
        return next((one for one in self.policies if one.policy.arbiter is not None), None)


NOTHING = Stack()


@frozen(eq=False)
class Named:
    """Devices that one target of an `apply` line names."""

    first: int
    last: int
    """PCI order, both included; unused with a prefix."""
    prefix: str
    """Of UUIDs, in lower case; "" for a range."""
    stack: Stack

    def fits(self, device: DeviceFacts) -> bool:
        if self.prefix:
            return device.uuid.lower().startswith(self.prefix)
        return self.first <= device.index <= self.last


@frozen(eq=False)
class Placement:
    """The stack of every device, present or not: who sees a new one asks `of`."""

    named: tuple[Named, ...] = ()
    every: Stack = NOTHING
    """Of all devices that are not named: `*`."""
    devices: tuple[DeviceFacts, ...] = ()
    """Those that were there when this was made."""

    def of(self, device: DeviceFacts) -> Stack:
        return next((one.stack for one in self.named if one.fits(device)), self.every)

    @property
    def stacks(self) -> tuple[tuple[DeviceFacts, Stack], ...]:
        """Of the devices that were there."""
        return tuple((device, self.of(device)) for device in self.devices)

    @property
    def applied(self) -> tuple[Applied, ...]:
        """All that may run on some device, each once."""
        stacks = (*(one.stack for one in self.named), self.every)
        return tuple({id(one): one for stack in stacks for one in stack.policies}.values())

    @property
    def policies(self) -> tuple[IrPolicy, ...]:
        """The same, without what is said of their arguments."""
        return tuple(one.policy for one in self.applied)
