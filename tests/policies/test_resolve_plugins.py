"""What plugins add to the language, and declarations that are wrong."""

import time
from typing import Any

import pytest

from gpud.policies.ir import Const, OperatorCall, Read, SignalRef
from gpud.policies.plugins.declare import (
    Actuator,
    Argument,
    Bool,
    Class,
    Duration,
    Function,
    Gpu,
    Number,
    Plugin,
    PluginError,
    Ratio,
    Signal,
)
from gpud.policies.plugins.validate import wrong_declaration
from gpud.policies.types import Type
from tests.policies.resolving import one_line, policy, resolve_text


def opened(publish: object, settings: object) -> None:
    raise AssertionError("declarations are read, nothing is opened")


def applied(device: str, job_class: str, value: object) -> None:
    raise AssertionError("declarations are read, nothing is applied")


SMOOTH = Function(
    "smooth", (Argument("x", Number), Argument("span", Duration, False, 1_000_000_000)), Number, lambda: 0,
    lambda state, args, now: (state, 0),
)  # fmt: skip
VLLM = Plugin(
    name="vllm",
    signals=(
        Signal("queue_depth", Number, scope=Class),
        Signal("ttft_p99", Duration, scope=Class),
        Signal("load", Ratio, scope=Gpu),
    ),
    functions=(SMOOTH,),
    actuators=(Actuator("batch", Number, "min", 64, applied), Actuator("drain", Bool, "any", False, applied)),
    open=opened,
)
PLUGINS = {"vllm": VLLM}


def said(body: str, *, use: str = "use vllm", plugins: Any = None) -> list[str]:
    found = resolve_text(policy(body, head=use), PLUGINS if plugins is None else plugins)[1]
    return [one_line(diagnostic) for diagnostic in found]


def test_signals_functions_and_actuators() -> None:
    ir, found = resolve_text(
        policy(
            "let a = high.vllm.queue_depth let b = gpu.vllm.load"
            " let c = vllm.smooth(a, span = 2s) let d = vllm.smooth(c)"
            " low.vllm.batch = a low.vllm.drain = true",
            head="use vllm",
        ),
        PLUGINS,
    )
    assert not found
    a, b, c, d = (let.value for let in ir.lets)
    assert isinstance(a, Read)
    assert isinstance(b, Read)
    assert isinstance(c, OperatorCall)
    assert isinstance(d, OperatorCall)
    assert a.signal == SignalRef("class", "high", "vllm.queue_depth", Type.NUMBER)
    assert b.signal == SignalRef("gpu", "", "vllm.load", Type.RATIO)
    assert (c.operator, c.identity, c.type) == ("vllm.smooth", "c/vllm.smooth#1", Type.NUMBER)
    assert [(name, value.value) for name, value in d.args if isinstance(value, Const)] == [("span", 1_000_000_000)]
    assert [binding.knob.text for binding in ir.body.bindings] == ["low.vllm.batch", "low.vllm.drain"]
    assert ir.uses == ("vllm",)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "let x = high.vllm.queue_dept",
            "GP201 'queue_dept' `vllm` has no signal `queue_dept` = did you mean `queue_depth`?",
        ),
        (
            "let x = gpu.vllm.queue_depth",
            "GP201 'queue_depth' `vllm` has no signal `queue_depth` = write `high.vllm.queue_depth`",
        ),
        ("let x = high.vllm.load", "GP201 'load' `vllm` has no signal `load` = write `gpu.vllm.load`"),
        (
            "let x = high.vllm",
            "GP201 'vllm' `vllm` is a plugin, not a signal = its signals are `queue_depth`, `ttft_p99` and "
            "`load`",
        ),
        (
            "let x = vllm.queue_depth",
            "GP201 'vllm' nothing is called `vllm` here = a plugin's signals belong to a class or the gpu: "
            "`high.vllm.…`",
        ),
        ("let x = high.vllm.ttft_p99.max", "GP201 'max' `high.vllm.ttft_p99` has no parts"),
        (
            "let x = high.vllm.batch",
            "GP402 'high.vllm.batch' `batch` is set, it cannot be read = use what sets it; with "
            "`let` it can have a name",
        ),
        ("high.vllm.ttft_p99 = 3ms", "GP402 'high.vllm.ttft_p99' `ttft_p99` is measured, it cannot be set"),
        ("high.vllm.btch = 3", "GP201 'btch' `vllm` has no knob `btch` = did you mean `batch`?"),
        (
            "high.vllm = 3",
            "GP201 'vllm' `high` has no knob `vllm` = its knobs are `high.vllm.batch` and `high.vllm.drain`",
        ),
        (
            "high.vllm.batch = 3ms",
            "GP202 '3ms' `high.vllm.batch` needs a plain number, but this is a duration = for example 4",
        ),
        (
            "guard low.active { high.vllm.drain = false }",
            "GP307 'high.vllm.drain = false' a guard can only tighten, and this leaves `high.vllm.drain` as it "
            "is = write `high.vllm.drain = true`, or leave it out",
        ),
        ("let x = vllm.smoth(3)", "GP201 'smoth' `vllm` has no function `smoth` = did you mean `smooth`?"),
        ("let x = vllm.smooth()", "GP203 'vllm.smooth' `vllm.smooth` also needs `x`"),
        (
            "let x = vllm.smooth(3ms)",
            "GP202 '3ms' `x` of `vllm.smooth` needs a plain number, but this is a duration = for example 4",
        ),
        (
            "param x = vllm.smooth(3)",
            "GP209 'vllm.smooth(3)' `vllm.smooth` keeps a state from tick to tick; it cannot stand in param "
            "`x` = it can stand in `let` and in bindings of knobs",
        ),
        (
            "each low as n { when n.vllm.queue_depth > 3 { n.residency = host } }",
            "GP405 'n.vllm.queue_depth' `vllm` measures classes, not one tenant = write `low.vllm.queue_depth`",
        ),
        (
            "each low as n { n.vllm.batch = 3 }",
            "GP405 'n.vllm.batch' `batch` holds for a whole class, not for one tenant = in `each` you can set "
            "`n.max_inflight`, `n.max_inflight_time`, `n.max_hold`, `n.max_overrun` and `n.residency`",
        ),
        (
            "let vllm = 3",
            "GP104 'vllm' `vllm` is a plugin that this file uses; a let cannot be called that = choose another "
            "name",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_names_of_plugins(body: str, expected: str) -> None:
    assert said(body) == [expected]


def test_a_plugin_must_be_installed_and_used() -> None:
    body = "when high.vllm.queue_depth > 3 { low.pause = true }"
    assert said(body, use="") == [
        "GP601 'vllm' `vllm` is installed, but this file does not `use` it = add `use vllm` below the version line"
    ]
    assert said(body, use="", plugins={}) == ["GP601 'vllm' no plugin `vllm` is installed"]
    assert said(body, plugins={}) == [
        "GP601 'vllm' no plugin `vllm` is installed = install the package that has the plugin `vllm`"
    ]
    assert said("", use="use vlm") == ["GP601 'vlm' no plugin `vlm` is installed = did you mean `vllm`?"]
    assert said("", use="use vllm use vllm") == ["GP205 'vllm' `vllm` is used twice = leave one line out"]


def plugin(**changes: Any) -> Plugin:
    from attrs import evolve

    return evolve(VLLM, **changes)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (VLLM, []),
        (plugin(name="other"), ["it calls itself `other`, its entry point `vllm`"]),
        (plugin(open=None), ["it has signals, but no `open` that samples them"]),
        (plugin(signals=(Signal("Depth", Number),)), ["no signal can be called `Depth`"]),
        (plugin(signals=(Signal("when", Number),)), ["no signal can be called `when`"]),
        (plugin(signals=(Signal("a", Number), Signal("a", Ratio))), ["signal `a` is declared twice"]),
        (plugin(signals=(Signal("a", Number), Signal("a", Ratio, scope=Gpu))), []),
        (
            plugin(signals=(Signal("a", Number, scope="node"),)),
            ["signal `a` has scope `node`, which is neither class nor gpu"],
        ),
        (plugin(signals=(Signal("a", Type.TEXT),)), ["signal `a` must be a number, a quantity or a bool"]),
        (plugin(signals=(Signal("a", Number, every=0),)), ["signal `a` must have 0 < every ≤ stale_after"]),
        (
            plugin(actuators=(Actuator("a", Number, "sum", 0, applied),)),
            ["actuator `a`: bools combine by any or all, numbers and quantities by min or max"],
        ),
        (
            plugin(actuators=(Actuator("a", Number, "any", 0, applied),)),
            ["actuator `a`: bools combine by any or all, numbers and quantities by min or max"],
        ),
        (
            plugin(actuators=(Actuator("queue_depth", Number, "max", 0, applied),)),
            ["actuator `queue_depth` is declared twice"],
        ),
        (
            plugin(functions=(Function("f", (Argument("X", Number),), Number, int, lambda *_: (0, 0)),)),
            ["no parameter of `f` can be called `X`"],
        ),
        (
            plugin(functions=(Function("f", (), Type.TEXT, int, lambda *_: (0, 0)),)),
            ["parameters and result of `f` must be numbers, quantities or bools"],
        ),
        (
            plugin(functions=(Function("f", (), Number, int, lambda *_: (0, 0), cost=0),)),
            ["function `f` must cost 1 to 200 steps"],
        ),
        ("vllm", ["it is no Plugin"]),
        (plugin(signals=3), ["it cannot be read (TypeError)"]),
    ],
)  # fmt: skip
def test_declarations(declared: Any, expected: list[str]) -> None:
    text = f"its declaration is wrong: {'; '.join(expected)}" if expected else ""
    assert wrong_declaration("vllm", declared) == text


@pytest.mark.parametrize("name", ["gpu", "when", "Vllm", "busy", "pause", "min"])
def test_names_that_a_plugin_cannot_have(name: str) -> None:
    said = f"its declaration is wrong: no plugin can be called `{name}`"
    assert wrong_declaration(name, plugin(name=name)) == said


def test_a_wrong_declaration_is_reported_at_its_use_and_silences_the_rest() -> None:
    found = said("when high.vllm.queue_depth > 3 { low.pause = true }", plugins={"vllm": plugin(open=None)})
    assert found == [
        "GP602 'vllm' plugin `vllm` cannot be used: its declaration is wrong: "
        "it has signals, but no `open` that samples them"
        " = tell who wrote it, or leave this line out"
    ]


class OneBroken(dict[str, Plugin]):
    """As InstalledPlugins is where a package is broken."""

    def __getitem__(self, name: str) -> Plugin:
        if name == "broken":
            raise PluginError(name, "importing it failed with RuntimeError: boom")
        return super().__getitem__(name)


def test_a_plugin_that_cannot_be_imported_is_reported_at_its_use_and_silences_the_rest() -> None:
    installed = OneBroken(vllm=VLLM, broken=VLLM)
    text = policy(
        "when high.broken.depth > 3 or high.vllm.queue_depth > 3 { low.pause = true }", head="use broken\nuse vllm"
    )
    assert [one_line(diagnostic) for diagnostic in resolve_text(text, installed)[1]] == [
        "GP602 'broken' plugin `broken` cannot be used: importing it failed with RuntimeError: boom"
        " = tell who wrote it, or leave this line out"
    ]


def test_many_uses_take_little_time() -> None:
    uses = "\n".join(f"use p{number}" for number in range(9_000))
    begin = time.process_time()
    assert len(resolve_text(policy("", head=uses), {})[1]) == 9_000
    assert time.process_time() - begin < 20
