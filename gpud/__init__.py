"""gpud: several jobs share one GPU, and the ones that matter stay fast.

with gpud.acquire():                # waits for the GPU, and for the job's memory to be back on it
    train_one_batch()
"""

TYPE_CHECKING = False  # typing itself costs `gpud run` milliseconds
if TYPE_CHECKING:
    from gpud import aio
    from gpud.api.errors import NoDaemon, NoHook, NoHookWarning, NotHeld, TurnError, TurnTimeout
    from gpud.api.turns import Turn, acquire, on_gpu, release

__version__ = "0.1.0"
__all__ = [
    "NoDaemon",
    "NoHook",
    "NoHookWarning",
    "NotHeld",
    "Turn",
    "TurnError",
    "TurnTimeout",
    "acquire",
    "aio",
    "on_gpu",
    "release",
]
_ERRORS = frozenset({"NoDaemon", "NoHook", "NoHookWarning", "NotHeld", "TurnError", "TurnTimeout"})


def __getattr__(name: str) -> object:
    """Loaded at first use: the command line and the daemon import gpud, too, and need none of it."""
    if name not in __all__:
        raise AttributeError(f"module 'gpud' has no attribute {name!r}")
    from importlib import import_module

    where = "gpud.aio" if name == "aio" else "gpud.api.errors" if name in _ERRORS else "gpud.api.turns"
    module = import_module(where)
    value: object = module if name == "aio" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
