"""The certified accuracy of an audited model, as one curve of its report."""

from __future__ import annotations

from leakmeter.certificates.smoothing import certify
from leakmeter.data.dataset import Dataset
from leakmeter.errors import UsageError
from leakmeter.evaluation.intervals import Interval, exact
from leakmeter.plan import CertifyPlan
from leakmeter.progress import SILENT, Progress
from leakmeter.results import Certified
from leakmeter.runs.run import Run
from leakmeter.victims.victim import Victim

_POINTS = 20


def certified(
    plan: CertifyPlan, victim: Victim, test: Dataset | None, run: Run, progress: Progress = SILENT
) -> Certified:
    """Certifies some test inputs of the owner's model; the votes stay in the run, so a killed audit goes on."""
    if test is None:
        raise UsageError("certifying needs labelled test data; give [data], or leave [certify] out of the plan")
    x, y = (column[: plan.limit] for column in test.labelled())
    found = certify(
        victim.white_box,
        x,
        sigma=plan.sigma,
        n=plan.n,
        alpha=plan.alpha,
        bound=plan.bound,
        path=run.path / "votes",
        progress=progress,
    )
    most = float(found.radii.max())
    radii = [most * k / _POINTS for k in range(_POINTS + 1)]
    held = [int(found.holds(y, radius).sum()) for radius in radii]
    return Certified(
        label=f"sigma {plan.sigma:g}, {plan.bound} bound",
        n=len(y),
        alpha=plan.alpha,
        points=[(radius, k / len(y)) for radius, k in zip(radii, held, strict=True)],
        intervals=[certified_interval(k, len(y), plan.alpha) for k in held],
    )


def certified_interval(k: int, n: int, alpha: float) -> Interval:
    """The share of all inputs that would be certified, where `k` of `n` were.

    A certificate is wrong with probability at most alpha, so that at least (share - alpha) / (1 - alpha) of all inputs
    really are as robust as it says: the lower end is that.
    """
    found = exact(k, n)
    low = max(0.0, (found.low - alpha) / (1 - alpha))
    return found.model_copy(update={"low": low, "method": f"{found.method}, less alpha below"})
