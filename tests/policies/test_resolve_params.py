"""Params, and the arguments of an `apply`."""

import math

import pytest

from gpud.policies.ir import Const
from gpud.policies.types import Type
from tests.policies.resolving import found_in, marked, resolved, said

BODY = "param quiet = 3ms param half = quiet / 2 low.max_inflight_time = half"


def test_defaults_and_arguments() -> None:
    ir = resolved(BODY)
    assert [(p.name, p.value, p.type, p.default) for p in ir.params] == [
        ("quiet", 3_000_000, Type.DURATION, 3_000_000),
        ("half", 1_500_000, Type.DURATION, 1_500_000),
    ]
    ir = resolved(BODY, args="quiet = 5ms + 1ms")
    assert [(p.name, p.value, p.default) for p in ir.params] == [
        ("quiet", 6_000_000, 3_000_000),
        ("half", 3_000_000, 3_000_000),
    ]
    value = ir.body.bindings[0].value
    assert isinstance(value, Const)
    assert (value.value, value.type) == (3_000_000, Type.DURATION)


def test_every_type_of_constant_can_be_a_param() -> None:
    body = (
        'param a = true param b = "x" param c = weight(2) param d = host param e = unlimited param f = 3% '
        "low.share = c low.residency = d low.max_compute = f"
    )
    assert [p.type for p in resolved(body, mode="share { period = 20ms }").params] == [
        Type.BOOL, Type.TEXT, Type.SHARE, Type.RESIDENCY, Type.UNLIMITED, Type.RATIO,
    ]  # fmt: skip


def test_unlimited_fits_caps_both_ways() -> None:
    body = "param cap = {} low.max_launch_rate = cap"
    for default, given, expected in [("3/s", "unlimited", math.inf), ("unlimited", "3/s", 3.0)]:
        value = resolved(body.format(default), args=f"cap = {given}").body.bindings[0].value
        assert isinstance(value, Const)
        assert (value.value, value.type) == (expected, Type.RATE)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("quit = 5ms", "GP204 'quit' `p` has no param `quit` = did you mean `quiet`?"),
        ("noise = 5ms", "GP204 'noise' `p` has no param `noise` = its params are quiet, half"),
        ("5ms", "GP204 '5ms' arguments of a policy have names = write `quiet = …`"),
        ("quiet = 3", "GP103 '3' `quiet` needs a duration, and `3` has no unit = write for example 3ms or 3s"),
        ("quiet = 3/s", "GP202 '3/s' `quiet` needs a duration, but this is a rate = for example 250ms"),
        ("quiet = 3GB", "GP103 'GB' unknown unit `GB` = sizes are powers of two here: write GiB (1024³ bytes)"),
        ("quiet = half", "GP201 'half' nothing is called `half` here"),
        ("quiet = high.busy", "GP201 'high' nothing is called `high` here"),
        ("quiet = 3ms, quiet = 4ms", "GP303 'quiet = 4ms' `quiet` is given twice = leave one of them out"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_reported_where_they_are_given(args: str, expected: str) -> None:
    (found,) = found_in(BODY, args=args)
    assert found.primary.source.name == "site.gpol"
    assert said(BODY, args=args) == [expected]


def test_a_value_out_of_range_points_at_both_places() -> None:
    (found,) = found_in(BODY.replace("= half", "= quiet"), args="quiet = 1ns")
    assert (found.code, found.primary.source.name, marked(found)) == ("GP206", "t.gpol", "quiet")
    (given,) = found.labels
    assert (given.source.name, given.text) == ("site.gpol", "given here")
    assert given.source.text[given.span.start : given.span.end] == "1ns"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("param x = [1]", "GP202 '[1]' a list cannot stand here = write one value"),
        (
            "param x = user",
            "GP401 'user' `user` is known of one tenant; param `x` is the same for all = put it in a class's "
            "`match`",
        ),
        (
            "param x = gpu.busy",
            "GP401 'gpu.busy' `gpu.busy` changes while the policy runs; param `x` is fixed when it is loaded = "
            "write a constant or a `param`",
        ),
        ("param x = low", "GP202 'low' `low` is a class, not a value = name one of its signals: `low.active`"),
        (
            "param x = ewma(3, half_life = 1s)",
            "GP209 'ewma(3, half_life = 1s)' `ewma` keeps a state from tick to tick; it cannot stand in param "
            "`x` = it can stand in `let` and in bindings of knobs",
        ),
        (
            "let y = 3 param x = y",
            "GP401 'y' `y` changes while the policy runs; param `x` is fixed when it is loaded = write a "
            "constant or a `param`",
        ),
    ],
)  # fmt: skip
def test_params_are_constants(body: str, expected: str) -> None:
    assert said(body) == [expected]


def test_a_wrong_param_silences_what_uses_it() -> None:
    assert said("param x = nothing low.max_inflight = x low.max_compute = x * 30%") == [
        "GP201 'nothing' nothing is called `nothing` here"
    ]
