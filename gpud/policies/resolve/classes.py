"""Classes: who is in, what they share together, what each tenant may have."""

from gpud.policies import ast
from gpud.policies.ir import Any_, Const, IrBlock, IrClass, IrExpr
from gpud.policies.resolve.blocks import mode_of, read_block, read_settings, unknown_block
from gpud.policies.resolve.expressions import resolve
from gpud.policies.resolve.findings import alternatives
from gpud.policies.resolve.reading import PolicyScope
from gpud.policies.resolve.scope import MATCH
from gpud.policies.resolve.wants import Want
from gpud.policies.schema import CLASS_SETTINGS, KNOBS, UNLIMITED
from gpud.policies.types import Type

_WANT_MATCH = Want("`match`", Type.BOOL, help='for example label("tier") == "online", or any')


def read_class(job_class: ast.Class, scope: PolicyScope, mode: str | None) -> IrClass:
    """`mode`: the policy's arbiter, "" for none, None for one that is not right: nothing is said about effects then."""
    written = [member for member in job_class.members if isinstance(member, ast.Setting)]
    settings = read_settings(written, CLASS_SETTINGS, f"class {job_class.name.text}", scope, "class")
    for setting in written:
        _effect(setting, scope, mode)
    limit: IrBlock | None = None
    for member in job_class.members:
        if not isinstance(member, ast.Block):
            continue
        if member.kind.text != "limit":
            unknown_block(member, True, scope.findings)
        elif limit is not None:
            scope.findings.add(
                "GP305", member.kind.span, "a class has one `limit` at most", "again",
                also=((limit.span, "first here"),), helps=("put all limits into one block",),
            )  # fmt: skip
        elif mode_of(member, scope.findings) is not None:
            limit = read_block(member, "", scope)
            _check_limit(member, limit, scope)
    per = settings.pop("per", None)
    return IrClass(
        job_class.name.text,
        _match(job_class.match, scope.at(MATCH)),
        per.value if per is not None else "class",
        settings,
        limit,
        job_class.span,
        job_class.name.span,
    )


def _check_limit(block: ast.Block, limit: IrBlock, scope: PolicyScope) -> None:
    """`over_memory` where no memory can be over a limit."""
    over, memory = limit.settings.get("over_memory"), limit.settings.get("memory")
    written = any(setting.name.text == "memory" for setting in block.settings)
    if over is not None and (not written or (memory is not None and memory.value == UNLIMITED)):
        scope.findings.add(
            "GP403", over.span, "`over_memory` has no effect: this `limit` does not limit `memory`",
            helps=("set `memory`, or leave it out",),
        )  # fmt: skip


def _match(expr: ast.Expr, scope: PolicyScope) -> IrExpr:
    if isinstance(expr, ast.Ref) and expr.text == "any":
        return Any_(expr.span)
    found = resolve(expr, scope, _WANT_MATCH)
    return found if found is not None else Const(None, Type.BOOL, expr.span)


def _effect(setting: ast.Setting, scope: PolicyScope, mode: str | None) -> None:
    """Reports a setting that has no effect under the arbiter."""
    name = setting.name
    if mode is None or name.text not in ("share", "rise_after"):
        return
    if name.text == "share" and not mode:
        report_share(scope, name)
        return
    modes = sorted(KNOBS["share"].modes) if name.text == "share" else ["preempt"]
    if mode not in modes:
        under = f"under `arbitrate {mode}`" if mode else "in a policy without `arbitrate`"
        acts = alternatives((f"arbitrate {word}" for word in modes), "and")
        scope.findings.add("GP403", name.span, f"`{name.text}` has no effect {under}", helps=(f"it acts under {acts}",))


def report_share(scope: PolicyScope, name: ast.Name | ast.Ref) -> None:
    """`share` in a policy that does not arbitrate."""
    scope.findings.add(
        "GP306", name.span, "`share` may only be set by the policy that arbitrates",
        helps=("this policy has no `arbitrate` block, so it can only tighten limits",),
    )  # fmt: skip
