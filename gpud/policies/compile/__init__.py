"""Resolved policy → Program: Python text is written for it once, so that a tick has nothing to look up."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpud.policies.compile.policy import compile_policy, program_source

__all__ = ["compile_policy", "program_source"]


def __getattr__(name: str) -> Any:
    """The compiler is loaded when it is first asked for: `gpud policy check` classifies, and compiles nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gpud.policies.compile import policy

    return getattr(policy, name)
