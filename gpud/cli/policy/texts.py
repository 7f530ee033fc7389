"""Which files a verb is about."""

import os
from collections.abc import Iterable, Sequence

import click

from gpud.cli.failure import EXIT_USAGE, Failure
from gpud.policies import ast
from gpud.policies.check import check_policy
from gpud.policies.check.whole import in_order
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.library import TESTS, Library, read_directory, read_paths
from gpud.policies.placement import Applied
from gpud.policies.plugins.declare import Plugins
from gpud.policies.site import place

policies_option = click.option(
    "--policies", "paths", multiple=True, metavar="PATH", help="File or directory; default: what the daemon reads."
)


def configured() -> str:
    """The directory that the daemon would read. Raises UsageError for garbage in the configuration."""
    from gpud.config import load_config  # not needed, and not looked at, when paths are given

    return str(load_config().policies)


def claimable() -> frozenset[str]:
    """Labels that gpud.toml lets everybody claim. Raises UsageError."""
    from gpud.config import load_config

    return frozenset(label for label, who in (load_config().claims or {}).items() if "*" in who)


def chosen(paths: Sequence[str]) -> list[str]:
    """The paths, each once; without any the configured directory. Raises Failure for one that is not there."""
    found: dict[str, str] = {}
    for path in paths or [configured()]:
        if "\0" in path or not os.path.lexists(path):
            raise Failure(f"{path!r} is not there", "give the path of a .gpol file or directory", code=EXIT_USAGE)
        found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def read(paths: Sequence[str]) -> Library:
    """The chosen files as one set. Policies that a single file's tests and `apply` lines name and it does not have are
    looked for in its directory, and above a directory `tests`."""
    wanted = chosen(paths)
    library = read_paths(wanted)
    lacking = _named(library).difference(library.policies, library.broken)
    directories = dict.fromkeys(place for path in wanted if os.path.isfile(path) for place in _around(path))
    more: list[str] = []
    for directory in directories:
        if not lacking:
            break
        near = read_directory(directory).policies
        more += [near[name][1].source.name for name in sorted(lacking & near.keys())]
        lacking -= near.keys()
    return read_paths([*wanted, *dict.fromkeys(more)]) if more else library


def is_whole(paths: Sequence[str]) -> bool:
    """Is it a set as a daemon would read it, and not parts of one?"""
    return all(map(os.path.isdir, chosen(paths)))


def _around(path: str) -> list[str]:
    directory = os.path.dirname(path) or "."
    if os.path.basename(os.path.abspath(directory)) == TESTS:
        return [directory, os.path.normpath(os.path.join(directory, os.pardir))]
    return [directory]


def _named(library: Library) -> set[str]:
    """Policies that are asked for by name."""
    applied: Iterable[ast.Applied] = (
        *(policy for apply, _ in library.applies for policy in apply.policies),
        *(step.applied for test, _ in library.tests for step in test.steps if isinstance(step, ast.UsePolicy)),
    )
    return {policy.policy.text for policy in applied}


def named(text: str, library: Library, plugins: Plugins) -> tuple[Sequence[Applied], list[Diagnostic]]:
    """Policies as `apply` names them, `preempt-mix(quiet = 1ms), quotas`, and everything that is wrong with these."""
    placement, found = place(library, None, plugins, text, flag="POLICY")
    for one in placement.applied:
        found += check_policy(one.policy, plugins)
    found = in_order([*library.diagnostics, *found])
    return placement.applied, [diagnostic for diagnostic in found if not diagnostic.is_warning]
