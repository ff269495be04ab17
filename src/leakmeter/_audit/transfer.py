"""What the copy of a cell lets a thief do to the victim."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from leakmeter.errors import UsageError
from leakmeter.evaluation.score import Reference
from leakmeter.evaluation.transfer import Transfer, measure_transfer
from leakmeter.extraction.base import Extraction, make_student
from leakmeter.files import write_atomic
from leakmeter.oracle.oracle import Oracle
from leakmeter.plan import TransferPlan
from leakmeter.progress import SILENT, Progress
from leakmeter.report.sheet import adversarial_png
from leakmeter.seeds import derive
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Victim

_SEED = 0  # of the attack's random start; what varies over seeds is the copy


def try_copy(
    plan: TransferPlan,
    copy: Extraction,
    oracle: Oracle,
    victim: Victim,
    truth: Reference,
    folder: Path,
    progress: Progress = SILENT,
) -> Transfer:
    """Makes adversarial examples on the copy, measures them on the victim, and draws some of them."""
    if truth.y is None:
        raise UsageError("transfer needs labelled test data; give labels or leave [transfer] out of the plan")
    x, y = truth.x[: plan.limit], truth.y[: plan.limit]
    untrained = None
    if copy.student is not None:
        untrained = make_student(copy.student, oracle.spec, derive(_SEED, "untrained"))
    thief = measure_transfer(
        plan.attack,
        copy.substitute,
        oracle,
        x,
        y,
        untrained=untrained,
        white_box=_white_box(victim),
        seed=_SEED,
        progress=progress,
        norm=plan.norm,
        eps=plan.eps or _tenth(oracle.spec),
    )
    if x.dim() == 4:
        write_atomic(folder / "adversarial.png", adversarial_png(x[thief.rows], thief.evasion, oracle.spec))
    return thief.transfer


def _white_box(victim: Victim) -> nn.Module | None:
    try:
        return victim.white_box
    except UsageError:
        return None


def _tenth(spec: VictimSpec) -> float:
    if spec.width is None:
        raise UsageError("transfer on inputs without bounds needs a distance; set eps in [transfer]")
    return float(spec.width.min()) / 10
