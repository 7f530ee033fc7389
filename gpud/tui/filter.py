"""The filter line: `user:alice class:low state:wait mem>4G train`. Terms are joined by "and"; free text is looked for
in names, commands and labels; `-` before a term turns it round; quotes hold spaces together."""

import re
from collections.abc import Callable

from attrs import frozen

from gpud.model.errors import UsageError
from gpud.model.live_views import JobRow
from gpud.model.units import parse_bytes, parse_duration
from gpud.tui.model import NodeModel
from gpud.tui.words import state_of

Test = Callable[[JobRow, NodeModel], bool]
_TERM = re.compile(r"""(?P<minus>-?)(?:(?P<key>[a-z%]+)(?P<op><=|>=|[:<>=]))?(?P<value>(?:"[^"]*"?|[^\s"])*)""")
STATES = {
    "wait": ("held", "queued", "paused", "swapped"),
    "run": ("active",),
}
"""Words for several states."""


class FilterError(UsageError):
    """A term that means nothing."""

    def __init__(self, text: str, at: int, length: int) -> None:
        super().__init__(text)
        self.at = at
        """Index of the first character that is wrong, in the whole line."""
        self.length = length


@frozen
class Filter:
    """Which jobs are shown."""

    text: str = ""
    _tests: tuple[Test, ...] = ()

    def takes(self, job: JobRow, model: NodeModel) -> bool:
        return all(test(job, model) for test in self._tests)


def parse_filter(text: str) -> Filter:
    """Raises FilterError."""
    tests: list[Test] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = _TERM.match(text, at)
        if match is None or match.end() == at:
            raise FilterError(f"{text[at]!r} begins no term", at, 1)
        tests.append(_term(match))
        at = match.end()
    return Filter(text.strip(), tuple(tests))


def _term(match: re.Match[str]) -> Test:
    key, op, raw = match["key"], match["op"], match["value"]
    value_at = match.start("value")
    if raw.count('"') % 2:
        raise FilterError("a quote is not closed", value_at + raw.index('"'), 1)
    value = raw.replace('"', "")
    if key is None:
        if not value:
            raise FilterError("a term is missing after `-`", match.start(), 1)
        test = _free(value)
    elif key in _WORDS:
        if op not in (":", "="):
            raise FilterError(f"{key} is no number: write {key}:…", match.start("op"), len(op))
        if not value:
            raise FilterError(f"what {key} is to be is missing", match.start("key"), len(key) + 1)
        test = _word(key, value.casefold())
    elif key in _NUMBERS:
        test = _number(key, op, value, value_at)
    else:
        known = ", ".join(sorted((*_WORDS, *_NUMBERS)))
        raise FilterError(f"nothing is called {key!r}; known are {known}", match.start("key"), len(key))
    return _not(test) if match["minus"] else test


def _not(test: Test) -> Test:
    return lambda job, model: not test(job, model)


def _free(value: str) -> Test:
    wanted = value.casefold()

    def test(job: JobRow, model: NodeModel) -> bool:
        texts = (job.name, job.command, job.user, job.job_class, *(f"{k}={v}" for k, v in job.labels))
        return wanted == f"#{job.id}" or any(wanted in text.casefold() for text in texts)

    return test


def _word(key: str, value: str) -> Test:
    of = _WORDS[key]
    if key == "state":
        wanted = STATES.get(value, (value,))
        return lambda job, model: any(state_of(job, model).startswith(one) for one in wanted)
    if key in ("id", "gpu", "pid"):
        return lambda job, model: value in of(job)
    return lambda job, model: any(value in one.casefold() for one in of(job))


def _number(key: str, op: str, value: str, at: int) -> Test:
    parse, of = _NUMBERS[key]
    try:
        wanted = parse(value)
    except UsageError as error:
        raise FilterError(str(error).partition(": ")[2] or str(error), at, max(len(value), 1)) from None

    def test(job: JobRow, model: NodeModel) -> bool:
        have = of(job, model)
        if have is None:
            return False
        if op in ("<", "<="):
            return have < wanted or (op == "<=" and have == wanted)
        if op in (">", ">="):
            return have > wanted or (op == ">=" and have == wanted)
        return have == wanted

    return test


_SHORT = {"k": "KiB", "m": "MiB", "g": "GiB", "t": "TiB"}


def _bytes(text: str) -> float:
    """`4G`, `4GiB`, `512m`: of 1024; `0`."""
    if text == "0":
        return 0
    unit = _SHORT.get(text[-1:].casefold())
    return parse_bytes(text[:-1] + unit if unit else text, "mem")


def _ratio(text: str) -> float:
    """`50%`, `50`."""
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise UsageError(f"{text!r} is not a percentage; write e.g. 50%") from None
    return number / 100


def _duration(text: str) -> float:
    """`90s`, `5m`, `2h`, `1d`."""
    if text[-1:] == "d" and text[:-1].isdigit():
        return int(text[:-1]) * 86400e9
    return parse_duration(text + "in" if re.fullmatch(r"[\d.]+m", text) else text, "age")


def _plain(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a number") from None


_WORDS: dict[str, Callable[[JobRow], tuple[str, ...]]] = {
    "class": lambda job: (job.job_class,),
    "cmd": lambda job: (job.command,),
    "gpu": lambda job: tuple(str(slot) for slot in job.devices),
    "id": lambda job: (str(job.id),),
    "label": lambda job: tuple(f"{key}={value}" for key, value in job.labels),
    "name": lambda job: (job.name,),
    "pid": lambda job: tuple(str(process.pid) for process in job.processes),
    "state": lambda job: (job.state,),
    "tag": lambda job: job.tags,
    "trace": lambda job: (job.trace,),
    "user": lambda job: (job.user,),
    "why": lambda job: (job.why.code, job.why.text, job.why.by) if job.why else (),
}
_NUMBERS: dict[str, tuple[Callable[[str], float], Callable[[JobRow, NodeModel], float | None]]] = {
    "age": (_duration, lambda job, model: model.at_ns - job.began_at_ns),
    "gpu%": (_ratio, lambda job, model: model.gpu(job)),
    "host": (_bytes, lambda job, model: job.host_bytes),
    "launches": (_plain, lambda job, model: model.launches(job)),
    "limit": (_bytes, lambda job, model: job.limit_bytes),
    "mem": (_bytes, lambda job, model: job.used_bytes),
    "pids": (_plain, lambda job, model: len(job.processes)),
    "share": (_ratio, lambda job, model: job.share),
    "spent": (_duration, lambda job, model: job.spent_ns),
}
