"""Policies without a GPU: tests, traces, worlds, and what they look like. Pure but for reading a recording."""
