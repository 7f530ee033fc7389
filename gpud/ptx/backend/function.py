"""One C function from one PTX function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpud.ptx import ast
from gpud.ptx.backend import atomics, bits, compare, control, convert, flow, integer, memory, refused
from gpud.ptx.backend.emitter import RESTORE, SAVE, Code, Emitter
from gpud.ptx.backend.flatten import Body, Flattener, Mark, Step
from gpud.ptx.backend.recompute import PURE, Recomputed
from gpud.ptx.backend.scope import Entity, Register, Storage
from gpud.ptx.backend.table import TABLE
from gpud.ptx.backend.types import PRED, SCALARS
from gpud.ptx.errors import PtxError
from gpud.ptx.printer import statement_text

_FAMILIES = (atomics, bits, compare, control, convert, integer, memory)  # imported for the handlers they enter


@dataclass(eq=False, slots=True)
class Compiled:
    """A C function's text and what goes with it. `state` is its state struct, "" where it never waits."""

    text: str
    state: str = ""
    uses: set[str] = field(default_factory=set)
    local_bytes: int = 0
    registers: int = 0


class Builder:
    """Settings for one C function: its name, how names resolve and how calls are written."""

    def __init__(
        self,
        function: ast.Function,
        cname: str,
        *,
        outer: Callable[[str], Entity | None],
        shared: Callable[[ast.Variable], Storage],
        inlined: Callable[[str], bool],
        call: Callable[[Emitter, ast.Instruction], None],
        suspends: bool,
    ) -> None:
        self.function = function
        self.cname = cname
        self.suspends = suspends
        self.flattener = Flattener(outer, shared, inlined, self._storage)
        self.emitter = Emitter(suspends=suspends, call=call)
        self.scope = self.flattener.scope()
        self.recomputed = Recomputed([])
        self.prologue: list[str] = []
        self.epilogue: list[str] = []

    def _storage(self, cname: str) -> str:
        return f"(uint64_t)(uintptr_t){'s->' if self.suspends else ''}{cname}"

    def kernel(self, offsets: list[int]) -> Compiled:
        """The function that runs one thread of a kernel; `offsets` are those of its parameters."""
        for param, offset in zip(self.function.params, offsets, strict=True):
            if param.space != "param":
                raise PtxError("a kernel's parameters are .param", line=param.line, instruction=statement_text(param))
            address = f"(uint64_t)(uintptr_t)(b->params + {offset})"
            scalar = SCALARS.get(param.type, PRED)
            self.scope.names[param.name] = Storage("param", address, 0, 0, scalar, constant=True)
        if self.suspends:
            head = f"static int {self.cname}(const struct gp_block *b, struct gp_thread *t)"
        else:
            head = f"static inline int {self.cname}(const struct gp_block *b, const struct gp_thread *t)"
        return self._finish(head, "GP_EXIT")

    def device(self) -> Compiled:
        """The C function of a device function: results, then parameters, all by address."""
        head = signature(self.function, self.cname)
        for index, param in enumerate(self.function.params):
            self._formal(param, f"p{index}", load=True)
        for index, result in enumerate(self.function.results):
            self._formal(result, f"r{index}", load=False)
        return self._finish(head, "GP_DONE")

    def _formal(self, variable: ast.Variable, pointer: str, *, load: bool) -> None:
        if variable.space == "reg":
            self.scope.declare_register(variable)
            register = self.scope.find(variable.name)
            assert isinstance(register, Register)
            self.emitter.registers[register] = None
            place = f"*({'const ' if load else ''}{register.image.c} *){pointer}"
            if load:
                self.prologue.append(f"{register.cname} = {place};")
            else:
                self.epilogue.append(f"{place} = {register.cname};")
            return
        scalar = SCALARS.get(variable.type, PRED)
        self.scope.names[variable.name] = Storage("param", f"(uint64_t)(uintptr_t){pointer}", 0, 0, scalar)

    def _finish(self, head: str, ending: str) -> Compiled:
        assert self.function.body is not None
        body = self.flattener.run(self.function.body, self.scope)
        codes = [self._code(step) for step in body.steps]
        for code in codes:
            code.jumps = [name for name in code.jumps if name]
        state, saved = self._state(codes, body) if self.suspends else ("", {})
        lines = [head, "{", *self._declarations(body), *self.prologue]
        for number in range(1, self.emitter.resume_points + 1):
            lines.append(f"if (t->resume == {number}) goto resume_{number};" if self.emitter.resume_points == 1 else "")
        if self.emitter.resume_points > 1:
            cases = " ".join(f"case {n}: goto resume_{n};" for n in range(1, self.emitter.resume_points + 1))
            lines.append(f"switch (t->resume) {{ {cases} }}")
        for code in codes:
            lines += self._lines(code, saved)
        lines += ["leave: __attribute__((unused));", *self.epilogue, f"return {ending};", "}"]
        text = "\n".join(line for line in lines if line)
        pressure = flow.pressure(codes) if self.function.entry else 0
        return Compiled(text, state, self.emitter.uses, body.locals_bytes, pressure)

    def _declarations(self, body: Body) -> list[str]:
        e = self.emitter
        lines = []
        if self.suspends:
            lines.append(f"struct {self.cname}_state *const s = (struct {self.cname}_state *)t; (void)s;")
        else:
            for storage in body.storage:
                size = max(storage.bytes, 1)
                lines.append(f"_Alignas({storage.align}) uint8_t {storage.name}[{size}];")
        if "shared" in e.uses:
            lines.append("const uint64_t shared = (uint64_t)(uintptr_t)b->shared; (void)shared;")
        if "globals" in e.uses:
            lines.append("void *const *const globals = b->launch->globals;")
        if "carry" in e.uses:
            lines.append("uint32_t carry = 0;")
        lines += [f"const {_width(name)} {name} = {value};" for name, value in sorted(e.specials.items())]
        groups: dict[str, list[str]] = {}
        for register in e.registers:
            groups.setdefault(register.image.c, []).append(f"{register.cname} = 0")
        lines += [f"{ctype} {', '.join(names)};" for ctype, names in groups.items()]
        return lines

    def _code(self, step: Step | Mark) -> Code:
        e = self.emitter
        e.code = code = Code()
        if isinstance(step, Mark):
            code.label = step.cname
            code.lines.append(f"{step.cname}: ;")
            return code
        ins = step.instruction
        e.scope, e.end = step.scope, step.end
        handler = TABLE.get(ins.opcode)
        try:
            if handler is None:
                message, remedy = refused.reason(ins.opcode)
                raise PtxError(message, remedy=remedy)
            condition = ""
            code.pure = ins.opcode in PURE and "cc" not in ins.modifiers
            if ins.guard is not None:
                code.guarded = True
                name = e.read(ast.Name(ins.guard.register), PRED)
                condition = f"if ({'!' if ins.guard.negated else ''}{name}) {{"
            handler(e, ins)
        except PtxError as error:
            raise error.at(line=ins.line, instruction=statement_text(ins)) from None
        if condition:
            code.lines = [condition, *code.lines, "}"]
            code.falls_through = True
        return code

    def _state(self, codes: list[Code], body: Body) -> tuple[str, dict[int, list[Register]]]:
        """The struct of a waiting thread, and for each resume point the registers it keeps."""
        saved: dict[int, list[Register]] = {}
        self.recomputed = Recomputed(codes)
        fields: dict[str, str] = {}
        order = {register: index for index, register in enumerate(self.emitter.registers)}
        for code, live in zip(codes, flow.live_after(codes), strict=True):
            if code.suspend:
                keep = sorted(live if code.guarded else live - code.writes, key=order.__getitem__)
                saved[code.suspend] = keep
                fields.update({item.cname: item.image.c for item in keep if item not in self.recomputed})
        lines = [f"struct {self.cname}_state {{", "struct gp_thread t;"]
        lines += [f"_Alignas({item.align}) uint8_t {item.name}[{max(item.bytes, 1)}];" for item in body.storage]
        for ctype in sorted(set(fields.values()), key=_size, reverse=True):
            lines += [f"{ctype} {name};" for name, kind in fields.items() if kind == ctype]
        return "\n".join([*lines, "};"]), saved

    def _lines(self, code: Code, saved: dict[int, list[Register]]) -> list[str]:
        if not code.suspend:
            return code.lines
        live = saved[code.suspend]
        keep = [register.cname for register in live if register not in self.recomputed]
        lines = []
        for line in code.lines:
            if line == SAVE:
                lines += [f"s->{name} = {name};" for name in keep]
            elif line == RESTORE:
                lines += [f"{name} = s->{name};" for name in keep]
                lines += self.recomputed.lines(register for register in live if register in self.recomputed)
            else:
                lines.append(line)
        return lines


def signature(function: ast.Function, cname: str) -> str:
    """The head of a device function's C function."""
    results = [f"uint8_t *r{index}" for index in range(len(function.results))]
    params = [f"const uint8_t *p{index}" for index in range(len(function.params))]
    formals = ", ".join(["const struct gp_block *b", "const struct gp_thread *t", *results, *params])
    return f"static int {cname}({formals})"


def _width(name: str) -> str:
    return "uint64_t" if name in ("gridid", "current_graph_exec") else "uint32_t"


def _size(ctype: str) -> int:
    return {"double": 8, "uint64_t": 8, "float": 4, "uint32_t": 4, "uint16_t": 2, "uint8_t": 1}.get(ctype, 16)
