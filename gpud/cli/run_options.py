"""The options of `gpud run`: one table, which the parser here, its help and click's help all read.

The parser is ours because a job's start must be cheap: argparse costs 8 ms of it. Standard library only.
"""

from gpud.cli.failure import EXIT_USAGE, Failure


class Option:
    """One option: its flag, what its value is called ("" for a switch), whether it may be given again, and its help."""

    __slots__ = ("flag", "metavar", "repeats", "text")

    def __init__(self, flag: str, metavar: str, text: str, *, repeats: bool = False) -> None:
        self.flag = flag
        self.metavar = metavar
        self.text = text
        self.repeats = repeats


SEE_HELP = "see: gpud run --help"
SUMMARY = "start a program as a job under gpud"
USAGE = "gpud run [options] [--] COMMAND [ARGUMENT…]"
EPILOG = """\
Options end at the first word that is none, with or without "--". gpud runs as the program's parent and ends with it;
what the program leaves in the background goes on. TERM, HUP, USR1, USR2 and WINCH are passed on; a second Ctrl-C
within 3 s ends the whole job. Exit codes: the program's own; 128+n when signal n ended it; 2 usage; 75 no daemon;
77 refused by the policy; 124 the daemon did not answer in time; 125 gpud failed; 126 not executable; 127 not found."""

EXAMPLES = (
    ("gpud run python train.py", "a job, sorted by its labels"),
    ("gpud run --label tier=online python service.py", "one that goes first, by the usual policies"),
    ("gpud run --mem 8GiB --compute 30% python train.py", "one that takes no more than that"),
    ("gpud run --gpus 2 --timeout 10min python train.py", "on two devices; 124 when not let in by then"),
    ("gpud run --sim -- ./a.out --gpu 3", "on the simulated GPU; --gpu is the program's"),
)
"""As typed, and what each is for."""

OPTIONS = (
    Option("--class", "CLASS", "claim a class of the policy instead of being sorted by labels"),
    Option("--label", "KEY=VALUE", "a label that the policy may look at, such as tier=online", repeats=True),
    Option("--name", "NAME", "what the job is called on screens; default: the program's name"),
    Option(
        "--mem", "SIZE", "at most so much memory on each device, such as 4GiB; of this and the policy the tighter holds"
    ),
    Option("--compute", "PERCENT", "at most so much GPU time of each device, such as 30%; likewise"),
    Option("--gpu", "N|UUID", "the device the job may see"),
    Option("--gpus", "N", "how many devices the job may see; the daemon chooses those with the fewest jobs"),
    Option(
        "--timeout",
        "DURATION",
        "how long to wait for the daemon, such as 500ms, 10s or 2min; default 10s. Where the "
        "policy keeps jobs in line: also how long to wait there; default: as long as the policy lets it",
    ),
    Option("--sim", "", "use the simulated GPU"),
    Option("--unmanaged", "", "go on, with a warning, when the hook cannot be loaded into the program"),
    Option("--help", "", "show this and end"),
)


class Asked:
    """What was given, by flag."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}

    def add(self, flag: str, value: str) -> None:
        """Notes one option; a switch has the value ""."""
        self._values.setdefault(flag, []).append(value)

    def has(self, flag: str) -> bool:
        """Was it given?"""
        return flag in self._values

    def get(self, flag: str) -> str:
        """The value given last; "" when there is none."""
        return self._values[flag][-1] if flag in self._values else ""

    def all(self, flag: str) -> list[str]:
        """All values, in order."""
        return self._values.get(flag, [])


def split(arguments: list[str]) -> tuple[Asked, list[str]]:
    """Options, and the command: all from the first word that is no option. Raises `Failure` with code 2."""
    table = {option.flag: option for option in OPTIONS}
    asked = Asked()
    words = list(arguments)
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        flag, equals, value = ("--help", "", "") if word == "-h" else word.partition("=")
        option = table.get(flag)
        if option is None:
            raise Failure(f"there is no option {flag}", SEE_HELP, code=EXIT_USAGE)
        if not option.metavar and equals:
            raise Failure(f"{flag} takes no value, {value!r} was given", SEE_HELP, code=EXIT_USAGE)
        if option.metavar and not equals:
            if not words:
                raise Failure(f"{flag} needs a value: {flag} {option.metavar}", SEE_HELP, code=EXIT_USAGE)
            value = words.pop(0)
        if option.metavar and not value:
            raise Failure(f"{flag} has an empty value", SEE_HELP, code=EXIT_USAGE)
        asked.add(flag, value)
    return asked, words


def help_text() -> str:
    """The whole help."""
    rows = [(f"{option.flag} {option.metavar}".strip(), option.text) for option in OPTIONS]
    width = max(len(left) for left, _ in rows)
    lines = "\n".join(f"  {left:<{width}}  {right}" for left, right in rows)
    examples = "\n".join(f"  {line}\n      {text}" for line, text in EXAMPLES)
    return f"usage: {USAGE}\n\n{SUMMARY}\n\n{lines}\n\n{EPILOG}\n\nExamples:\n{examples}\n"
