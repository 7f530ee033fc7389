"""What every verb raises when it cannot go on, and the exit codes. Standard library only: `gpud run` imports this."""

from gpud.model.errors import GpudError

EXIT_USAGE = 2
EXIT_NO_DAEMON = 75
EXIT_REFUSED = 77
EXIT_TIMED_OUT = 124
EXIT_FAILED = 125
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127


class Failure(GpudError):
    """Something a user can cause: what is wrong and where, what to do about it, and the exit code."""

    def __init__(self, what: str, remedy: str = "", *, code: int = EXIT_FAILED) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.exit_code = code


def of_system(error: OSError) -> Failure:
    """What the system refused, when nobody on the way knew more about it."""
    where = f": {error.filename}" if error.filename else ""
    return Failure(
        f"the system refused: {(error.strerror or str(error)).lower()}{where}",
        "look at ulimit -n (open files) and -u (processes), and at free memory and disk",
    )


def error_text(error: GpudError, verb: str) -> str:
    """The lines for stderr, the remedy indented below."""
    head = f"gpud {verb}: {error}"
    remedy = error.remedy if isinstance(error, Failure) else ""
    return printable(f"{head}\n  {remedy}" if remedy else head)


def printable(text: str) -> str:
    """The text without what moves a cursor, colours or turns round what follows: names are anybody's. Lines stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)
