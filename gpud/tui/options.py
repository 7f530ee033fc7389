"""What `gpud top` was asked for."""

from pathlib import Path

from attrs import frozen

from gpud.config import Config

LOOKS = ("auto", "dark", "light", "none")
"""`auto`: by the terminal; `none`: without colour."""


@frozen(kw_only=True)
class Options:
    """Of one run of `gpud top`."""

    config: Config | None = None
    """Where the daemon is; None: as `load_config` finds it."""
    once: bool = False
    """Print one screen as plain text, and end."""
    json: bool = False
    """Print the node as one JSON document, and end."""
    readonly: bool = False
    """Change nothing."""
    user: str | None = None
    """Only jobs of this user; likewise the next two."""
    job_class: str | None = None
    gpu: str | None = None
    """A slot, or (the beginning of) a UUID."""
    filter: str = ""
    """What stands in the filter line at the start."""
    record: Path | None = None
    """Write all that is received there, beside showing it."""
    replay: Path | None = None
    """Show such a file instead of a daemon."""
    interval_ms: int = 500
    """Between two steps: 100 … 60,000."""
    look: str = "auto"
    """One of LOOKS. NO_COLOR in the environment means `none`."""
    wait: bool = False
    """Where no daemon listens yet, wait for one instead of raising NoDaemon."""
    size: tuple[int, int] | None = None
    """Columns and lines of `once`; None: of the terminal, else 120 × 40."""
