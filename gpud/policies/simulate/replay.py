"""A recording as the source of a simulation's signals."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gpud.policies.simulate.simulation import Simulation
from gpud.policies.simulate.trace import Header, TraceError, read_trace, value_of
from gpud.policies.types import Type


def replay(simulation: Simulation, lines: Iterable[str], name: str, fed: Mapping[str, Type]) -> Header:
    """Schedules all of it. Reads the first line now, the others when their time comes; raises TraceError both times."""
    header, records = read_trace(lines, name)
    needed = {signal.text for signal in simulation.program.signals}

    def moments() -> Iterator[tuple[int, Callable[[], None]]]:
        useful = False
        for record in records:
            values = {
                key: value_of(raw, fed[key], f"{name}:{record.line}: `{key}`")
                for key, raw in record.values.items()
                if key in fed
            }
            useful = useful or not needed or not needed.isdisjoint(values)
            if values:
                yield record.t_ns, _setter(simulation, values)
        if not useful:
            raise TraceError(f"{name}: nothing in it is read by the policy, which needs {', '.join(sorted(needed))}")

    simulation.schedule(moments())
    return header


def _setter(simulation: Simulation, values: Mapping[str, Any]) -> Callable[[], None]:
    def change() -> None:
        for key, value in values.items():
            simulation.set(key, value)

    return change
