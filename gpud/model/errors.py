"""Errors, few, by who must act. Standard library only: `gpud run` imports this.

A message is one sentence or two: what is wrong, where, and what to do. `exit_code` is what the command line ends with.
"""


class GpudError(Exception):
    """gpud failed. Shown without a traceback."""

    exit_code = 125


class UsageError(GpudError):
    """Who runs the command must change what was typed, or a variable."""

    exit_code = 2


class NoDaemon(GpudError):
    """Who runs the command must start a daemon, or say where it is."""

    exit_code = 75


class Refused(GpudError):
    """The policy says no; its operator may say otherwise."""

    exit_code = 77


class SetupError(GpudError):
    """The operator must change something of this machine: a directory, a limit, another daemon."""


class ProtocolError(GpudError):
    """The other end of a socket said something that it may not say. Ends that connection and nothing else."""


class VersionError(ProtocolError):
    """The other end is of a version that cannot be understood: upgrade the older one."""
