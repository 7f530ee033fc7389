"""Benches for a real GPU: jobs in PyTorch, figures by the programs' own clocks and by device events.

`tools/on_gpu` runs them. With `--sim` they are rehearsed with numba-cuda on the simulated GPU, as their figures say.
"""
