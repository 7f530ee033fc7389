"""parse(print(m)) == m for modules of every shape."""

from __future__ import annotations

import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.ptx import ast
from gpud.ptx.lexer import tokens
from gpud.ptx.parser import parse
from gpud.ptx.printer import module_text, operand_text, statement_text

NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_$]{0,6}|[%_$][a-zA-Z0-9_$]{1,6}", fullmatch=True).filter(
    lambda name: name != "generic" and name[:2].lower() not in ("0f", "0d")
)
TYPES = st.sampled_from(["b8", "u16", "s32", "b64", "f32", "f64", "pred", "f16x2"])
PARTS = st.sampled_from(["", "", "x", "y", "z", "w"])
INTS = st.integers(-(1 << 63), (1 << 64) - 1)
OFFSETS = st.integers(-(1 << 40), 1 << 40)
names = st.builds(ast.Name, NAMES, PARTS)
plain = st.builds(ast.Name, NAMES)
floats = st.one_of(
    st.builds(ast.Float, st.integers(0, (1 << 32) - 1), st.just(32)),
    st.builds(ast.Float, st.integers(0, (1 << 64) - 1), st.just(64)),
)
scalars = st.one_of(names, st.builds(ast.Int, INTS), floats, st.builds(ast.Offset, names, OFFSETS.filter(bool)))
vectors = st.builds(ast.Vector, st.lists(scalars, min_size=1, max_size=4).map(tuple))
addresses = st.one_of(
    st.builds(ast.Address, names, OFFSETS, st.lists(vectors, max_size=1).map(tuple)),
    st.builds(ast.Address, st.builds(ast.Int, INTS)),
)
operands = st.one_of(
    scalars,
    vectors,
    addresses,
    st.builds(ast.Not, plain),
    st.builds(ast.Negate, plain),
    st.builds(ast.Pair, names, names),
)
MODIFIERS = st.sampled_from(["s32", "global", "v4", "rn", "L1::no_allocate", "shared::cta", "lo", "2d"])
guards = st.none() | st.builds(ast.Guard, NAMES, st.booleans())
instructions = st.builds(
    ast.Instruction,
    st.sampled_from(["add", "ld", "mov", "bar", "frob"]),
    st.lists(MODIFIERS, max_size=3).map(tuple),
    st.lists(operands, max_size=4).map(tuple),
    guards,
)
calls = st.builds(
    lambda results, name, args: ast.Instruction("call", ("uni",), (ast.Group(results), name, ast.Group(args))),
    st.lists(plain, max_size=2).map(tuple),
    plain,
    st.lists(scalars, max_size=3).map(tuple),
)
ALIGN = st.sampled_from([0, 1, 4, 16])
DIMS = st.lists(st.integers(0, 64), max_size=2).map(tuple)


def variables(space, **more):
    return st.builds(
        ast.Variable, st.just(space), TYPES, NAMES, ALIGN, st.sampled_from([1, 2, 4]), more.pop("dims", DIMS), **more
    )


registers = variables("reg", dims=st.just(()), count=st.sampled_from([0, 0, 3, 100]))
strings = st.from_regex(r"[a-z ]{0,8}", fullmatch=True)
leaves = st.one_of(
    instructions,
    calls,
    st.builds(ast.Label, NAMES),
    registers,
    variables("local"),
    variables("shared"),
    variables("param"),
    st.builds(ast.Pragma, strings),
    st.builds(ast.BranchTargets, NAMES, st.lists(NAMES, min_size=1, max_size=3).map(tuple)),
)
statements = st.recursive(
    leaves, lambda inner: st.builds(ast.Block, st.lists(inner, max_size=3).map(tuple)), max_leaves=6
)
blocks = st.builds(ast.Block, st.lists(statements, max_size=6).map(tuple))
initialisers = st.recursive(
    st.one_of(
        st.builds(ast.Int, INTS),
        floats,
        plain,
        st.builds(ast.Offset, plain, OFFSETS.filter(bool)),
        st.builds(lambda name: ast.Group((name,), "generic"), plain),
        st.builds(lambda name, offset: ast.Group((name, ast.Int(offset)), "generic"), plain, OFFSETS.filter(bool)),
    ),
    lambda inner: st.builds(ast.Vector, st.lists(inner, max_size=3).map(tuple)),
    max_leaves=5,
)
LINKAGE = st.sampled_from([(), ("visible",), ("weak",), ("extern",)])
globals_ = st.one_of(
    variables(
        "global", initial=st.none() | initialisers, linkage=LINKAGE, attributes=st.sampled_from([(), ("managed",)])
    ),
    variables("const", dims=st.just((-1,)), initial=initialisers),
)
pointers = st.none() | st.tuples(st.sampled_from(["", "global", "shared"]), st.sampled_from([4, 16]))
params = st.lists(
    variables("param", dims=st.just(()), pointer=pointers).map(
        lambda v: ast.Variable(
            v.space, v.type, v.name, 0 if v.pointer else v.align, v.vector, v.dims, pointer=v.pointer
        )
    ),
    max_size=3,
).map(tuple)
directives = st.lists(
    st.sampled_from(
        [ast.Directive("maxntid", (256, 1, 1)), ast.Directive("minnctapersm", (2,)), ast.Directive("noreturn")]
    ),
    max_size=2,
).map(tuple)
functions = st.one_of(
    st.builds(ast.Function, st.just(True), NAMES, params, st.just(()), directives, LINKAGE, blocks),
    st.builds(ast.Function, st.just(False), NAMES, params, params, directives, LINKAGE, st.none() | blocks),
)
items = st.one_of(functions, globals_, st.builds(ast.Alias, NAMES, NAMES), st.builds(ast.Pragma, strings))
modules = st.builds(
    ast.Module,
    st.tuples(st.integers(1, 9), st.integers(0, 9)),
    st.sampled_from([("sm_80",), ("sm_90a", "debug")]),
    st.sampled_from([32, 64]),
    st.lists(items, max_size=4).map(tuple),
)


@settings(max_examples=300, deadline=None)
@given(modules)
def test_round_trip(module):
    text = module_text(module)
    assert parse(text) == module
    assert module_text(parse(text)) == text


def test_lines_are_kept_and_not_compared():
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{\n\tret;\n}\n"
    module = parse(text)
    (function,) = module.items
    assert isinstance(function, ast.Function)
    assert function.body is not None
    assert function.body.body[0].line == 6
    assert function.body.body[0] == ast.Instruction("ret", line=99)


def test_spellings_of_constants():
    text = """.version 8.0
.target sm_80
.address_size 64
.entry k() { mov.u64 a, 0x1F; mov.u64 a, 017; mov.u64 a, 0b101U; mov.u64 a, -5; mov.u64 a, (1 << 4) | 3; mov.u64 a, ~0;
mov.f32 a, 0f3F800000; mov.f64 a, 1.5; mov.f64 a, -2.5e1; mov.f32 a, 0F00000000; mov.u64 a, 2 * (3 + 4) - 6 / 4; }
"""
    (function,) = parse(text).items
    values = [ins.operands[1] for ins in function.body.body]
    assert [value.value for value in values if isinstance(value, ast.Int)] == [31, 15, 5, -5, 19, -1, 13]
    images = [(value.image, value.bits) for value in values if isinstance(value, ast.Float)]
    assert images == [(0x3F800000, 32), (0x3FF8000000000000, 64), (0xC039000000000000, 64), (0, 32)]


def test_texts_of_parts():
    assert statement_text(ast.Label("here")) == "here:"
    assert statement_text(ast.Block(())) == "{ ... }"
    assert operand_text(ast.Address(ast.Name("%rd1"), -4)) == "[%rd1-4]"
    assert [token.kind for token in tokens("a.b [0x1]; // x")] == [
        "name",
        "dot",
        "punct",
        "int",
        "punct",
        "punct",
        "end",
    ]
