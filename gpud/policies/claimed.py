"""Which devices the targets of `apply` lines mean, and whether two claim the same one."""

import re
from collections.abc import Iterator, Sequence

from attrs import define, field

from gpud.policies import ast
from gpud.policies.diagnostics import Label
from gpud.policies.placement import NOTHING, DeviceFacts, Named, Placement, Stack
from gpud.policies.resolve.findings import Findings, alternatives
from gpud.policies.resolve.nearest import did_you_mean

_MOST = 1023
"""The highest number a device may have."""
_UUID = re.compile(r"(gpu|mig|mig-gpu)-[0-9a-f][0-9a-f/-]{0,79}")
_SHOWN = 12
"""Characters of a UUID that are shown, if they tell it from the others."""


@define
class Claims:
    """What the lines so far have claimed. `devices`: None if they are not known."""

    devices: Sequence[DeviceFacts] | None
    _named: list[Named] = field(factory=list)
    _every: Stack = NOTHING
    _by_index: dict[int, Label] = field(factory=dict)
    _by_prefix: dict[str, Label] = field(factory=dict)
    _heads: dict[str, Label] = field(factory=dict)
    """Beginnings of prefixes."""
    _star: Label | None = None

    def add(self, apply: ast.Apply, stack: Stack, findings: Findings) -> None:
        """Takes in one line."""
        what = apply.what
        if what.text != "gpu":
            helps = did_you_mean(what.text, ("gpu",)) or ("write `to gpu`",)
            findings.add("GP201", what.span, f"policies are applied to `gpu`, not to `{what.text}`", helps=helps)
            return
        for target in apply.targets:
            match target:
                case ast.DeviceRange():
                    self._range(target, stack, findings)
                case ast.DeviceUuid():
                    self._uuid(target, stack, findings)
                case ast.EveryDevice():
                    label = Label(findings.source, target.span, "here already")
                    if self._star is not None:
                        self._twice("`*` is", target, self._star, findings)
                    self._star, self._every = label, stack

    def placement(self) -> Placement:
        return Placement(tuple(self._named), self._every, tuple(self.devices or ()))

    def _range(self, target: ast.DeviceRange, stack: Stack, findings: Findings) -> None:
        first, last = target.first, target.last
        if first > last:
            message = "this range runs backwards"
            findings.add("GP206", target.span, message, helps=(f"write {last}..{first}",))
            return
        if last > _MOST:
            helps = ("GPUs are numbered from 0, in PCI order",)
            findings.add("GP206", target.span, f"there can be no GPU {last}", helps=helps)
            return
        indices = range(first, last + 1)
        if self.devices is not None:
            present = {device.index for device in self.devices}
            absent = [index for index in indices if index not in present]
            if absent:
                self._absent(target, f"{_gpus(absent)} not present", findings)
        self._claim(list(indices), target, findings)
        self._named.append(Named(first, last, "", stack))

    def _uuid(self, target: ast.DeviceUuid, stack: Stack, findings: Findings) -> None:
        written = target.prefix.text
        prefix = written.lower()
        if not _UUID.fullmatch(prefix):
            sample = self.devices[0].uuid[:_SHOWN] if self.devices else "GPU-5f3a"
            helps = (f'write the beginning of one, as `nvidia-smi -L` shows it: "{sample}"',)
            findings.add("GP206", target.span, f"no UUID of a GPU begins with `{written}`", helps=helps)
            return
        named = Named(0, -1, prefix, stack)
        self._named.append(named)
        fitting = [device for device in self.devices or () if named.fits(device)]
        if len(fitting) > 1:
            helps = (f"write {alternatives(self._shortest(fitting))}",)
            label = ", ".join(f"GPU {device.index}" for device in fitting)
            findings.add("GP313", target.span, f"`{written}` fits {len(fitting)} GPUs", label, helps=helps)
        elif fitting:
            self._claim([fitting[0].index], target, findings)
        else:
            if self.devices is not None:
                self._absent(target, f"no GPU is present whose UUID begins with `{written}`", findings)
            self._claim_prefix(prefix, target, findings)

    def _absent(self, target: ast.Target, message: str, findings: Findings) -> None:
        there = _listed(sorted(device.index for device in self.devices or ()))
        helps = (f"present now: {there}" if there else "no GPU is present now",)
        findings.add("GP312", target.span, message, "its policies wait for it", helps=helps)

    def _shortest(self, fitting: list[DeviceFacts]) -> Iterator[str]:
        """As much of each UUID as tells it from all others."""
        uuids = [device.uuid for device in self.devices or ()]
        for device in fitting[:4]:
            heads = (device.uuid[:length] for length in range(_SHOWN, len(device.uuid)))
            yield next((head for head in heads if sum(uuid.startswith(head) for uuid in uuids) == 1), device.uuid)

    # -------------------------------------------------------------------------------------------- none of them twice

    def _claim(self, indices: list[int], target: ast.Target, findings: Findings) -> None:
        again = [index for index in indices if index in self._by_index]
        if again:
            self._twice(_gpus(again), target, self._by_index[again[0]], findings)
        label = Label(findings.source, target.span, "here already")
        for index in indices:
            self._by_index.setdefault(index, label)

    def _claim_prefix(self, prefix: str, target: ast.DeviceUuid, findings: Findings) -> None:
        heads = [prefix[:length] for length in range(1, len(prefix) + 1)]
        earlier = next((self._by_prefix[head] for head in heads if head in self._by_prefix), self._heads.get(prefix))
        if earlier is not None:
            self._twice(f"`{target.prefix.text}` is", target, earlier, findings)
        label = Label(findings.source, target.span, "here already")
        self._by_prefix.setdefault(prefix, label)
        for head in heads:
            self._heads.setdefault(head, label)

    def _twice(self, what: str, target: ast.Target, earlier: Label, findings: Findings) -> None:
        findings.add(
            "GP310",
            target.span,
            f"{what} named twice",
            "again",
            also=[earlier],
            helps=["name each GPU in one `apply` line, with all its policies; those not named at all are `*`"],
        )


def _gpus(indices: list[int]) -> str:
    return f"GPU {indices[0]} is" if len(indices) == 1 else f"GPUs {_listed(indices)} are"


def _listed(indices: list[int]) -> str:
    """`0..3, 5`"""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ", ".join(f"{run[0]}..{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
