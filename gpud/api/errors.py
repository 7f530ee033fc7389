"""What may go wrong with a turn. The codes are those of `hooks-native/include/gpud.h`."""


class TurnError(RuntimeError):
    """No turn was taken, or none released."""


class TurnTimeout(TurnError, TimeoutError):
    """The device did not become free within `timeout`."""


class NoHook(TurnError):
    """The program was not started under gpud, and the library that takes turns without that cannot be loaded."""


class NoHookWarning(UserWarning):
    """The program takes turns, and that is all: it was not started under gpud. Once per process."""


class NoDaemon(TurnError):
    """Nobody answers, so no turn can be had."""


class NotHeld(TurnError):
    """Release without acquire."""


OK, UNLOCKED = 0, 1
TIMEOUT, NO_HOOK, NO_DAEMON, NOT_HELD, NO_DEVICE, REFUSED, SYSTEM = -1, -2, -3, -4, -5, -6, -7

_KINDS: dict[int, tuple[type[TurnError], str]] = {
    TIMEOUT: (TurnTimeout, "{device} did not become free in time: see who has it with `gpud ps`, or wait longer"),
    NO_HOOK: (
        NoHook,
        "the program was not started under gpud, and gpud's library cannot be loaded now ({why}): start it with "
        "`gpud run`, install gpud again, or set GPUD_OPTIONAL=1",
    ),
    NO_DAEMON: (NoDaemon, "no gpud daemon answers: start one with `gpud serve`, or set GPUD_OPTIONAL=1"),
    NOT_HELD: (NotHeld, "{device} is not held by an acquire(): release() without it"),
    NO_DEVICE: (TurnError, "{device} does not exist for this program: see CUDA_VISIBLE_DEVICES"),
    REFUSED: (TurnError, "the daemon refused a turn on {device}: see `gpud why`"),
    SYSTEM: (
        TurnError,
        "a turn on {device} failed: the driver does not start here, or memory or a system call failed; in a forked "
        "child CUDA does not survive the fork: start it by spawn instead",
    ),
}


def error_of(code: int, devices: tuple[int, ...], why: str = "") -> TurnError:
    """For a code below zero. `why`: of NO_HOOK."""
    kind, text = _KINDS.get(code, (TurnError, f"the hook answered {code} for {{device}}: it is of another version"))
    if code == NO_DEVICE:  # ordinals run from 0 on without a gap: of several the highest is one that is missing
        devices = devices[-1:]
    return kind(text.format(device=names(devices), why=why))


def names(devices: tuple[int, ...]) -> str:
    """As sentences name them: `the current device`, `device 1`, `devices 0, 1`."""
    if devices == (-1,):
        return "the current device"
    return f"device{'s' if len(devices) > 1 else ''} {', '.join(map(str, devices))}"
