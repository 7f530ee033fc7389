"""Nodes of the trees: frozen, equal but for spans, with a representation that says what they are."""

import pytest
from attrs.exceptions import FrozenInstanceError

from gpud.policies import ast, ir
from gpud.policies.source import Span
from gpud.policies.types import Type


def test_equality_ignores_where_syntax_stands() -> None:
    here, there = ast.Name("low", Span(0, 3)), ast.Name("low", Span(7, 10))
    assert here == there
    assert hash(here) == hash(there)
    assert here != ast.Name("high", Span(0, 3))
    assert ast.Name("low") != ast.String("low"), "of another class"
    assert here != "low"


def test_equality_of_what_is_resolved_does_not() -> None:
    assert ir.Const(1, Type.NUMBER, Span(0, 1)) == ir.Const(1, Type.NUMBER, Span(0, 1))
    assert ir.Const(1, Type.NUMBER, Span(0, 1)) != ir.Const(1, Type.NUMBER, Span(1, 2))


def test_a_node_is_shown_without_its_place() -> None:
    assert repr(ast.Ref((ast.Name("low", Span(0, 3)),), Span(0, 3))) == "Ref(parts=(Name(text='low'),))"


def test_a_node_cannot_be_changed_but_copied_with_changes() -> None:
    node = ir.Const(1, Type.NUMBER, Span(0, 1))
    with pytest.raises(FrozenInstanceError):
        node.value = 2
    assert node.but(value=2) == ir.Const(2, Type.NUMBER, Span(0, 1))
    assert node.value == 1
    with pytest.raises(TypeError, match="valu"):
        node.but(valu=2)
