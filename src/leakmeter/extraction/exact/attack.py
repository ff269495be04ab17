"""The attacks `exact` (values and gradients) and `exact-values`, each by the paper's method and by ours."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from leakmeter.errors import BudgetExhausted, UsageError
from leakmeter.extraction.base import Attack, Job
from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.certificate import certify_copy
from leakmeter.extraction.exact.copy import hand_over, hand_over_deep, signed_copy
from leakmeter.extraction.exact.deep import DeepSearch
from leakmeter.extraction.exact.line import Line
from leakmeter.extraction.exact.paper import Gradient, PaperFailure, SearchRange, recover_s, recover_z
from leakmeter.extraction.exact.paper_values import check_step, estimate_gradient, step_size
from leakmeter.extraction.exact.reconstruct import Findings, reconstruct
from leakmeter.extraction.exact.secant import GradientLine
from leakmeter.extraction.exact.survey import Surveyor, gradient_survey
from leakmeter.extraction.exact.value_survey import value_survey
from leakmeter.extraction.exact.values import ValueLine
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream

_PATIENCE = {"open": 20, "saturating": 200, "box": 500}
"""Almost every unit lies on the way to any far point in open space; less so where probabilities set limits or a box."""


_DEEP_PATIENCE = 200
"""Units of deeper layers may switch at few points of the space only."""
_DEEP_LINES = 24


class _Reconstruction(Attack):
    """What both attacks share."""

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

    def _secant(self, oracle: Oracle, job: Job, line: type[Line], surveyor: Surveyor) -> nn.Module:
        asker = Asker(oracle)
        space = "box" if not asker.unbounded else "open" if oracle.view.kind == "logits" else "saturating"
        patience = _PATIENCE[space] if self.patience is None else self.patience
        with job.progress.task("reconstructing", None):
            found = reconstruct(asker, line, seed=job.seed, patience=patience, max_lines=self.max_lines)
            if found.deep:
                return self._deep(oracle, job, asker, found, surveyor)
        copy = hand_over(found.network, asker.contrasts)
        job.notes["search"] = {"rounds": found.rounds, "lines": found.lines, "quiet_points": found.quiet}
        return _certified(copy, oracle, job, (found.network.units,), _missing(found, patience))

    def _deep(self, oracle: Oracle, job: Job, asker: Asker, found: Findings, surveyor: Surveyor) -> nn.Module:
        """Goes on with the layers above, from the lines that showed them."""
        patience = _DEEP_PATIENCE if self.patience is None else self.patience
        search = DeepSearch(asker, surveyor, stream(job.seed, "exact", "deep"))
        search.take([way.survey() for way in found.ways if isinstance(way, GradientLine)])
        known = search.run(patience, min(self.max_lines, _DEEP_LINES))
        progress = search.progress
        layers = () if known is None else tuple(layer.units for layer in known.stack.layers)
        job.notes["search"] = {"rounds": asker.rounds, "lines": progress.lines, "quiet_points": progress.quiet}
        if known is None:
            copy: nn.Module = hand_over(found.network, asker.contrasts)
        else:
            copy = hand_over_deep(known, asker.contrasts)
        return _certified(copy, oracle, job, layers, search.missing())

    def _paper(self, oracle: Oracle, job: Job, search: SearchRange, gradient: Gradient, same: float) -> nn.Module:
        generator = stream(job.seed, "exact", "paper")
        try:
            Z = recover_z(gradient, oracle.spec.features, search, generator, same)
            s = recover_s(lambda x: _values(oracle, x), Z, generator)
        except BudgetExhausted as error:
            raise PaperFailure(f"the budget ended before the paper's algorithm did: {error}") from error
        return _certified(signed_copy(Z, s), oracle, job, (search.h,), None)

    def _check_paper(self, oracle: Oracle) -> int:
        """The number of hidden units, if the paper's assumptions can hold."""
        spec = oracle.spec
        if self.h is None:
            raise UsageError("method='paper' must be told the number of hidden units; give h=..., or use 'secant'")
        if oracle.view.kind != "logits" or spec.classes != 1 or spec.low is not None or spec.high is not None:
            raise UsageError(
                f"method='paper' needs one logit and inputs without limits, got the view '{oracle.view}', "
                f"{spec.classes} outputs and {'a box' if spec.width is not None else 'no box'}; use method='secant'"
            )
        return self.h


class Exact(_Reconstruction):
    """Recovers a network of fully connected ReLU layers, any number of any width, from values and gradients."""

    def run(self, oracle: Oracle, job: Job) -> nn.Module:
        """The copy, with its certificate in the job's notes."""
        if oracle.view.explanation != "gradient":
            raise UsageError(f"'exact' needs a view with +gradient, got '{oracle.view}'; or use 'exact-values'")
        if self.method == "secant":
            return self._secant(oracle, job, GradientLine, gradient_survey)

        def gradient(x: Tensor) -> Tensor:
            return oracle.query(_shaped(oracle, x[None])).gradients.double().flatten()

        search = SearchRange(self._check_paper(oracle), self.delta, self.c)
        return self._paper(oracle, job, search, gradient, same=_eps(oracle) ** 0.6)


class ExactValues(_Reconstruction):
    """Recovers a network of fully connected ReLU layers from values alone."""

    def run(self, oracle: Oracle, job: Job) -> nn.Module:
        """The copy, with its certificate in the job's notes."""
        if self.method == "secant":
            return self._secant(oracle, job, ValueLine, value_survey)
        # Theorem 4 leaves half of delta to the search and half to the estimates
        search = SearchRange(self._check_paper(oracle), self.delta / 2, self.c)
        step = step_size(search, self.delta)
        same = check_step(step, search.reach, _eps(oracle))

        def gradient(x: Tensor) -> Tensor:
            return estimate_gradient(lambda points: _values(oracle, points), x, step)

        return self._paper(oracle, job, search, gradient, same)


def _certified(copy: nn.Module, oracle: Oracle, job: Job, layers: tuple[int, ...], missing: str | None) -> nn.Module:
    certificate = certify_copy(copy, oracle, layers=layers, missing=missing, seed=job.seed)
    job.notes["certificate"] = certificate.model_dump()
    return copy.to(job.device)


def _missing(found: Findings, patience: int) -> str | None:
    """What a search that did not end by itself leaves open."""
    if found.crowded:
        return "a line bends more often than can be kept track of: the victim is no fully connected ReLU network"
    if found.exhausted:
        return f"the budget ended with {found.network.units} units found; what lies beyond them was not asked"
    if found.quiet < patience:
        return f"points still held surprises after {found.lines} lines; raise max_lines"
    return None


def _shaped(oracle: Oracle, x: Tensor) -> Tensor:
    return x.reshape(-1, *oracle.spec.input_shape).to(oracle.spec.dtype)


def _values(oracle: Oracle, x: Tensor) -> Tensor:
    return oracle.query(_shaped(oracle, x)).logits[:, 0].double()


def _eps(oracle: Oracle) -> float:
    return float(torch.finfo(oracle.spec.dtype).eps)
