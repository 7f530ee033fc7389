"""Entry of `gpud top`. What draws is imported last: the daemon answers meanwhile."""

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from gpud.config import load_config
from gpud.control.client import Client
from gpud.model.errors import NoDaemon, UsageError
from gpud.model.live_views import Feed
from gpud.tui.draw.view import View
from gpud.tui.feed import FeedThread, LiveSource, ReplaySource, Source
from gpud.tui.filter import FilterError, parse_filter
from gpud.tui.inbox import Inbox
from gpud.tui.look import LOOKS, Look, choose_look
from gpud.tui.model import NodeModel
from gpud.tui.options import Options
from gpud.tui.recording import Recorder, Recording
from gpud.tui.text import clean


def run(options: Options) -> int:
    """Shows the node until somebody quits; the result is the exit code. Raises GpudError, before there is a screen."""
    view, look = _view(options), choose_look(options.look)
    if options.once or options.json:
        return _once(options, view, look)
    if not all(map(os.isatty, (0, 1, 2))):  # Textual draws on stderr
        raise UsageError("gpud top needs a terminal; --once prints one screen, --json one document")
    if options.replay is not None:
        recording, asked = Recording(options.replay), Recording(options.replay)
        view.replay = options.replay.name
        return _show(options, view, look, ReplaySource(recording), asked)
    first = _connect(options)
    try:
        client: Client | None = first()
    except NoDaemon:
        if not options.wait:
            raise
        client = None
    view.recording = str(options.record or "")
    recorder = Recorder(options.record) if options.record is not None else None

    def connect() -> Client:
        nonlocal client
        found, client = client, None
        return found or first()

    return _show(options, view, look, LiveSource(connect, options.interval_ms, recorder), None)


def _show(options: Options, view: View, look: Look, source: Source, asked: Recording | None) -> int:
    for name in ("COLUMNS", "LINES"):  # where they are exported, Textual believes them, and follows no change of size
        os.environ.pop(name, None)
    inbox = Inbox()
    thread = FeedThread(source, inbox.post)
    thread.start()
    if os.isatty(0):
        threading.Thread(target=_end_with_terminal, daemon=True).start()
    try:
        from gpud.tui.app import TopApp
        from gpud.tui.ask import LiveAsker, ReplayAsker

        fixed = "--readonly" if options.readonly else "this is a recording" if asked else ""
        asker = LiveAsker(_connect(options)) if asked is None else ReplayAsker(asked)
        result = TopApp(inbox=inbox, asker=asker, view=view, look=look, fixed=fixed).run()
    finally:
        inbox.wake_by(None)
        thread.stop()
        if asked is not None:
            asked.close()
    return result if isinstance(result, int) else 1


def _end_with_terminal() -> None:
    """Whoever has it as controlling terminal gets SIGHUP; others would read its end again and again."""
    hangup = select.poll()
    hangup.register(0, 0)
    hangup.poll()
    os._exit(128 + signal.SIGHUP)


def _connect(options: Options) -> Callable[[], Client]:
    config = options.config or load_config()
    return lambda: Client(config)


def _view(options: Options) -> View:
    if options.interval_ms < 100 or options.interval_ms > 60_000:
        raise UsageError(f"--interval: {options.interval_ms} ms is not between 100 ms and 1min")
    if options.look not in ("auto", *LOOKS):
        raise UsageError(f"--look: {options.look!r} is none of auto, {', '.join(LOOKS)}")
    try:
        wanted = parse_filter(options.filter)
    except FilterError as error:
        raise UsageError(f"--filter: {error} (at character {error.at + 1})") from None
    return View(NodeModel(), wanted, user=options.user, job_class=options.job_class, gpu=options.gpu)


def _once(options: Options, view: View, look: Look) -> int:
    from gpud.tui.once import print_json, print_once, take

    if options.replay is not None:
        recording = Recording(options.replay)
        take(view, recording.steps(), 0)
        recording.close()
    else:
        with _connect(options)() as client:
            steps = client.feed(max(min(options.interval_ms, 500), 100))
            take(view, _recorded(steps, options.record) if options.record is not None else steps, 2)
    _has_device(view)
    if options.json:
        print_json(view)
    else:
        print_once(view, look, options.size)
    return 0


def _recorded(steps: Iterator[Feed], path: Path) -> Iterator[Feed]:
    with contextlib.closing(Recorder(path)) as recorder:
        for feed in steps:
            recorder.write(feed)
            yield feed


def _has_device(view: View) -> None:
    """Raises UsageError where `--gpu` names none: a screen can wait for it, one look cannot."""
    if view.gpu is None or view.devices():
        return
    known = ", ".join("–" if row.slot is None else str(row.slot) for row in view.model.devices.values())
    raise UsageError(f"--gpu: there is no GPU {clean(view.gpu)}; there {f'are {known}' if known else 'is none'}")
