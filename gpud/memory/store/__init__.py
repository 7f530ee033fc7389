"""The edge to the kernel: memory files that hold what has left a device."""
