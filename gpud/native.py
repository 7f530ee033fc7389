"""Where what is installed beside the Python modules is: the hook library, the simulator's libraries and its device
process, the shipped policies, the pages about findings.

Standard library only.
"""

import os
from pathlib import Path


def native_dir() -> Path:
    """The directory of `libgpud_hook.so` and `sim/`: `$GPUD_NATIVE_DIR`, else inside the package."""
    return Path(os.environ.get("GPUD_NATIVE_DIR") or Path(__file__).parent / "_native")


def hook_library() -> Path:
    """The hook that `gpud run` preloads."""
    return native_dir() / "libgpud_hook.so"


def sim_dir() -> Path:
    """The directory that holds the simulated `libcuda.so.1` and `libnvidia-ml.so.1`."""
    return native_dir() / "sim"


def shipped_policies() -> Path:
    """The directory of the policies that come with gpud: in the package, or in the checkout."""
    package = Path(__file__).parent
    installed = package / "_data" / "policies"
    return installed if installed.is_dir() else package.parent / "policies"


def error_pages() -> Path:
    """The directory of the pages about findings, `GP103.md`: in the package, or in the checkout."""
    package = Path(__file__).parent
    installed = package / "_data" / "errors"
    return installed if installed.is_dir() else package.parent / "docs" / "errors"
