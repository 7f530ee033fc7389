"""The help, and the line of keys at the bottom."""

from collections.abc import Sequence

from gpud.tui.columns import COLUMNS
from gpud.tui.keys import EVERYWHERE, OF_TAB, TITLES, Key
from gpud.tui.text import Line, Span, line_of, rule, width_of_spans

_FILTERS = (
    ("user:alice", "also class: state: name: gpu: label: pid: why: tag: cmd: trace:"),
    ("state:wait", "held, queued, paused or swapped; state:run: active"),
    ("mem>4G", "also limit host gpu% share age spent launches pids, with < > <= >= ="),
    ("-user:alice", "turned round"),
    ("train", "in name, command, user, class or labels; #3: job 3"),
)


def key_line(tab: int, width: int, *, readonly: bool) -> Line:
    """The most important keys of a tab, as many as fit."""
    spans = [Span(" ")]
    shown = [key for key in (*OF_TAB[tab], *EVERYWHERE) if key.short and not (readonly and key.changes)]
    last = [key for key in shown if key.short in ("help", "quit")]
    for key in [*(key for key in shown if key not in last), *last]:
        more = [Span(key.shown, "key"), Span(f" {key.short}  ", "dim")]
        room = width - width_of_spans(spans) - width_of_spans(more)
        if key not in last and room < sum(len(one.shown) + len(one.short) + 3 for one in last):
            continue
        spans += more
    return line_of(spans, width)


def help_lines(tab: int, width: int, *, readonly: bool) -> list[Line]:
    """Keys of this tab first, then everywhere; the filter's language; columns."""
    lines = [rule(TITLES[tab], width), *_keys(OF_TAB[tab], width, readonly)]
    lines += [Line(), rule("everywhere", width), *_keys(EVERYWHERE, width, readonly)]
    if tab == 0:
        lines += [Line(), rule("filter", width)]
        lines += [line_of([Span(f"  {term:<13}", "key"), Span(text)], width) for term, text in _FILTERS]
        lines += [Line(), rule("columns (a click on a head sorts)", width)]
        lines += [line_of([Span(f"  {one.head:<13}", "key"), Span(one.help)], width) for one in COLUMNS]
    return lines


def _keys(keys: Sequence[Key], width: int, readonly: bool) -> list[Line]:
    return [
        line_of([Span(f"  {key.shown:<13}", "key"), Span(key.help)], width)
        for key in keys
        if not (readonly and key.changes)
    ]
