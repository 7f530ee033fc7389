"""What a plugin says of itself, without running: `check`, `explain`, the manual and completion need no more.

# pyproject: [project.entry-points."gpud.signals"]  vllm = "gpud_vllm:plugin"
plugin = Plugin(name="vllm", signals=(Signal("queue_depth", Number, scope=Class, every=ms(250), stale_after=s(2),
                                             doc="…"),), open=open_vllm)
"""

from collections.abc import Callable, Mapping
from typing import Any

from gpud.policies.nodes import Node
from gpud.policies.types import Type

Number, Ratio, Duration, Bytes, Rate, Bandwidth, Bool = (
    Type.NUMBER, Type.RATIO, Type.DURATION, Type.BYTES, Type.RATE, Type.BANDWIDTH, Type.BOOL,
)  # fmt: skip
Class, Gpu = "class", "gpu"


def ms(count: float) -> int:
    """Milliseconds in nanoseconds."""
    return round(count * 1_000_000)


def s(count: float) -> int:
    """Seconds in nanoseconds."""
    return round(count * 1_000_000_000)


class Signal(Node):
    """A number that the plugin publishes, per class or per device."""

    name: str
    type: Type
    scope: str = Class
    every: int = ms(250)
    """Nanoseconds between samples."""
    stale_after: int = s(2)
    """A sample older than this is unknown."""
    doc: str = ""


class Argument(Node):
    """A parameter of a function."""

    name: str
    type: Type
    required: bool = True
    default: Any = None


class Function(Node):
    """A pure, total function with a state of its own: `step(state, args, now_ns) -> (state, value)`. An exception makes
    its value unknown. `args` is a dict by parameter name; values as gpud.policies.types says."""

    name: str
    parameters: tuple[Argument, ...]
    result: Type
    init: Callable[[], Any]
    step: Callable[[Any, Mapping[str, Any], int], tuple[Any, Any]]
    cost: int = 8
    """Steps of a tick."""
    doc: str = ""


class Actuator(Node):
    """A knob beside gpud's own: `apply(device, class, value)`, called on change only, idempotent, with a deadline."""

    name: str
    type: Type
    combine: str
    """`any`, `all`, `min`, `max`."""
    default: Any
    apply: Callable[..., Any]
    """`async apply(device_uuid, class_name, value)`."""
    deadline: int = s(2)
    doc: str = ""


class Plugin(Node, kw_only=True):
    """One namespace. Names are `[a-z_][a-z0-9_]*`."""

    name: str
    signals: tuple[Signal, ...] = ()
    functions: tuple[Function, ...] = ()
    actuators: tuple[Actuator, ...] = ()
    open: Callable[..., Any] | None = None
    """Async context manager `open(publish, settings)` that samples until left: `publish(signal name, class name or
    device UUID, value)`. Needed if there are signals."""
    doc: str = ""


Plugins = Mapping[str, Plugin]
"""Those installed, by name. Looking at one may raise PluginError."""


class PluginError(Exception):
    """A plugin that is installed cannot be used (GP602)."""

    def __init__(self, plugin: str, text: str) -> None:
        super().__init__(f"{plugin}: {text}")
        self.plugin = plugin
        self.text = text
