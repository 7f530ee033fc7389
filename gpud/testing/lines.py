"""What a program writes, line by line: read as it comes, so that it never stands for a full pipe."""

import queue
import subprocess
import threading


class Lines:
    """Of one process, until it ends."""

    def __init__(self, process: "subprocess.Popen[str]", name: str) -> None:
        self._process = process
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, name=f"reads {name}", daemon=True).start()

    def next(self, within: float) -> str | None:
        """The next line; None at the end. Raises queue.Empty when there is none after so many seconds."""
        return self._lines.get(timeout=within)

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._lines.put(line)
        except ValueError:
            pass  # the node has closed it
        self._lines.put(None)
