"""The side of a program that `gpud.testing.talk` talks with: orders in, answers out, a line of JSON each.

Standard library only, and nothing of gpud: the programs run in the Python of the jobs.
"""

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

Doing = Callable[..., Mapping[str, Any] | None]


def answer(**doings: Doing) -> int:
    """Carries out orders `{"do": NAME, "number": N, …arguments}` until standard input ends; returns the exit code.

    Each is answered by the mapping that its function returns, with the number, so that who has given one up can tell.
    An exception is answered with `{"error": …}`; the program goes on, and its exit code will be 1. What libraries print
    goes to standard error: only answers are on standard output.
    """
    out = sys.stdout
    sys.stdout = sys.stderr
    code = 0
    for line in sys.stdin:
        order = json.loads(line)
        number = order.pop("number", None)
        try:
            result = dict(doings[order.pop("do")](**order) or {})
        except Exception:
            result, code = {"error": traceback.format_exc()}, 1
        print(json.dumps(result | {"number": number}), file=out, flush=True)
    return code
