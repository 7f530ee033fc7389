"""The one policy there is so far: online work preempts the rest, one launch at a time. The language will replace it."""

from collections.abc import Mapping

from attrs import frozen

from gpud.model.errors import Refused
from gpud.model.knobs import Knobs
from gpud.model.units import format_duration


@frozen(kw_only=True)
class PreemptMix:
    """Classes by label, `high` holds `low` before every launch, `low` has a window."""

    resume_after_ns: int
    max_inflight: int
    """0 = unlimited."""
    max_pause_ns: int

    name = "preempt-mix"
    order = ("high", "low")

    def classify(self, labels: Mapping[str, str], claimed: str | None) -> str:
        """The class of a new job: the one it claims, else by label, first match. Raises Refused."""
        if claimed is not None:
            if claimed not in self.order:
                known = ", ".join(self.order)
                raise Refused(f"unknown class {claimed!r}; the policy {self.name} has {known}")
            return claimed
        return "high" if labels.get("tier") == "online" else "low"

    def rank(self, job_class: str) -> int:
        """Smaller is higher."""
        return self.order.index(job_class)

    def knobs(self, job_class: str) -> Knobs:
        if job_class == self.order[0]:
            return Knobs(yields=False)
        return Knobs(
            max_inflight=self.max_inflight or None,
            resume_after_ns=self.resume_after_ns,
            max_pause_ns=self.max_pause_ns,
        )

    def parameters(self) -> dict[str, str]:
        """As the flags of `gpud serve` write them."""
        return {
            "resume-after": format_duration(self.resume_after_ns),
            "max-inflight": str(self.max_inflight or "unlimited"),
            "max-pause": format_duration(self.max_pause_ns),
        }
