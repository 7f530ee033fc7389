"""gpud.toml of the system and of a user."""

from pathlib import Path

from gpud.config import Config, load_config


def configured(etc: Path, system: str, user: str = "") -> Config:
    """With these texts in the files. `etc`: the fixture."""
    (etc / "gpud.toml").write_text(system)
    ours = etc.parent / "gpud"
    ours.mkdir(exist_ok=True)
    (ours / "gpud.toml").write_text(user)
    return load_config({"GPUD_RUNTIME_DIR": "/x", "XDG_CONFIG_HOME": str(etc.parent)})
