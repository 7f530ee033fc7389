"""MPS: is a device used through NVIDIA's multi-process server? Seen, never started or talked to. May block as long as
/proc does."""

import os
from collections.abc import Mapping
from pathlib import Path

_COMM = "nvidia-cuda-mps-server"[:15]
"""Of the server and of `nvidia-cuda-mps-control` alike: the kernel keeps so much of a name."""
_PIPES = "/tmp/nvidia-mps"


def is_server(pid: int) -> bool:
    """By its name: good for a remark, not for a decision."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read(64).rstrip(b"\n") == _COMM.encode()
    except OSError:
        return False


def pipe_directory(environment: Mapping[str, str]) -> Path:
    """Where programs of this environment would look for a server."""
    return Path(environment.get("CUDA_MPS_PIPE_DIRECTORY") or _PIPES)


def is_offered(environment: Mapping[str, str]) -> bool:
    """Would a program of this environment run through MPS? There is a control pipe, and somebody who may be behind
    it."""
    if not (pipe_directory(environment) / "control").exists():
        return False
    return any(name.isdecimal() and is_server(int(name)) for name in os.listdir("/proc"))
