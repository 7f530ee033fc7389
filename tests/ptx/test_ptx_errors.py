"""Bad PTX: every error names file, line and instruction, and says what to do."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from gpud.ptx.compile import ptx_to_c
from gpud.ptx.errors import PtxError

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
SAMPLES = Path(__file__).parent / "samples"


def body(code):
    """A kernel whose line 6 is `code`."""
    return (
        HEAD
        + ".visible .entry k(.param .u64 out) {\n"
        + ".reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>; .reg .f64 %fd<4>; .reg .pred %p<4>; .reg .b16 %h<4>;\n"
        + code
        + "\nret;\n}\n"
    )


def error(text):
    with pytest.raises(PtxError) as caught:
        ptx_to_c(text, file="bad.ptx")
    return caught.value


# (code, instruction in the message, what the message says)
INSTRUCTIONS = [
    ("add.s32 %r1, %r2;", "add.s32 %r1, %r2;", "2 operands where 3 belong"),
    ("add.s32 %r1, %r2, %r9;", "add.s32 %r1, %r2, %r9;", "%r9 is not declared"),
    ("frobnicate.u32 %r1, %r2;", "frobnicate.u32 %r1, %r2;", "frobnicate is not supported"),
    ("add.s33 %r1, %r2, %r3;", "add.s33 %r1, %r2, %r3;", ".s33 is not supported"),
    ("add.f32 %f1, %f2, 1;", "add.f32 %f1, %f2, 1;", "whole number where a .f32"),
    ("add.f64 %fd1, %fd1, %f1;", "add.f64 %fd1, %fd1, %f1;", "cvt"),
    ("mov.u32 %p1, 3;", "mov.u32 %p1, 3;", "predicate"),
    ("bra nowhere;", "bra nowhere;", "no label nowhere"),
    ("@%r1 bra nowhere;", "@%r1 bra nowhere;", "predicate"),
    ("mul.s32 %r1, %r2, %r3;", "mul.s32 %r1, %r2, %r3;", ".lo, .hi, .wide"),
    ("cvt.s32.f32 %r1, %f1;", "cvt.s32.f32 %r1, %f1;", ".rni"),
    ("setp.lt.b32 %p1, %r1, %r2;", "setp.lt.b32 %p1, %r1, %r2;", "untyped"),
    ("mov.u32 %r1, %pm0;", "mov.u32 %r1, %pm0;", "special register"),
    ("ld.global.v2.u32 %r1, [%rd1];", "ld.global.v2.u32 %r1, [%rd1];", "values"),
    ("st.global.u32 %rd1, %r1;", "st.global.u32 %rd1, %r1;", "brackets"),
    ("shfl.down.b32 %r1, %r2, 1, 31;", "shfl.down.b32 %r1, %r2, 1, 31;", ".sync"),
    ("call nothing;", "call nothing;", "not declared"),
    ("call %rd1, (%r1);", "call %rd1, (%r1);", "indirect"),
    (
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f1};",
        "mma.sync.aligned.m16n8k8",
        "tensor-core",
    ),
    ("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [%rd1];", "wmma.load.a", "tensor-core"),
    ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];", "tex.2d.v4.f32.f32", "textures"),
    ("cp.async.ca.shared.global [%r1], [%rd1], 16;", "cp.async.ca.shared.global", "asynchronous"),
    ("cp.async.bulk.shared::cluster.global [%r1], [%rd1], 16, [%r2];", "cp.async.bulk", "out of scope"),
    ("barrier.cluster.arrive;", "barrier.cluster.arrive;", "cluster"),
    ("x: .callprototype (.param .b32 _) _ (.param .b32 _);", "x: .callprototype", "indirect calls"),
    ("mov.u64 %rd1, k;", "mov.u64 %rd1, k;", "address of a function"),
    (".reg .texref %t;", "", "texref"),
    ("lbl: lbl:", "", "stands twice"),
    (".global .u32 inner;", ".global .u32 inner;", "top of the module"),
]


@pytest.mark.parametrize(("code", "instruction", "message"), INSTRUCTIONS)
def test_an_instruction_is_refused_with_its_line(code, instruction, message):
    found = error(body(code))
    assert found.file == "bad.ptx"
    assert found.line == 6
    assert found.instruction.startswith(instruction) or instruction.startswith(found.instruction), found.instruction
    assert message in str(found)
    assert str(found).startswith(f"bad.ptx:6: {found.instruction}")


# (text, line, what the message says)
SYNTAX = [
    ("", 1, "empty"),
    ("\x7fELF\x02\x01", 1, "unexpected character"),
    ("hello", 1, ".version"),
    (".version 8.0\n", 1, "no .target"),
    (HEAD + ".version 7.0\n", 4, "second .version"),
    (HEAD + "\n\n.bogus 3;\n", 6, "'.bogus'"),
    (HEAD + "/* never closed", 4, "comment"),
    (HEAD + '.pragma "open\n', 4, "string"),
    (body("add.s32 %r1, %r2, ;"), 6, "expected an operand"),
    (body("add.s32 %r1 %r2;"), 6, "expected ',' or ';'"),
    (body("add.s32 %r1, %r2, %r3"), 6, "expected ',' or ';'"),
    (body("ld.u32 %r1, [%rd1"), 6, "expected ']'"),
    (body(".reg .b33 %x;"), 6, ".b33"),
    (body(".reg %x;"), 6, "without a type"),
    (body("mov.u32 %r1, (1 + );"), 6, "expected an operand"),
    (body("mov.u32 %r1, 1/0;"), 6, "division by zero"),
    (body("mov.u32 %r1, `5`;"), 6, "unexpected character '`'"),
    (body("ret;")[:-3], 7, "ends within the block"),
    (HEAD + ".visible .entry k(.param .u64 a .param .u64 b) { ret; }", 4, "expected ')'"),
    (HEAD + ".global .align 3 .u32 x;", 4, "power of two"),
    (HEAD + ".shared .align 4 .u32;", 4, "a variable's name"),
    (body("{" * 200), 6, "nested"),
    (body("mov.u32 %r1, " + "(" * 200 + ";"), 6, "nested"),
    (HEAD + ".section .debug_info { .b8 1", 4, "without an end"),
]


@pytest.mark.parametrize(("text", "line", "message"), SYNTAX)
def test_text_that_does_not_parse(text, line, message):
    found = error(text)
    assert found.line == line
    assert message in str(found)


# (text, what the message says)
MODULES = [
    (HEAD + ".global .u32 x = {1, 2};\n", "more values"),
    (HEAD + ".global .u32 x;\n.global .u64 p = x;\n", "address"),
    (HEAD + ".global .u32 x;\n.global .u32 x;\n", "twice"),
    (HEAD + ".global .texref t;\n", "texture"),
    (
        HEAD + ".extern .global .u32 away;\n.entry k() { .reg .u32 %r; ld.global.u32 %r, [away]; ret; }\n",
        "defined nowhere",
    ),
    (HEAD + ".extern .func away;\n.entry k() { call away; ret; }\n", "defined nowhere"),
    (HEAD + ".func f(.param .b32 a) { ret; }\n.entry k() { call f; ret; }\n", "0 arguments"),
    (HEAD + ".func f() { bar.sync 0; call f; ret; }\n.entry k() { call f; ret; }\n", "calls itself"),
    (HEAD + ".entry k() { ret; }\n.entry k() { ret; }\n", "twice"),
    (HEAD + ".shared .b8 big[50000];\n.entry k() { .reg .u32 %r; mov.u32 %r, big; ret; }\n", "static shared memory"),
    (HEAD + ".entry k() { .local .b8 big[600000]; ret; }\n", "local memory"),
    (HEAD + ".entry k(.param .b8 big[40000]) { ret; }\n", "parameters"),
    (HEAD + ".entry k(.reg .b32 r) { ret; }\n", "parameters are .param"),
]


@pytest.mark.parametrize(("text", "message"), MODULES)
def test_modules_that_cannot_be_compiled(text, message):
    found = error(text)
    assert message in str(found)
    assert found.line >= 4


def test_the_remedy_follows_the_message():
    assert str(error(body("cp.async.wait_all;"))).endswith("; compile for sm_75, or copy with plain loads and stores")


def test_lines_count_through_comments_and_debug_lines():
    text = body(
        '/* one\n two */ // three\n.loc 1 2 3, function_name $L, inlined_at 1 2 3\n.file 1 "a.cu", 5, 6\nadd.s32 %r1;'
    )
    assert error(text).line == 10


def test_damaged_text_gives_only_errors_of_ours():
    """Random damage to real PTX: it compiles, or a PtxError with a line comes; nothing else."""
    rng = random.Random(7)
    texts = [path.read_text() for path in SAMPLES.glob("numba_*.ptx")]
    words = re.findall(r"[%$\w.]+|[^\s\w]", "\n".join(texts))
    refused = []
    for _ in range(300):
        parts = re.split(r"(\s+|[,;:\[\]{}()])", rng.choice(texts))
        for _ in range(rng.choice((1, 1, 3))):
            at = rng.randrange(len(parts))
            parts[at] = rng.choice(
                ("", rng.choice(words), parts[rng.randrange(len(parts))], parts[at][: len(parts[at]) // 2])
            )
        try:
            ptx_to_c("".join(parts))
        except PtxError as found:
            refused.append(found)
    assert len(refused) > 100
    assert all(found.line > 0 and found.message for found in refused)
