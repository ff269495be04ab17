"""How well logits come back from probabilities (DFME appendix B and section 6.3), on trained victims.

White box by design: the owner compares what an attacker would recover with the true logits.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from leakmeter.data.catalogue import load
from leakmeter.evaluation.score import predict
from leakmeter.extraction.targets import FLOOR, answered_logits
from leakmeter.oracle.answer import Answer, present
from leakmeter.oracle.view import View
from leakmeter.studies.copies import network_of
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group, of_median

VICTIMS = (("mnist", "lenet"), ("fashion-mnist", "lenet"), ("cifar10", "small-conv"))
VIEWS = ("probs", "probs:6", "probs:3", "top:3")
NEGLIGIBLE = 0.05


def main(settings: StudyOptions) -> dict[str, Any]:
    """Mean of the true logits and error of the recovered ones, as shares of the logits' own size."""
    record = settings.record("dfme-logits", claim="the mean of the true logits is negligible (section 6.3)")
    for dataset, model in VICTIMS[: 1 if settings.quick else None]:
        for number in settings.numbers:
            record.cell(f"{dataset}/{model}/seed{number}", partial(_measure, settings, dataset, model, number))
    return record.write()


def rows(found: dict[str, Any]) -> list[Row]:
    """The mean of the logits as a share of their size, network by network."""
    return [mean_row(name, cells) for name, cells in by_group(found["cells"]).items()]


def mean_row(name: str, cells: list[dict[str, Any]]) -> Row:
    """That share of one network; the claim holds where it is under a twentieth."""
    shares = [cell["abs_mean_over_size"] for cell in cells]
    what, budget = f"{name}: mean of the logits beside their size", f"size {cells[0]['mean_abs_logit']:.3g}"
    return of_median(what, shares, budget, paper="negligible", met=max(shares) < NEGLIGIBLE)


def _measure(settings: StudyOptions, dataset: str, model: str, seed: int) -> dict[str, Any]:
    x, _ = load(dataset, "test", settings.data_dir).labelled()
    return recovery(predict(network_of(settings, dataset, model, seed), x))


def recovery(logits: Tensor) -> dict[str, Any]:
    """How large the mean of a row of logits is beside them, and how far off what probabilities give back is."""
    size, mean = logits.abs().mean(), logits.mean(1)
    facts = {
        "mean_abs_logit": size.item(),
        "mean_of_logits": mean.mean().item(),
        "abs_mean_of_logits": mean.abs().mean().item(),
        "abs_mean_over_size": (mean.abs().mean() / size).item(),
        "underflowed": (logits.softmax(1) < FLOOR).float().mean().item(),
    }
    return facts | {"recovery": {view: _errors(logits, view) for view in VIEWS}}


def _errors(logits: Tensor, text: str) -> dict[str, float]:
    view = View.parse(text)
    recovered = answered_logits(Answer(view, logits.shape[1], present(view, logits, "logits")))
    centred = logits - logits.mean(1, keepdim=True)
    size = logits.abs().mean()
    return {
        "error_over_size": ((recovered - logits).abs().mean() / size).item(),
        "error_of_centred_over_size": ((recovered - centred).abs().mean() / size).item(),
        "largest_error_of_centred": (recovered - centred).abs().max().item(),
    }
