"""What the machine says of its own memory."""


def memory_free(path: str = "/proc/meminfo") -> int | None:
    """Bytes that programs can have without swapping; None where the kernel does not say."""
    try:
        with open(path, "rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
