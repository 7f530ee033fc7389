"""The state file on disk: replaced as a whole, read once at the start."""

import os
from pathlib import Path


class StateFile:
    """Implements ports.StatePort. In the runtime directory, which a reboot empties: nothing is forced to disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fresh = path.with_name(path.name + ".new")
        self._last = b""

    def write(self, content: bytes) -> None:
        """Readers see the old content or the new one. Raises OSError."""
        if content == self._last:
            return
        fd = os.open(self._fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(fd, left) :]
        finally:
            os.close(fd)
        os.replace(self._fresh, self.path)
        self._last = content

    def read(self) -> bytes | None:
        """None when there is none. Raises OSError."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def set_aside(self) -> Path:
        """Keeps a file that cannot be read for whoever wants to know why. Raises OSError."""
        aside = self.path.with_name(self.path.name + ".bad")
        os.replace(self.path, aside)
        return aside
