"""A change of policies as a trace of its own: `policy.reload` over its steps. Pure."""

from collections.abc import Callable

from gpud.engine.reload_steps import Steps
from gpud.telemetry.span import Put, SpanRecord, Value

LONGEST_TEXT = 400


def tell(put: Put, steps: Steps, *, offset: int, bits: Callable[[int], int]) -> None:
    """`offset`: Unix time less the monotonic clock. A rejected one carries where its first error is."""
    trace_id, root = f"{bits(128) or 1:032x}", f"{bits(64) or 1:016x}"
    about: dict[str, Value] = {
        "gpud.policy.how": steps.how,
        "gpud.policy.digest": steps.digest,
        "gpud.policy.result": "rejected" if steps.rejected else "loaded",
    }
    place: dict[str, Value] = {}
    if steps.where is not None:
        place = {
            "code.file.path": steps.where.file,
            "code.line.number": steps.where.line,
            "code.column.number": steps.where.column,
            "gpud.policy.code": steps.where.code,
            "gpud.policy.errors": steps.errors,
        }
    for step in steps.done:
        put(
            SpanRecord(
                name=step.name,
                trace_id=trace_id,
                span_id=f"{bits(64) or 1:016x}",
                parent_id=root,
                start_ns=step.began_ns + offset,
                end_ns=step.ended_ns + offset,
                attributes=place if step.error else {},
                error=step.error[:LONGEST_TEXT],
            )
        )
    put(
        SpanRecord(
            name="policy.reload",
            trace_id=trace_id,
            span_id=root,
            parent_id="",
            start_ns=steps.done[0].began_ns + offset,
            end_ns=steps.done[-1].ended_ns + offset,
            attributes={**about, **place},
            error=steps.rejected[:LONGEST_TEXT],
        )
    )
