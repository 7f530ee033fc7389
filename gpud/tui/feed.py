"""Where steps come from: a thread of its own reads the daemon's feed, or a recording, and hands on what it gets. The
loop that draws never waits for a socket or a file."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from attrs import frozen

from gpud.control.client import Client
from gpud.model.errors import GpudError, VersionError
from gpud.model.live_views import Feed
from gpud.tui.recording import Recorder, Recording

AGAIN_S = (0.25, 0.5, 1.0, 2.0)
"""Between tries to reach a daemon that went away; the last one again and again."""


LONGEST_GAP_S = 5.0
"""Nothing happens for no longer than that in a recording that is played."""


@frozen
class Step:
    """The feed went on."""

    feed: Feed


@frozen
class Lost:
    """There is no daemon now; another try follows."""

    text: str


@frozen
class Ended:
    """Nothing more will come."""

    text: str
    bad: bool = False


@frozen
class Remark:
    """Something to be told, once."""

    text: str


Item = Step | Lost | Ended | Remark
Post = Callable[[Item], None]


class Source(Protocol):
    """Where steps come from."""

    replayed: bool
    """It is a recording: nothing can be changed."""

    def run(self, post: Post, stop: threading.Event) -> None:
        """In a thread of its own; returns soon after `stop` is set and `close` was called."""

    def close(self) -> None:
        """From another thread: ends what `run` waits for."""


class LiveSource:
    """The daemon's feed; connects again when it goes away."""

    replayed = False

    def __init__(self, connect: Callable[[], Client], interval_ms: int, recorder: Recorder | None = None) -> None:
        self._connect = connect
        self._interval_ms = interval_ms
        self._recorder = recorder
        self._client: Client | None = None

    def run(self, post: Post, stop: threading.Event) -> None:
        try:
            self._run(post, stop)
        finally:
            if self._recorder is not None:
                self._recorder.close()

    def _run(self, post: Post, stop: threading.Event) -> None:
        tries = 0
        while not stop.is_set():
            try:
                for feed in self._feed(stop):
                    tries = 0
                    self._record(feed, post)
                    post(Step(feed))
                return
            except VersionError as error:
                post(Ended(str(error), bad=True))
                return
            except (GpudError, OSError) as error:
                if stop.is_set():
                    return
                post(Lost(str(error)))
            stop.wait(AGAIN_S[min(tries, len(AGAIN_S) - 1)])
            tries += 1

    def close(self) -> None:
        client = self._client
        if client is not None:
            client.abort()

    def _feed(self, stop: threading.Event) -> Iterator[Feed]:
        self._client = self._connect()
        try:
            for feed in self._client.feed(self._interval_ms):
                if stop.is_set():
                    return
                yield feed
        finally:
            self._client.close()

    def _record(self, feed: Feed, post: Post) -> None:
        if self._recorder is None:
            return
        try:
            self._recorder.write(feed)
        except GpudError as error:
            post(Remark(str(error)))
            self._recorder.close()
            self._recorder = None


class ReplaySource:
    """A recording at the pace at which it was made."""

    replayed = True

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def run(self, post: Post, stop: threading.Event) -> None:
        try:
            if self._play(post, stop):
                cut = "the recording was cut off in the middle of a step; this is the last whole one"
                post(Ended(cut, bad=True) if self._recording.cut else Ended("the recording ends here"))
        except GpudError as error:
            post(Ended(str(error), bad=True))
        finally:
            self._recording.close()

    def _play(self, post: Post, stop: threading.Event) -> bool:
        """False: it was stopped before its end."""
        before_ns = None
        for feed in self._recording.steps():
            gap_s = 0.0 if before_ns is None else (feed.at_ns - before_ns) / 1e9
            before_ns = feed.at_ns
            if stop.wait(min(max(gap_s, 0.0), LONGEST_GAP_S)):
                return False
            post(Step(feed))
        return True

    def close(self) -> None:
        """It waits for nothing but time; `run` closes the file."""


class FeedThread:
    """Runs a source until it is stopped."""

    def __init__(self, source: Source, post: Post) -> None:
        self.source = source
        self._post = post
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpud-top-feed", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def native_id(self) -> int | None:
        """As the kernel calls it."""
        return self._thread.native_id

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns once the thread has ended."""
        self._stop.set()
        with contextlib.suppress(OSError):
            self.source.close()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        try:
            self.source.run(self._post, self._stop)
        except Exception as error:  # a screen that stands still without a word would be believed
            self._post(Ended(f"nothing more comes, by a fault of gpud top: {error!r}", bad=True))
