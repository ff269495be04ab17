"""The attacks `exact` (values and gradients) and `exact-values`, each by the paper's method and by ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from leakmeter.errors import BudgetExhausted, NotApplicable, UsageError
from leakmeter.extraction.base import Attack, AttackJob
from leakmeter.extraction.exact.asking import DOUBLE, SLOPES, Asker
from leakmeter.extraction.exact.choice import LAYERS, ONE_LAYER
from leakmeter.extraction.exact.convolution import convolution
from leakmeter.extraction.exact.copy import hand_over, hand_over_deep, layers_of, signed_copy
from leakmeter.extraction.exact.deep import DeepSearch
from leakmeter.extraction.exact.ending import Counting, findings, kept_back, left_open, rather
from leakmeter.extraction.exact.line import Line
from leakmeter.extraction.exact.near import settle
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.paper import PaperFailure, SearchRange, recover_s, recover_z
from leakmeter.extraction.exact.paper_values import check_step, estimate_gradient, step_size
from leakmeter.extraction.exact.polish import MISFITS, holds, polish
from leakmeter.extraction.exact.proof import hard_points
from leakmeter.extraction.exact.rays import RayLine
from leakmeter.extraction.exact.reconstruct import Findings as Search
from leakmeter.extraction.exact.reconstruct import reconstruct
from leakmeter.extraction.exact.refine import refine
from leakmeter.extraction.exact.scan_line import ScanLine
from leakmeter.extraction.exact.secant import GradientLine
from leakmeter.extraction.exact.sharpen import finish
from leakmeter.extraction.exact.stack import Layer
from leakmeter.extraction.exact.survey import Surveyor, gradient_survey
from leakmeter.extraction.exact.value_survey import value_survey
from leakmeter.extraction.exact.values import ValueLine
from leakmeter.extraction.findings import Findings, Trial
from leakmeter.oracle.explanations.integrated import IntegratedGradients
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.seeds import stream
from leakmeter.victims.spec import VictimSpec

AskGradient = Callable[[Asker, Tensor], Tensor]
"""The gradient at one point, [d] -> [d]."""
_PATIENCE = {"open": 20, "saturating": 200, "box": 500}
"""Almost every unit lies on the way to any far point in open space; less so where probabilities set limits or a box."""

_ONE_LAYER, _DEEP = 0.05, 1 / 3
"""The share of the budget that a search for one layer leaves, and of what is left one for several: few of these end."""

_DEEP_PATIENCE = {"gradients": 200, "values": 1000}
"""Units of deeper layers may switch at few points of the space only; a value costs little beside a cell's gradient."""


class _Reconstruction(Attack):
    """What both attacks share."""

    certified: ClassVar[bool] = True
    single_score: ClassVar[bool] = True
    method: Literal["secant", "paper"] = "secant"
    patience: int | None = Field(default=None, ge=0)
    """Secant: far points in a row that must hold no surprise; None: 20 in open space (200 if only probabilities are
    shown), 500 in a box. 0 takes the first linear piece for the whole model."""
    max_lines: int = Field(default=300, ge=1)
    """Secant: how many lines to search at most."""
    h: int | None = Field(default=None, ge=1)
    """Paper: the number of hidden units, which it must be told."""
    delta: float = Field(default=0.1, gt=0, lt=1)
    """Paper: the probability of failure to plan for."""
    c: float = Field(default=0.5, gt=0, le=1)
    """Paper: rows of A have cosines of at most 1 - c."""

    def check(self, spec: VictimSpec, view: View) -> None:
        """All outputs, as they are; the paper's method needs a single one, and inputs without limits."""
        super().check(spec, view)
        if view.kind not in ("logits", "probs") or view.decimals is not None:
            raise NotApplicable(
                f"exact reconstruction needs unrounded outputs, got the view '{view}'; "
                f"use logits or probs, with +gradient for 'exact'"
            )
        if self.method == "secant":
            return
        if self.h is None:
            raise UsageError("method='paper' must be told the number of hidden units; give h=..., or use 'secant'")
        if view.kind != "logits" or spec.classes != 1 or spec.low is not None or spec.high is not None:
            raise NotApplicable(
                f"method='paper' needs one logit and inputs without limits, got the view '{view}', "
                f"{spec.classes} outputs and {'a box' if spec.width is not None else 'no box'}; use method='secant'"
            )

    def hard_points(self, copy: nn.Module, spec: VictimSpec, n: int, seed: int) -> list[Tensor]:
        """Where a copy that lacks a unit is likely off: near, far, and where the units it has meet."""
        return hard_points(layers_of(copy), spec, n, stream(seed, "exact", "hard"))

    def _secant(
        self, oracle: Oracle, job: AttackJob, line: type[Line], surveyor: Surveyor
    ) -> tuple[nn.Module, Findings]:
        asker = Counting(oracle)
        space = "box" if not asker.unbounded else "open" if oracle.view.kind == "logits" else "saturating"
        patience = _PATIENCE[space] if self.patience is None else self.patience
        asker.reserve = kept_back(oracle, _ONE_LAYER)
        with job.progress.task("reconstructing", None):
            found = reconstruct(
                asker,
                line,
                seed=job.seed,
                patience=patience,
                max_lines=self.max_lines,
                watch=lambda network: _observe(network, asker, oracle, job),
            )
            if found.deep:
                return self._deep(oracle, job, asker, found, surveyor)
            if asker.keeps and polish(asker, found.network) <= MISFITS and found.proved:
                found.vague = 0 if holds(asker, found.network, stream(job.seed, "exact", "polish")) else found.quiet
            if line is ScanLine and not asker.keeps:
                finish(asker, found.network, stream(job.seed, "exact", "finish"))
            if line is ValueLine and patience:
                settle(asker, found.network, stream(job.seed, "exact", "near"))
        job.notes["search"] = {"rounds": found.rounds, "lines": found.lines, "quiet_points": found.quiet}
        first = Layer.of(found.network.normals, -found.network.offsets)
        job.notes["convolution"] = convolution(first, oracle.spec.input_shape)
        copy: nn.Module = hand_over(found.network, asker.contrasts)
        missing = left_open(found)
        tried: tuple[Trial, ...] = ()
        if missing is not None and patience:
            copy, tried = rather(asker, job, {ONE_LAYER: copy}, None)
        copy = copy.to(job.device)
        if job.curve and job.curve[-1].queries == oracle.ledger.spent():
            job.curve.pop()  # a stop at the very end
        job.observe(copy, oracle.ledger.spent())
        return copy, findings(asker, found.network.units, missing, tried)

    def _deep(
        self, oracle: Oracle, job: AttackJob, asker: Counting, found: Search, surveyor: Surveyor
    ) -> tuple[nn.Module, Findings]:
        """Goes on with the layers above, from the lines that showed them."""
        patience = _DEEP_PATIENCE["gradients" if asker.explained else "values"]
        patience = patience if self.patience is None else self.patience
        asker.reserve = kept_back(oracle, _DEEP)
        search = DeepSearch(asker, surveyor, stream(job.seed, "exact", "deep"))
        search.take([way.survey() for way in found.ways if isinstance(way, GradientLine)])
        known = search.run(patience, self.max_lines)
        known = known if asker.explained else refine(search, known, patience, self.max_lines)
        progress = search.progress
        layers = [] if known is None else [layer.units for layer in known.stack.layers]
        searched = {"rounds": asker.rounds, "lines": progress.lines, "quiet_points": progress.quiet}
        job.notes.update(search=searched, layers=layers)
        if layers and known is not None:
            job.notes["convolution"] = convolution(known.stack.layers[0], oracle.spec.input_shape)
        copies: dict[str, nn.Module] = {ONE_LAYER: hand_over(found.network, asker.contrasts)}
        if known is not None:
            layered: dict[str, nn.Module] = {LAYERS: hand_over_deep(known, asker.contrasts)}
            closer = not progress.done and search.closer(found.network, known)
            copies = copies | layered if closer else layered | copies
        copy, missing = next(iter(copies.values())), search.missing()
        tried: tuple[Trial, ...] = ()
        if missing is not None:
            copy, tried = rather(asker, job, copies, search.in_part(), search.shown())
        job.observe(copy.to(job.device), oracle.ledger.spent())
        return copy, findings(asker, sum(layers), missing, tried)

    def _search(self, delta: float) -> SearchRange:
        assert self.h is not None  # `check` has seen to it
        return SearchRange(self.h, delta, self.c)

    def _paper(
        self, oracle: Oracle, job: AttackJob, search: SearchRange, gradient: AskGradient, same: float
    ) -> tuple[nn.Module, Findings]:
        asker, generator = Counting(oracle), stream(job.seed, "exact", "paper")
        try:
            Z = recover_z(lambda x: gradient(asker, x), oracle.spec.features, search, generator, same)
            s = recover_s(lambda x: _values(asker, x), Z, generator)
        except BudgetExhausted as error:
            raise PaperFailure(f"the budget ended before the paper's algorithm did: {error}") from error
        return signed_copy(Z, s).to(job.device), findings(asker, search.h, missing=None)


class Exact(_Reconstruction):
    """Recovers a network of fully connected ReLU layers, any number of any width, from values and gradients."""

    reads_explanations: ClassVar[bool] = True

    def check(self, spec: VictimSpec, view: View) -> None:
        """Beside all outputs, their gradients."""
        integrated = _integrated(view)
        if not integrated and view.explained not in SLOPES:
            wanted = f"+{' or +'.join(SLOPES)}, or logits+integrated"
            raise NotApplicable(f"'exact' needs a view with {wanted}, got '{view}'; or use 'exact-values'")
        if integrated and self.method == "paper":
            raise NotApplicable(f"method='paper' needs a view with +gradient, got '{view}'; use method='secant'")
        super().check(spec, view)

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """The copy, and whether anything was left to explain."""
        if _integrated(oracle.view):
            return self._secant(oracle, job, RayLine, value_survey)
        if self.method == "secant":
            return self._secant(oracle, job, GradientLine, gradient_survey)
        return self._paper(oracle, job, self._search(self.delta), _gradient, same=_eps(oracle) ** 0.6)


class ExactValues(_Reconstruction):
    """Recovers a network of fully connected ReLU layers from values alone."""

    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """The copy, and whether anything was left to explain."""
        if self.method == "secant":
            line = ValueLine if _eps(oracle) < DOUBLE else ScanLine
            return self._secant(oracle, job, line, value_survey)
        # Theorem 4 leaves half of delta to the search and half to the estimates
        search = self._search(self.delta / 2)
        step = step_size(search, self.delta)
        same = check_step(step, search.reach, _eps(oracle))

        def gradient(asker: Asker, x: Tensor) -> Tensor:
            return estimate_gradient(lambda points: _values(asker, points), x, step)

        return self._paper(oracle, job, search, gradient, same)


def _integrated(view: View) -> bool:
    """Of logits: integrals of probabilities are no sums of their pieces."""
    return view.kind == "logits" and isinstance(view.explanation, IntegratedGradients) and not view.protections


def _gradient(asker: Asker, x: Tensor) -> Tensor:
    gradients = asker.ask(x[None]).gradients
    assert gradients is not None
    return gradients.flatten()


def _values(asker: Asker, x: Tensor) -> Tensor:
    return asker.ask(x).values[:, 0]


def _eps(oracle: Oracle) -> float:
    return float(torch.finfo(oracle.spec.dtype).eps)


def _observe(network: OneHidden, asker: Asker, oracle: Oracle, job: AttackJob) -> None:
    """Puts a point on the curve once each stop is passed: the copy may be there long before the search is sure."""
    spent, seen = oracle.ledger.spent(), job.curve[-1].queries if job.curve else 0
    if any(seen < stop <= spent for stop in job.stops):
        job.observe(hand_over(network, asker.contrasts).to(job.device), spent)
