"""Where `gpud.h` is, for whoever compiles a program with it: `cc -I"$(python3 -m gpud.api.include)" program.c -ldl`."""

from pathlib import Path


def include_dir() -> Path:
    """The folder that holds `gpud.h`: in the package, or in the checkout."""
    package = Path(__file__).parents[1]
    installed = package / "_data" / "include"
    return installed if installed.is_dir() else package.parent / "hooks-native" / "include"


if __name__ == "__main__":
    print(include_dir())
