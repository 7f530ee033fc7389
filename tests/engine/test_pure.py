"""Which parts of the engine may touch the world: all others are held to be pure by .importlinter."""

from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    *(
        "history",
        "host",
        "inotify",
        "loading",
        "ports",
        "reload",
        "reload_steps",
        "service",
        "set_views",
        "state_file",
        "watch",
    ),
    *("watching", "plugin_child", "plugin_guard", "plugin_host", "plugin_signals", "trial_child", "trials"),
}
"""They read files, wait, or start processes; or say what is outside."""


def test_every_module_is_either_pure_or_known_to_touch_the_world() -> None:
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    pure = contracts["importlinter:contract:decisions-are-pure"]["source_modules"].split()
    there = {path.stem for path in (ROOT / "gpud/engine").glob("*.py")} - {"__init__"}
    assert {name.removeprefix("gpud.engine.") for name in pure} == there - OUTSIDE
    assert there >= OUTSIDE
