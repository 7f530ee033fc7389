"""A Module, or any part of it, as PTX text. `parse(module_text(m)) == m`."""

from __future__ import annotations

from collections.abc import Iterator

from gpud.ptx import ast


def module_text(module: ast.Module) -> str:
    """The whole module, ending in a newline."""
    lines = [
        f".version {module.version[0]}.{module.version[1]}",
        f".target {', '.join(module.target)}",
        f".address_size {module.address_size}",
        "",
    ]
    for item in module.items:
        if isinstance(item, ast.Function):
            lines += [*_function(item), ""]
        elif isinstance(item, ast.Variable):
            lines.append(variable_text(item) + ";")
        elif isinstance(item, ast.Alias):
            lines.append(f".alias {item.name}, {item.target};")
        else:
            lines.append(f'.pragma "{item.text}";')
    return "\n".join(lines).rstrip("\n") + "\n"


def statement_text(statement: ast.Statement) -> str:
    """A statement on one line, without what a block holds."""
    if isinstance(statement, ast.Instruction):
        return _instruction(statement)
    if isinstance(statement, ast.Label):
        return f"{statement.name}:"
    if isinstance(statement, ast.BranchTargets):
        return f"{statement.name}: .branchtargets {', '.join(statement.labels)};"
    if isinstance(statement, ast.Pragma):
        return f'.pragma "{statement.text}";'
    if isinstance(statement, ast.Variable):
        return variable_text(statement) + ";"
    return "{ ... }"


def operand_text(operand: ast.Operand) -> str:
    """One operand as it is written in PTX."""
    match operand:
        case ast.Name(text, part):
            return f"{text}.{part}" if part else text
        case ast.Int(value):
            return str(value)
        case ast.Float(image, bits):
            return f"0f{image:08X}" if bits == 32 else f"0d{image:016X}"
        case ast.Offset(base, offset):
            return f"{operand_text(base)}{offset:+d}"
        case ast.Vector(items):
            return "{" + ", ".join(map(operand_text, items)) + "}"
        case ast.Address(base, offset, more):
            inner = operand_text(base) + (f"{offset:+d}" if offset else "")
            return "[" + ", ".join([inner, *map(operand_text, more)]) + "]"
        case ast.Not(inner):
            return "!" + operand_text(inner)
        case ast.Negate(inner):
            return "-" + operand_text(inner)
        case ast.Pair(first, second):
            return f"{operand_text(first)}|{operand_text(second)}"
        case ast.Group(items, "generic"):
            behind = f"{items[1].value:+d}" if len(items) > 1 and isinstance(items[1], ast.Int) else ""
            return f"generic({operand_text(items[0])}){behind}"
        case ast.Group(items):
            return "(" + ", ".join(map(operand_text, items)) + ")"


def variable_text(variable: ast.Variable) -> str:
    """A declaration without its semicolon, so that it serves parameter lists too."""
    words = [f".{word}" for word in (*variable.linkage, variable.space)]
    if variable.attributes:
        words.append(f".attribute({', '.join(variable.attributes)})")
    if variable.pointer is None and variable.align:
        words.append(f".align {variable.align}")
    if variable.vector > 1:
        words.append(f".v{variable.vector}")
    words.append(f".{variable.type}")
    if variable.pointer is not None:
        space, align = variable.pointer
        words += [".ptr", *([f".{space}"] if space else []), *([f".align {align}"] if align else [])]
    name = variable.name + (f"<{variable.count}>" if variable.count else "")
    name += "".join("[]" if side < 0 else f"[{side}]" for side in variable.dims)
    text = " ".join([*words, name])
    return text if variable.initial is None else f"{text} = {operand_text(variable.initial)}"


def _instruction(ins: ast.Instruction) -> str:
    guard = f"@{'!' if ins.guard.negated else ''}{ins.guard.register} " if ins.guard else ""
    name = ".".join((ins.opcode, *ins.modifiers))
    operands = ", ".join(map(operand_text, ins.operands))
    return f"{guard}{name} {operands};" if operands else f"{guard}{name};"


def _function(function: ast.Function) -> Iterator[str]:
    words = [f".{word}" for word in function.linkage]
    words.append(".entry" if function.entry else ".func")
    if function.results:
        words.append(f"({', '.join(map(variable_text, function.results))})")
    words.append(f"{function.name}({', '.join(map(variable_text, function.params))})")
    yield " ".join(words)
    for directive in function.directives:
        yield _directive(directive)
    if function.body is None:
        yield ";"
    else:
        yield from _block(function.body, 0)


def _directive(directive: ast.Directive) -> str:
    values = ", ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in directive.values)
    return f".{directive.name} {values}{';' if directive.name == 'pragma' else ''}".rstrip()


def _block(block: ast.Block, depth: int) -> Iterator[str]:
    indent = "\t" * depth
    yield indent + "{"
    for statement in block.body:
        if isinstance(statement, ast.Block):
            yield from _block(statement, depth + 1)
        elif isinstance(statement, ast.Label):
            yield indent + statement_text(statement)
        else:
            yield f"{indent}\t{statement_text(statement)}"
    yield indent + "}"
