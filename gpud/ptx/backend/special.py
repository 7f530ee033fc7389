"""Special registers: what each is in terms of the block, the thread and the launch."""

from __future__ import annotations

from typing import NamedTuple

from gpud.ptx import ast


class Special(NamedTuple):
    """`expression` is C over `b` (gp_block) and `t` (gp_thread); `changes` if it differs from read to read."""

    cname: str
    expression: str
    bits: int = 32
    changes: bool = False
    needs: tuple[str, ...] = ()


def _table() -> dict[str, Special]:
    found: dict[str, Special] = {}
    for axis, part in enumerate("xyz"):
        for name, expression in (
            ("tid", f"t->tid[{axis}]"),
            ("ntid", f"b->launch->block[{axis}]"),
            ("ctaid", f"b->ctaid[{axis}]"),
            ("nctaid", f"b->launch->grid[{axis}]"),
            ("clusterid", f"b->ctaid[{axis}]"),
            ("nclusterid", f"b->launch->grid[{axis}]"),
            ("cluster_ctaid", "0u"),
            ("cluster_nctaid", "1u"),
        ):
            found[f"%{name}.{part}"] = Special(f"{name}_{part}", expression)
    for name, expression in (
        ("laneid", "t->index % 32u"),
        ("warpid", "t->index / 32u"),
        ("nwarpid", "(b->threads + 31u) / 32u"),
        ("smid", "(uint32_t)(b->index % (b->launch->sm_count ? b->launch->sm_count : 1u))"),
        ("nsmid", "b->launch->sm_count"),
        ("dynamic_smem_size", "b->launch->dynamic_shared_bytes"),
        ("total_smem_size", "(uint32_t)b->shared_bytes"),
        ("aggr_smem_size", "(uint32_t)b->shared_bytes"),
        ("reserved_smem_offset_begin", "0u"),
        ("reserved_smem_offset_end", "0u"),
        ("reserved_smem_offset_cap", "0u"),
        ("cluster_ctarank", "0u"),
        ("cluster_nctarank", "1u"),
        ("is_explicit_cluster", "0u"),
        ("lanemask_eq", "1u << (t->index % 32u)"),
        ("lanemask_lt", "(1u << (t->index % 32u)) - 1u"),
        ("lanemask_le", "(2u << (t->index % 32u)) - 1u"),
        ("lanemask_gt", "~((2u << (t->index % 32u)) - 1u)"),
        ("lanemask_ge", "~((1u << (t->index % 32u)) - 1u)"),
    ):
        found[f"%{name}"] = Special(name, expression)
    found["%gridid"] = Special("gridid", "UINT64_C(1)", 64)
    found["%clock"] = Special("clock", "(uint32_t)gp_clock()", 32, True, ("clock",))
    found["%clock_hi"] = Special("clock_hi", "(uint32_t)(gp_clock() >> 32)", 32, True, ("clock",))
    found["%clock64"] = Special("clock64", "gp_clock()", 64, True, ("clock",))
    found["%globaltimer"] = Special("globaltimer", "gp_clock()", 64, True, ("clock",))
    found["%globaltimer_lo"] = Special("globaltimer_lo", "(uint32_t)gp_clock()", 32, True, ("clock",))
    found["%globaltimer_hi"] = Special("globaltimer_hi", "(uint32_t)(gp_clock() >> 32)", 32, True, ("clock",))
    return found


_SPECIALS = _table()
_KNOWN = {key.partition(".")[0] for key in _SPECIALS} | {"%pm", "%envreg", "%current_graph_exec"}


def find(name: ast.Name) -> Special | None:
    """The special register of that name, or None."""
    key = f"{name.text}.{name.part}" if name.part else name.text
    if name.text.startswith("%envreg") and name.text[7:].isdigit():
        return Special(name.text[1:], "0u")
    if name.text == "%current_graph_exec":
        return Special("current_graph_exec", "UINT64_C(0)", 64)
    return _SPECIALS.get(key)


def looks_special(text: str) -> bool:
    return text.rstrip("0123456789") in _KNOWN or text in _KNOWN
