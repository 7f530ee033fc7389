"""Syntax tree → IR: names, types, constants, phases, ranges. `resolve_policy` is the entry; scope.py is for tests."""

from gpud.policies.resolve.policy import resolve_policy

__all__ = ["resolve_policy"]
