"""`gpud trace export`: the journal on disk as a trace for other programs. Needs no daemon, and little memory."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import click
import msgspec

from gpud.cli.failure import EXIT_USAGE, Failure
from gpud.cli.helped import Verb
from gpud.cli.when import parse_moment, shown
from gpud.config import load_config
from gpud.telemetry.export_chrome import chrome_trace
from gpud.telemetry.export_otlp import otlp_lines
from gpud.telemetry.journal_lines import BadJournal, Decided, Entry, Reading, read, times_of
from gpud.telemetry.span import SpanRecord

FORMATS = {"chrome": chrome_trace, "otlp-json": otlp_lines}


class _Result(msgspec.Struct):
    """What `--json` prints."""

    format: str
    output: str
    decisions: int = 0
    """In the time asked for, as all below."""
    spans: int = 0
    bytes: int = 0
    first_ns: int | None = None
    """Of the journal: its oldest and newest entry, Unix time."""
    last_ns: int | None = None
    broken: int = 0
    lost: int = 0


@click.command(
    "export",
    cls=Verb,
    epilog="Exit codes: 0 done, 2 wrong usage, 125 there is no journal, or nothing in it, or no way to read or write.",
    examples=[
        ("gpud trace export --output gpud.json", "all there is; open it at ui.perfetto.dev"),
        ("gpud trace export --since 14:00 --until 14:10 --output bad.json", "what was slow at 14:03"),
        ("gpud trace export --format otlp-json --since 10min --output spans.jsonl", "for a collector, or Jaeger"),
    ],
)
@click.option(
    "--format", "kind", type=click.Choice(list(FORMATS)), default="chrome", show_default=True,
    help="chrome: one document for Perfetto; otlp-json: lines of spans, as OTLP's file exporter writes them.",
)  # fmt: skip
@click.option("--since", metavar="MOMENT", help="From then on: 10min (ago), 14:03, 2026-11-30T14:03. Else: all.")
@click.option("--until", metavar="MOMENT", help="Up to then, likewise.")
@click.option("--output", default="-", show_default=True, metavar="FILE", help="Where to; -: standard output.")
@click.option(
    "--journal",
    type=click.Path(path_type=Path, readable=False),
    metavar="DIRECTORY",
    help="A copy of a journal, not ours.",
)
@click.option(
    "--json", "as_json", is_flag=True,
    help="Say what was exported as one JSON object, on standard error where the trace goes to standard output.",
)  # fmt: skip
def command(kind: str, since: str | None, until: str | None, output: str, journal: Path | None, as_json: bool) -> int:
    """Export what happened, from the journal on disk, which is there without a daemon, too: turns, swaps, pauses and
    decisions for each device. What has happened in the last moment may not be on disk yet."""
    now = datetime.now().astimezone()
    since_ns = parse_moment(since, "--since", now) if since is not None else None
    until_ns = parse_moment(until, "--until", now) if until is not None else None
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        raise Failure(f"--since {since} is not before --until {until}", code=EXIT_USAGE)
    directory = journal or load_config().journal_dir
    reading = Reading()
    result = _Result(format=kind, output=output)
    counted = _count(read(directory, reading), result, since_ns, until_ns)
    try:
        pieces = FORMATS[kind](counted, since_ns=since_ns, until_ns=until_ns)
        with _open(output) as file:
            for piece in pieces:
                result.bytes += file.write(piece)
            if not (result.spans if kind == "otlp-json" else result.spans + result.decisions):
                raise Failure(*_nothing(kind, result, directory))
    except BadJournal as error:
        raise Failure(str(error), _remedy()) from None
    result.broken, result.lost = reading.broken, reading.lost
    _say(result, as_json, sys.stderr.buffer if output == "-" else sys.stdout.buffer)
    return 0


def _count(entries: Iterable[Entry], result: _Result, since_ns: int | None, until_ns: int | None) -> Iterator[Entry]:
    for entry in entries:
        began, ended = times_of(entry)
        result.first_ns = ended if result.first_ns is None else min(result.first_ns, ended)
        result.last_ns = ended if result.last_ns is None else max(result.last_ns, ended)
        if (since_ns is None or ended >= since_ns) and (until_ns is None or began <= until_ns):
            result.decisions += isinstance(entry, Decided)
            result.spans += isinstance(entry, SpanRecord)
        yield entry


@contextmanager
def _open(output: str) -> Iterator[BinaryIO]:
    """A file is there as a whole, or as it was before. Raises Failure."""
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    replaced = path.is_file() or not path.exists()  # else a pipe, a device
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new") if replaced else path
    try:
        with fresh.open("wb") as file:
            yield file
        if replaced:
            os.replace(fresh, path)
    except OSError as error:
        raise Failure(f"cannot write {output}: {(error.strerror or str(error)).lower()}") from None
    finally:
        if replaced:
            fresh.unlink(missing_ok=True)


def _say(result: _Result, as_json: bool, file: BinaryIO) -> None:
    if as_json:
        file.write(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
        return
    assert result.first_ns is not None
    assert result.last_ns is not None
    missing = f"; {result.lost} entries are missing, there was no room for them" if result.lost else ""
    broken = f"; {result.broken} lines were cut or are none of ours" if result.broken else ""
    where = "" if result.output == "-" else f" to {result.output}"
    text = (
        f"{result.decisions} decisions, {result.spans} spans{where}; "
        f"the journal reaches from {shown(result.first_ns)} to {shown(result.last_ns)}{missing}{broken}\n"
    )
    file.write(text.encode())
    file.flush()


def _nothing(kind: str, result: _Result, directory: Path) -> tuple[str, str]:
    if result.first_ns is None or result.last_ns is None:
        return f"the journal at {directory} has nothing in it", _remedy()
    reach = f"the journal reaches from {shown(result.first_ns)} to {shown(result.last_ns)}"
    if kind == "otlp-json" and result.decisions:
        return "there are no spans of that time, only decisions", f"--format chrome shows these; {reach}"
    return "nothing happened in that time", reach


def _remedy() -> str:
    return (
        "the daemon writes it while it runs; read it as the daemon's user, or name another one: "
        "GPUD_STATE_DIR, [journal] in gpud.toml, or --journal"
    )
