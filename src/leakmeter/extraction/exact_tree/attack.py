"""The attack `exact-tree`: a decision tree, or a small ensemble of trees, split by split."""

from __future__ import annotations

import random
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import nn

from leakmeter.data.columns import Columns
from leakmeter.errors import BudgetExhausted, NotApplicable
from leakmeter.extraction.base import Attack, AttackJob
from leakmeter.extraction.exact_tree.asking import Asker
from leakmeter.extraction.exact_tree.axes import Axes
from leakmeter.extraction.exact_tree.copy import write_parts
from leakmeter.extraction.exact_tree.paper import find_paths, write_boxes
from leakmeter.extraction.exact_tree.regions import Parting
from leakmeter.extraction.findings import Findings, class_counts, class_entropy
from leakmeter.extraction.students import STUDENTS, Lesson
from leakmeter.extraction.students.reading import readings
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.seeds import derive
from leakmeter.victims.spec import VictimSpec

_SECONDS = 3.0  # for the student of a search that did not end


class ExactTree(Attack):
    """Recovers a piecewise constant model on a table: every threshold, and the answer in every part."""

    certified: ClassVar[bool] = True

    method: Literal["parts", "paper"] = "parts"
    """`parts`: ours; `paper`: path finding (Tramèr et al. 2016), which takes leaves to have different answers."""
    checks: int = Field(default=3, ge=0)
    """parts: further looks at a part whose opposite corners agree and are sure of a class, as many leaves may be."""
    patience: int = Field(default=100, ge=0)
    """parts: fresh points in a row that must hold no surprise, before the search ends."""
    proof: int = Field(default=2000, ge=0)
    """parts: fresh points in a row without a surprise from which the copy is called complete, if the budget allows."""

    def check(self, spec: VictimSpec, view: View) -> None:
        """Refuses pictures, open boxes and views that show no answer twice alike."""
        super().check(spec, view)
        if len(spec.input_shape) != 1 or spec.low is None or spec.high is None:
            raise NotApplicable(
                "'exact-tree' needs a table with a range for every column; give low and high or [columns]"
            )
        if view.kind == "top":
            raise NotApplicable(f"'exact-tree' needs labels, probabilities or logits, got the view '{view}'")

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """The copy; thresholds are in the job's notes."""
        axes = Axes(columns_of(oracle.spec))
        asker = Asker(oracle, axes)
        draws = random.Random(derive(job.seed, "exact-tree"))
        with job.progress.task("parting the box", None):
            copy, notes = (self._parts if self.method == "parts" else self._paper)(axes, asker, draws, oracle.view.kind)
        if not notes.pop("settled") and STUDENTS["boosted"].suits(oracle.spec):
            copy = _learned(axes, asker, job)
        if notes["complete"] and any(column.missing for column in axes.columns):
            notes |= {"complete": False, "missing": "rows with missing values were not asked"}
        job.show_queries(axes.rows(list(asker.known), torch.float32))
        findings = Findings(
            class_entropy=class_entropy(class_counts(asker.labels, oracle.spec.classes)),
            student="trees",
            complete=notes.pop("complete"),
            missing=notes.pop("missing"),
            units=notes.pop("units"),
        )
        job.notes["exact-tree"] = notes
        return copy.to(job.device), findings

    def _parts(self, axes: Axes, asker: Asker, draws: random.Random, kind: str) -> tuple[nn.Module, dict[str, Any]]:
        search = Parting(axes, asker, draws, self.checks * (2 if kind == "labels" else 1))
        search.grow(self.patience, self.proof)
        _require_answers(asker)
        leaves = list(search.root.leaves())
        settled = all(leaf.answer is not None for leaf in leaves)
        settled &= search.exhaustive or search.quiet >= min(self.patience, self.proof)
        complete = settled and (search.exhaustive or search.quiet >= self.proof)
        notes = {
            "settled": settled,
            "complete": complete,
            "missing": None if complete else _missing(asker, leaves, search, self.proof),
            "units": len(leaves),
            "answers": len(asker.values),
            "every_point_asked": search.exhaustive,
            "quiet_points": search.quiet,
            "queries_before_checks": search.before_checks,
            "queries_before_proof": search.before_proof,
            "thresholds": _named(axes, search.thresholds.found),
        }
        return write_parts(search.root, axes, asker, kind), notes

    def _paper(self, axes: Axes, asker: Asker, draws: random.Random, kind: str) -> tuple[nn.Module, dict[str, Any]]:
        start = Parting(axes, asker, draws, 0)
        leaves = find_paths(axes, asker, start._draw(start.root, corner=False))
        _require_answers(asker)
        complete = not asker.exhausted
        missing = None if complete else f"the budget ended with {len(leaves)} leaves found"
        notes = {"settled": complete, "complete": complete, "missing": missing, "units": len(leaves)}
        return write_boxes(leaves, axes, asker, kind), notes


def _learned(axes: Axes, asker: Asker, job: AttackJob) -> nn.Module:
    """A student of what was asked: where the parts do not settle, it knows more than they do."""
    x, answer = axes.rows(list(asker.known), torch.float32), Answer.join(asker.answers)
    spec, reading = asker.oracle.spec, readings(answer.view, answer.classes)[0]
    seed = derive(job.seed, "exact-tree", "student")
    return STUDENTS["boosted"].fit(Lesson(x, answer, reading, "none", spec, job, seed, "exact-tree", _SECONDS))


def columns_of(spec: VictimSpec) -> Columns:
    """The columns the victim declares, else numbers in its box."""
    declared = getattr(spec, "columns", None)
    if isinstance(declared, Columns):
        return declared
    assert spec.low is not None
    assert spec.high is not None
    return Columns.plain(spec.low, spec.high, spec.features)


def _require_answers(asker: Asker) -> None:
    if not asker.known:
        raise BudgetExhausted(1, 0)


def _missing(asker: Asker, leaves: list[Any], search: Parting, proof: int) -> str:
    if search.hopeless:
        return (
            f"{len(asker.values):,} of {len(asker.known):,} answers are different: the model adds up too many trees to "
            "be taken apart"
        )
    waiting = sum(leaf.answer is None for leaf in leaves)
    if asker.exhausted and waiting:
        return f"the budget ended with {len(leaves):,} parts found, {waiting:,} of them not settled"
    ended = "the budget ended when " if asker.exhausted else ""
    return f"{ended}only {search.quiet:,} points in a row held no surprise; it takes {proof:,} to call a copy complete"


def _named(axes: Axes, found: dict[int, list[tuple[float, float]]]) -> dict[str, list[str]]:
    """Every threshold in the owner's words."""
    return {
        axes[number].name: [axes.columns.above(axes[number].places[0], axes[number].cut(*pair)) for pair in pairs]
        for number, pairs in sorted(found.items())
    }
