"""What an expression looks like without its numbers: rules keep their identity while only numbers change."""

from gpud.policies import ast


def shape(expr: ast.Expr) -> str:
    """`high.delay_p99 > #`; texts stay, spaces and comments do not matter."""
    match expr:
        case ast.Quantity():
            return "#"
        case ast.String():
            return f'"{expr.text}"'
        case ast.Bool():
            return "true" if expr.value else "false"
        case ast.Unlimited():
            return "#"
        case ast.Ref():
            return expr.text
        case ast.Call():
            args = (f"{arg.name.text} = {shape(arg.value)}" if arg.name else shape(arg.value) for arg in expr.args)
            return f"{expr.function.text}({', '.join(args)})"
        case ast.Listing():
            return f"[{', '.join(shape(item) for item in expr.items)}]"
        case ast.Not():
            return f"not {_inner(expr.operand)}"
        case ast.Logic():
            return f" {expr.op} ".join(_inner(operand) for operand in expr.operands)
        case ast.Binary():
            return f"{_inner(expr.left)} {expr.op} {_inner(expr.right)}"


def _inner(expr: ast.Expr) -> str:
    text = shape(expr)
    return f"({text})" if isinstance(expr, ast.Logic | ast.Binary) else text
