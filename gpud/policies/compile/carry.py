"""What a program takes over from the one that ran before it (§2.8, step 5): all of the same identity and types."""

from typing import Any

from gpud.policies.program import Slot


def carry(
    old: Any, old_slots: tuple[Slot, ...], new_slots: tuple[Slot, ...], fresh: Any
) -> tuple[Any, tuple[str, ...]]:
    """(a state for `new_slots`, labels of operators that start anew)."""
    fresh_labels: dict[str, None] = {}
    return _carried(old, old_slots, new_slots, fresh, fresh_labels), tuple(fresh_labels)


def _carried(
    old: tuple[Any, ...],
    old_slots: tuple[Slot, ...],
    new_slots: tuple[Slot, ...],
    fresh: tuple[Any, ...],
    labels: dict[str, None],
) -> tuple[Any, ...]:
    known = {(slot.key, slot.signature): index for index, slot in enumerate(old_slots) if slot.key}
    state = []
    for slot, initial in zip(new_slots, fresh, strict=True):
        index = known.get((slot.key, slot.signature))
        if index is None:
            state.append(initial)
            _start_anew(slot, labels)
        elif slot.inner or old_slots[index].inner:
            state.append(_tenants(old[index], old_slots[index].inner, slot.inner, labels))
        else:
            state.append(old[index])
    return tuple(state)


def _tenants(
    old: dict[int, tuple[Any, ...]], old_slots: tuple[Slot, ...], slots: tuple[Slot, ...], labels: dict[str, None]
) -> dict[int, tuple[Any, ...]]:
    """Of an `each`: the same for every tenant. What starts anew is said even if there is none."""
    initial = tuple(slot.initial for slot in slots)
    _carried((None,) * len(old_slots), old_slots, slots, initial, labels)
    return {tenant: _carried(kept, old_slots, slots, initial, {}) for tenant, kept in old.items()}


def _start_anew(slot: Slot, labels: dict[str, None]) -> None:
    if slot.label:
        labels[slot.label] = None
    for inner in slot.inner:
        _start_anew(inner, labels)
