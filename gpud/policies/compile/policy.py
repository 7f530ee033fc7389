"""Resolved policy → Program."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gpud.policies.check.cost import steps
from gpud.policies.compile.carry import carry
from gpud.policies.compile.generate import Generated, generate
from gpud.policies.compile.matching import classify
from gpud.policies.ir import IrPolicy
from gpud.policies.plugins.declare import Plugins
from gpud.policies.program import Program

_NO_PLUGINS: Plugins = {}


def compile_policy(ir: IrPolicy, arguments: Sequence[tuple[str, Any]] = (), plugins: Plugins = _NO_PLUGINS) -> Program:
    """`ir` must be free of errors and resolved with the same arguments: (parameter, value)."""
    generated = generate(ir, plugins)
    names = dict(generated.globals)
    exec(compile(generated.source, f"<policy {ir.name}>", "exec"), names)
    given = tuple(sorted(arguments, key=lambda argument: argument[0]))
    slots = generated.slots
    return Program(
        ir=ir,
        arguments=given,
        digest=_digest(ir, given, generated),
        signals=generated.signals,
        tenant_signals=generated.tenant_signals,
        lets=tuple(let.name for let in ir.lets),
        knobs=generated.knobs,
        tenant_knobs=generated.tenant_knobs,
        sites=generated.sites,
        steps=steps(ir, plugins),
        slots=slots,
        initial=generated.initial,
        tick=names["tick"],
        let_values=_let_values(len(ir.lets)),
        next_change=names["next_change"],
        carry=lambda state, program, fresh: carry(state, program.slots, slots, fresh),
        classify=partial(classify, ir),
    )


def program_source(ir: IrPolicy, plugins: Plugins = _NO_PLUGINS) -> str:
    """The Python text that runs."""
    return generate(ir, plugins).source


def _let_values(count: int) -> Callable[[Any], tuple[Any, ...]]:
    def let_values(state: Any) -> tuple[Any, ...]:
        return tuple(state[1 : count + 1])

    return let_values


def _digest(ir: IrPolicy, arguments: tuple[tuple[str, Any], ...], generated: Generated) -> str:
    from hashlib import sha256

    text = ir.source.text[ir.span.start : ir.span.end] or generated.source
    return sha256("\0".join([ir.name, text, repr(arguments), repr(ir.uses)]).encode()).hexdigest()
