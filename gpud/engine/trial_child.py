"""The child process of trials.py: reads a set of policies from standard input, writes a line of JSON a test."""

import json
import os
import resource
import sys

CPU_S, MEMORY_BYTES = 5, 1 << 30


def main() -> None:
    os.nice(19)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    asked = json.load(sys.stdin)
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a plugin's function prints is no result

    from gpud.policies.library import from_texts
    from gpud.policies.plugins.installed import InstalledPlugins
    from gpud.policies.render import human
    from gpud.policies.simulate.resolve_test import Resolved
    from gpud.policies.simulate.results import FAILED, INVALID, PASSED
    from gpud.policies.simulate.runner import run_test

    library = from_texts(asked["files"])
    plugins, resolved = InstalledPlugins(), Resolved()
    for number in asked["tests"]:
        test, file = library.tests[number]
        try:
            result = run_test(test, file, library, plugins, resolved=resolved)
            ok = {PASSED: True, FAILED: False, INVALID: False}.get(result.outcome)
            line = {"ok": ok, "text": human(result.diagnostics).rstrip("\n")}
        except Exception as error:  # of ours, or of a plugin's function: no reason to reject what the operator wrote
            line = {"ok": None, "text": f"{test.name.text}: {type(error).__name__}: {error}"}
        print(json.dumps(line), file=results, flush=True)


if __name__ == "__main__":
    main()
