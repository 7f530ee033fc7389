"""Everything that can be said of a set of policies without running it, for `gpud policy check`, a reload and tests."""

import re
from collections.abc import Sequence

from gpud.policies.check import check_policy
from gpud.policies.diagnostics import Diagnostic, has_errors
from gpud.policies.enforce import Enforced, unenforced
from gpud.policies.ir import IrPolicy
from gpud.policies.library import Library
from gpud.policies.placement import DeviceFacts
from gpud.policies.plugins.declare import Plugins
from gpud.policies.resolve import resolve_policy
from gpud.policies.site import nowhere, place

_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_QUOTED = re.compile(r'"([^"\n]*)"')


def check_library(
    library: Library,
    plugins: Plugins,
    devices: Sequence[DeviceFacts] | None = None,
    default: str | None = None,
    claims: frozenset[str] | None = None,
    enforced: Enforced | None = None,
    *,
    whole: bool = False,
) -> list[Diagnostic]:
    """Findings in the order of their places, each once.

    `devices`: those present, in PCI order; None: not known. `default`: the text of `gpud serve --policy`. `claims`:
    keys of labels that everybody may claim; None: not known, or a daemon of one user. `enforced`: what applied
    policies are held against; None: it is not asked whether they can be applied. `whole`: this is all that a daemon
    would read, so that it must say where it runs.
    """
    found = list(library.diagnostics)
    known: dict[str, IrPolicy] = {}
    sound: dict[str, IrPolicy | None] = {}
    words = _words_of_tests(library)
    for file in library.files:
        for policy in file.policies:
            name = policy.name.text
            resolved, problems = resolve_policy(policy, file, (), plugins)
            found += problems
            if resolved is not None:
                found += _checked(resolved, problems, plugins, claims, words.get(name, frozenset()))
            if library.policies[name][0] is policy:
                sound[name] = None if has_errors(problems) else resolved
                if resolved is not None:
                    known[name] = resolved
    if has_errors(library.diagnostics):  # what could not be read may use what seems unused
        found = [diagnostic for diagnostic in found if diagnostic.code != "GP905"]
    placement, problems = place(library, devices, plugins, default, known)
    found += problems
    if whole and default is None and not placement.applied and not has_errors(found):
        found += nowhere(library)
    for applied in placement.applied:
        if applied.arguments:
            found += _checked(applied.policy, found, plugins, claims, words.get(applied.policy.name, frozenset()))
        if enforced is not None:
            found += unenforced(applied.policy, enforced)
    if library.tests:
        from gpud.policies.simulate.resolve_test import Resolved, check_test

        resolved_for: Resolved = {(name, ""): (policy, ()) for name, policy in sound.items()}
        for test, file in library.tests:
            found += check_test(test, file, library, plugins, resolved_for)
    return in_order(found)


def in_order(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """By place, each once."""
    once: dict[object, Diagnostic] = {}
    for one in found:
        once.setdefault((one.code, one.primary.source.name, one.primary.span, one.message), one)
    return sorted(once.values(), key=lambda diagnostic: diagnostic.place)


def _checked(
    policy: IrPolicy,
    problems: Sequence[Diagnostic],
    plugins: Plugins,
    claims: frozenset[str] | None,
    elsewhere: frozenset[str],
) -> list[Diagnostic]:
    """Without warnings if there are errors: they would be about what is not there for that reason."""
    found = check_policy(policy, plugins, claims=claims, elsewhere=elsewhere)
    return [one for one in found if not one.is_warning] if has_errors(list(problems)) else found


def _words_of_tests(library: Library) -> dict[str, frozenset[str]]:
    """Policy → all words in its tests: names that they may read."""
    words: dict[str, set[str]] = {}
    for test, file in library.tests:
        text = file.source.text[test.span.start : test.span.end]
        for name in _QUOTED.findall(text):
            if name in library.policies:
                words.setdefault(name, set()).update(_WORD.findall(text))
    return {name: frozenset(found) for name, found in words.items()}
