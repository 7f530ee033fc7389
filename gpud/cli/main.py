"""Entry of the command `gpud`: `run` by the standard library alone, every other verb by click."""

import sys


def main(argv: list[str] | None = None) -> int:
    """Runs one command; the result is its exit code.

    `gpud run` must start fast, so nothing but `gpud.cli.run` is imported for it.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        if arguments and arguments[0] == "run":
            from gpud.cli.run import run

            return run(arguments[1:])
        from gpud.cli.verbs import dispatch

        return dispatch(arguments)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
