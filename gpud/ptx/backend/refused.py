"""Instructions that are out of scope, with the reason: each gives an error that names it."""

from __future__ import annotations

_TENSOR = "tensor-core instructions are out of scope of the simulated GPU"
_TEXTURE = "textures and surfaces are out of scope of the simulated GPU"
_BULK = "asynchronous copies are out of scope of the simulated GPU"
_CLUSTER = "thread block clusters are out of scope of the simulated GPU"
_VIDEO = "video instructions are not supported"
_ALLOCA = "memory from alloca is not supported"

_GROUPS: tuple[tuple[str, str, str], ...] = (
    (
        "mma wmma ldmatrix stmatrix movmatrix wgmma tcgen05",
        _TENSOR,
        "run this program on a real GPU, or use a kernel without tensor cores",
    ),
    ("tex tld4 txq suld sust sured suq istypep", _TEXTURE, "read the data through plain global memory"),
    ("cp mbarrier tensormap multimem", _BULK, "compile for sm_75, or copy with plain loads and stores"),
    ("mapa getctarank clusterlaunchcontrol", _CLUSTER, "launch without clusters"),
    ("vadd vsub vabsdiff vmin vmax vset vmad vshl vshr", _VIDEO, "write it with plain arithmetic"),
    ("vadd2 vsub2 vabsdiff2 vmin2 vmax2 vset2 vavrg2", _VIDEO, "write it with plain arithmetic"),
    ("vadd4 vsub4 vabsdiff4 vmin4 vmax4 vset4 vavrg4", _VIDEO, "write it with plain arithmetic"),
    ("alloca stacksave stackrestore", _ALLOCA, "use an array of fixed size"),
)
_REASONS = {name: (message, remedy) for names, message, remedy in _GROUPS for name in names.split()}


def reason(opcode: str) -> tuple[str, str]:
    """(message, remedy) for an instruction that has no handler."""
    unknown = (f"the instruction {opcode} is not supported", "report it, or write the kernel without it")
    return _REASONS.get(opcode, unknown)
