"""A whole PTX module as one C file, with the description that the simulated driver reads."""

from __future__ import annotations

from pathlib import Path

from gpud.ptx import ast
from gpud.ptx.backend.analysis import CallGraph
from gpud.ptx.backend.calls import write_call
from gpud.ptx.backend.emitter import Emitter
from gpud.ptx.backend.function import Builder, Compiled, signature
from gpud.ptx.backend.layout import initial_bytes, place, scalar_of, size_and_align
from gpud.ptx.backend.scope import Callee, Entity, Storage
from gpud.ptx.errors import PtxError
from gpud.ptx.printer import statement_text

_PRELUDE = Path(__file__).parent / "prelude"
_ORDER = (
    *("contract", "base", "integer", "floating", "rounding", "clock"),
    *("half", "atomics", "halfatom", "team", "warp", "system"),
)
_ALWAYS = {"contract", "base", "integer", "floating"}


class ModuleCompiler:
    """Compiles one module; `text()` is the C file."""

    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self.graph = CallGraph(module)
        self.globals = _globals(module)
        self.numbers = {variable.name: index for index, variable in enumerate(self.globals)}
        self.externs = {
            item.name
            for item in module.items
            if isinstance(item, ast.Variable) and item.space in ("global", "const") and item.name not in self.numbers
        }
        self.uses: set[str] = set()
        self.device: dict[str, str] = {}
        self.parts: list[str] = []
        self.kernels: list[str] = []

    def text(self) -> str:
        """The C file. Raises PtxError for what cannot be compiled."""
        names: set[str] = set()
        for item in self.module.items:
            if isinstance(item, ast.Function) and item.entry and item.body is not None:
                if item.name in names:
                    raise PtxError(f"the kernel {item.name} is defined twice", line=item.line)
                names.add(item.name)
                self.kernels.append(KernelCompiler(self, item, len(self.kernels)).compile())
        pieces = [(_PRELUDE / f"{name}.h").read_text() for name in _ORDER if name in _ALWAYS | self.uses]
        return "\n".join([*pieces, *self.parts, self._description(), ""])

    def _description(self) -> str:
        lines = []
        rows = []
        for index, variable in enumerate(self.globals):
            size, align = size_and_align(variable)
            image = initial_bytes(variable)
            start = "NULL"
            if image is not None:
                start = f"initial_{index}"
                lines.append(f"static const uint8_t {start}[] = {{{','.join(map(str, image))}}};")
            rows.append(f'{{"{variable.name}", {size}, {align}, {int(variable.space == "const")}, {start}}}')
        if rows:
            lines.append(f"static const struct gpud_global_desc all_globals[] = {{{', '.join(rows)}}};")
        if self.kernels:
            lines.append("static const struct gpud_kernel_desc all_kernels[] = {\n" + ",\n".join(self.kernels) + "\n};")
        major, minor = self.module.version
        target = "".join(ch for ch in self.module.target[0] if ch.isdigit()) or "0"
        kernels, variables = ("all_kernels" if self.kernels else "NULL"), ("all_globals" if rows else "NULL")
        numbers = f"{len(self.kernels)}, {len(rows)}, {major * 10 + minor}, {target}, 0"
        lines.append(
            '__attribute__((visibility("default"))) const struct gpud_module_desc gpud_module = '
            f"{{GPUD_KERNEL_ABI, {numbers}, {kernels}, {variables}}};"
        )
        return "\n".join(lines)


class KernelCompiler:
    """One kernel with the device functions it needs; shared memory is laid out for each kernel on its own."""

    def __init__(self, parent: ModuleCompiler, function: ast.Function, number: int) -> None:
        self.parent = parent
        self.graph = parent.graph
        self.function = function
        self.name = f"k{number}"
        self.device: dict[str, str] = {}
        self.shared: dict[int, tuple[str, ast.Variable]] = {}
        self.parts: list[str] = []
        self.module_scope: dict[str, Entity] = {}

    def compile(self) -> str:
        """Adds the kernel's C functions to the module; the answer is its row in the table of kernels."""
        kernel = self.function
        suspends = self.graph.suspends(kernel.name)
        offsets, param_bytes = place([size_and_align(param) for param in kernel.params])
        compiled = self._builder(kernel, f"{self.name}_thread", suspends).kernel(offsets)
        self._note(compiled)
        static_bytes, whole = self._shared_layout()
        for size, limit, what in (
            (static_bytes, 48 << 10, "static shared memory"),
            (compiled.local_bytes, 512 << 10, "local memory a thread"),
            (param_bytes, 32764, "parameters"),
        ):
            if size > limit:
                raise PtxError(f"{kernel.name} has {size} bytes of {what}; the most is {limit}", line=kernel.line)
        self.parent.parts += [*self.parts, compiled.state, compiled.text, self._run(suspends, whole, compiled)]
        params = ""
        if kernel.params:
            sizes = [size_and_align(param)[0] for param in kernel.params]
            rows = ", ".join(f"{{{offset}, {size}}}" for offset, size in zip(offsets, sizes, strict=True))
            params = f"{self.name}_params"
            self.parent.parts.append(f"static const struct gpud_param_desc {params}[] = {{{rows}}};")
        registers = min(255, max(16, compiled.registers + 8))
        return (
            f'{{"{kernel.name}", {self.name}_run, {len(kernel.params)}, {param_bytes}, {params or "NULL"}, '
            f"{static_bytes}, {compiled.local_bytes}, {_max_threads(kernel)}, {registers}}}"
        )

    def _builder(self, function: ast.Function, cname: str, suspends: bool) -> Builder:
        return Builder(
            function,
            cname,
            outer=self._outer,
            shared=self._shared,
            inlined=self.graph.suspends,
            call=self._call,
            suspends=suspends,
        )

    def _note(self, compiled: Compiled) -> None:
        self.parent.uses |= compiled.uses

    def _run(self, suspends: bool, whole: int, compiled: Compiled) -> str:
        formals = "const struct gpud_launch *launch, const void *params, uint64_t first, uint64_t count"
        head = f"static int {self.name}_run({formals})\n{{\nreturn"
        if not suspends:
            return f"{head} gp_run_plain(launch, params, first, count, {whole}, {self.name}_thread);\n}}"
        warps = int("warp" in compiled.uses)
        self.parent.uses |= {"team", "warp"}
        stride = f"sizeof(struct {self.name}_thread_state)"
        rest = f"{whole}, {stride}, {warps}, {self.name}_thread"
        return f"{head} gp_run_teams(launch, params, first, count, {rest});\n}}"

    # names

    def _outer(self, name: str) -> Entity | None:
        found = self.module_scope.get(name)
        if found is None:
            found = self._resolve(name)
            if found is not None:
                self.module_scope[name] = found
        return found

    def _resolve(self, name: str) -> Entity | None:
        parent = self.parent
        if name in self.graph.functions:
            return Callee(self.graph.functions[name])
        if name in self.graph.shared:
            return self._shared(self.graph.shared[name])
        if name in parent.numbers:
            variable = parent.globals[parent.numbers[name]]
            address = f"(uint64_t)(uintptr_t)b->launch->globals[{parent.numbers[name]}]"
            return Storage(variable.space, address, *size_and_align(variable), scalar_of(variable))
        if name in parent.externs:
            raise PtxError(f"{name} is declared .extern and defined nowhere", remedy="link the module that defines it")
        return None

    def _shared(self, variable: ast.Variable) -> Storage:
        """The offset of a shared variable is a C constant, whose value is known when the kernel is complete."""
        cname, _ = self.shared.setdefault(id(variable), (f"{self.name}_s{len(self.shared)}", variable))
        return Storage("shared", f"(uint64_t){cname}", *size_and_align(variable), scalar_of(variable))

    def _shared_layout(self) -> tuple[int, int]:
        """Places the shared variables; the answer is the bytes of the fixed ones, and where the open ones start."""
        fixed = [(c, v) for c, v in self.shared.values() if not _is_dynamic(v)]
        dynamic = [(c, v) for c, v in self.shared.values() if _is_dynamic(v)]
        offsets, static_bytes = place([size_and_align(v) for _, v in fixed])
        align = max([16, *(size_and_align(v)[1] for _, v in dynamic)])
        whole = -(-static_bytes // align) * align if static_bytes else 0
        values = [f"{c} = {offset}" for (c, _), offset in zip(fixed, offsets, strict=True)]
        values += [f"{c} = {whole}" for c, _ in dynamic]
        if values:
            self.parts.insert(0, f"enum {{ {', '.join(values)} }};")
        return static_bytes, whole

    # calls

    def _call(self, e: Emitter, ins: ast.Instruction) -> None:
        write_call(e, ins, self._device)

    def _device(self, function: ast.Function) -> str:
        """The C function of a device function, compiled once; kernels share those without shared memory."""
        own = self.graph.shares(function.name)
        table = self.device if own else self.parent.device
        cname = table.get(function.name)
        if cname is not None:
            return cname
        cname = f"{self.name}_f{len(table)}" if own else f"f{len(table)}"
        table[function.name] = cname
        parts = self.parts if own else self.parent.parts
        compiled = self._builder(function, cname, suspends=False).device()
        self._note(compiled)
        parts.append(signature(function, cname) + ";")
        parts.append(compiled.text)
        return cname


def _globals(module: ast.Module) -> list[ast.Variable]:
    found: dict[str, ast.Variable] = {}
    for item in module.items:
        if isinstance(item, ast.Variable) and item.space in ("global", "const") and "extern" not in item.linkage:
            if item.name in found and "weak" not in item.linkage and "common" not in item.linkage:
                raise PtxError(f"{item.name} is defined twice", line=item.line, instruction=statement_text(item)[:80])
            found.setdefault(item.name, item)
    return list(found.values())


def _is_dynamic(variable: ast.Variable) -> bool:
    return "extern" in variable.linkage or -1 in variable.dims


def _max_threads(function: ast.Function) -> int:
    for directive in function.directives:
        if directive.name in ("maxntid", "reqntid"):
            product = 1
            for value in directive.values:
                product *= int(value)
            return product
    return 1024
