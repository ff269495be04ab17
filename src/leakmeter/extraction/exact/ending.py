"""How a search ends: what is missing, what is learned in its place from what is left of the budget, what is said."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.exact.asking import Asker, Pieces
from leakmeter.extraction.exact.choice import FEWEST, best_copy
from leakmeter.extraction.exact.fresh import Answers, ask_fresh, ask_undecided
from leakmeter.extraction.exact.output import Known
from leakmeter.extraction.exact.reconstruct import Findings as Search
from leakmeter.extraction.findings import Findings, Trial, class_counts, class_entropy
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive, stream

_VAGUE = 0.1
"""The share of the far points that may say nothing because rounding would have hidden what is missing."""


class Counting(Asker):
    """Knows which classes answered."""

    def __init__(self, oracle: Oracle) -> None:
        super().__init__(oracle)
        self.counts = class_counts(torch.empty(0, dtype=torch.long), oracle.spec.classes)

    def read(self, answer: Answer, x: Tensor) -> Pieces:
        """The contrasts of an answer."""
        self.counts += class_counts(answer.labels, answer.classes)
        return super().read(answer, x)


def kept_back(oracle: Oracle, share: float) -> int:
    """So much of what is left of the budget; nothing where that is too little to learn or judge by."""
    kept = int(share * (oracle.remaining or 0))
    return kept if kept >= FEWEST else 0


def rather(
    asker: Asker, job: AttackJob, copies: dict[str, nn.Module], known: Known | None, shown: Answers | None = None
) -> tuple[nn.Module, tuple[Trial, ...]]:
    """Spends what is left on fresh points; the best of the copies found and of those learned from their answers."""
    draws, seed = stream(job.seed, "exact", "fresh"), derive(job.seed, "exact", "learned")
    job.notes["learned_from"] = len(fresh := ask_fresh(asker, draws))

    def more(student: nn.Module) -> Answers:
        others = ask_undecided(asker, student, len(fresh), draws)
        job.notes["learned_from"] += len(others)
        return others

    with job.progress.task("learning what was not found", None):
        copy, tried = best_copy(copies, known, fresh, asker.contrasts, seed, more, shown)
    job.notes["handed_over"] = next((trial.name for trial in tried if trial.chosen), next(iter(copies)))
    return copy, tried


def findings(asker: Counting, units: int, missing: str | None, tried: tuple[Trial, ...] = ()) -> Findings:
    """What is said of the copy that is handed over."""
    entropy, chosen = class_entropy(asker.counts), next((trial for trial in tried if trial.chosen), None)
    if missing is not None and chosen is not None:
        missing = f"{missing}; handed over is {chosen.name}, which names {chosen.held_out:.1%} of fresh points right"
    return Findings(class_entropy=entropy, complete=missing is None, missing=missing, units=units, tried=tried)


def left_open(found: Search) -> str | None:
    """What a search that did not end by itself leaves open."""
    if found.crowded:
        return "a line bends more often than can be kept track of: the victim is no fully connected ReLU network"
    if found.exhausted:
        return f"the budget ended with {found.network.units} units found; what lies beyond them was not asked"
    if not found.proved:
        return (
            f"{found.network.units} units were found on {found.lines} lines and not proved to be all; raise the budget "
            "or max_lines"
        )
    if found.vague > _VAGUE * found.quiet:
        return f"rounding hides what is left beside the {found.network.units} units found; ask for gradients"
    return None
