"""What is read at the wrong time, or set that is measured: messages that say where it belongs instead."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpud.policies import ast
from gpud.policies.resolve.findings import Findings
from gpud.policies.resolve.scope import Place
from gpud.policies.schema import KNOBS, SIGNALS
from gpud.policies.source import Span

_MATCH_HELPS = (
    "match on label(…), cgroup, exe, user, namespace or pod",
    "to react to it, use a `when` rule",
)


def report_live(findings: Findings, place: Place, ref: ast.Ref) -> None:
    """A signal, let or hours where only what is known at load or at attach may stand."""
    if place.kind == "match":
        message = f"`{ref.text}` changes while the tenant runs; `match` is decided once, when it attaches"
        helps: tuple[str, ...] = _MATCH_HELPS
    elif place.kind == "limit":
        message = f"`{ref.text}` changes while the tenant runs; `limit` is decided once, when it attaches"
        helps = ("write a constant, a `param` or label_bytes(…)", "to react to it, set a knob in a `when` rule")
    elif place.kind == "step":
        message = f"`{ref.text}` changes while the test runs; {place.what} is set to a value that is written here"
        helps = ("write a constant or a `param`",)
    else:
        message = f"`{ref.text}` changes while the policy runs; {place.what} is fixed when it is loaded"
        helps = ("write a constant or a `param`",)
    findings.add("GP401", ref.span, message, "only known later", helps=helps)


def report_fact(findings: Findings, place: Place, span: Span, word: str) -> None:
    """`label()`, `cgroup` and so on outside `match` and `limit`."""
    call = word.startswith("label")
    what = f"`{word}()` reads one tenant's labels" if call else f"`{word}` is known of one tenant"
    home = "put it in a class's `match` or `limit`" if call else "put it in a class's `match`"
    if place.kind == "rule":
        findings.add("GP401", span, f"{what}; a rule sees whole classes", "not readable in a rule", helps=(home,))
    else:
        message = f"{what}; {place.what} is the same for all"
        home = "labels are read in `match`, and for `memory` and `compute` of `limit`" if call else home
        findings.add("GP401", span, message, "not readable here", helps=(home,))


_KNOB_OF = {"busy": "max_compute", "queued": "max_inflight", "active": "pause", "waiters": "max_hold"}
_INSTEAD_OF = {
    "memory_used": "limit it in the class: `limit {{ memory = … }}`",
    "tenants": "limit them in the class: `limit {{ tenants = … }}`, or set `{0}.admit`",
    "memory_free": "set `residency` of a class: its memory moves out",
}


def report_signal_set(findings: Findings, ref: ast.Ref, signal: str, owner: str) -> None:
    """`low.launch_rate = …`; `owner` is "" where no knob can be."""
    knob = f"max_{signal}" if f"max_{signal}" in KNOBS else _KNOB_OF.get(signal)
    helps: tuple[str, ...] = ()
    if knob and owner:
        helps = (f"the knob is `{owner}.{knob}`",)
    elif signal in _INSTEAD_OF:
        helps = (_INSTEAD_OF[signal].format(owner),)
    findings.add("GP402", ref.span, f"`{signal}` is measured, it cannot be set", "a signal", helps=helps)


def report_knob_read(findings: Findings, ref: ast.Ref, knob: str) -> None:
    """`when low.max_launch_rate > …`."""
    owner, signal = ref.parts[0].text, knob.removeprefix("max_")
    if knob == "max_compute":
        signal = "busy"
    if ("class", signal) in SIGNALS:
        helps = f"the signal is `{owner}.{signal}`"
    else:
        helps = "use what sets it; with `let` it can have a name"
    findings.add("GP402", ref.span, f"`{knob}` is set, it cannot be read", "a knob", helps=(helps,))


def report_plugin(findings: Findings, name: ast.Name, plugins: Mapping[str, Any] | Iterable[str]) -> None:
    """A plugin's name in an expression, without a `use`."""
    installed = list(plugins)
    if name.text in installed:
        findings.add(
            "GP601", name.span, f"`{name.text}` is installed, but this file does not `use` it",
            helps=(f"add `use {name.text}` below the version line",),
        )  # fmt: skip
    else:
        findings.add(
            "GP601",
            name.span,
            f"no plugin `{name.text}` is installed",
            helps=findings.did_you_mean(name.text, sorted(installed)),
        )
