"""DFME's Hypothesis 1: as the student converges, the gradient of the KL loss fades beside that of the ℓ1 loss.

A student is distilled from the victim on its own data; on the way, both input gradients are measured on test images.
White box by design: no attack has these gradients.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leakmeter.data.catalogue import load
from leakmeter.evaluation.score import predict
from leakmeter.extraction.dfme import kl_rows, l1_rows
from leakmeter.extraction.targets import l1_loss
from leakmeter.models import make_model
from leakmeter.seeds import derive
from leakmeter.studies.copies import network_of
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, of_median
from leakmeter.training.loop import Batch, Recipe, fit

STEPS = (0, 10, 30, 100, 300, 1000, 3000)
_IMAGES = 500


def main(settings: StudyOptions) -> dict[str, Any]:
    """Both gradient norms against the steps of the student, and their plot."""
    record = settings.record("dfme-gradients", victim="lenet on mnist", student="lenet")
    steps = STEPS[:4] if settings.quick else STEPS
    cells = [record.cell(f"seed{number}", partial(_measure, settings, number, steps)) for number in settings.numbers]
    _plot(cells, settings.out / "dfme-gradients.png")
    return record.write()


def rows(found: dict[str, Any]) -> list[Row]:
    """By how much the ratio of both gradients falls while the student learns."""
    first, last = ([_ratio(cell[place]) for cell in found["cells"].values()] for place in (0, -1))
    steps = next(iter(found["cells"].values()))[-1]["steps"]
    falls = [after / before for before, after in zip(first, last, strict=True)]
    what, budget = "KL over ℓ1 gradient, after over before", f"{steps:,} steps"
    return [of_median(what, falls, budget, paper="falls", met=max(falls) < 1)]


def _ratio(point: dict[str, float]) -> float:
    return point["gradient_kl"] / point["gradient_l1"]


def _measure(settings: StudyOptions, seed: int, steps: tuple[int, ...]) -> list[dict[str, float]]:
    victim = network_of(settings, "mnist", "lenet", seed).to(settings.device)
    x, _ = load("mnist", "train", settings.data_dir).labelled()
    images = load("mnist", "test", settings.data_dir).labelled()[0][:_IMAGES].to(settings.device)
    target = predict(victim, x)
    rows = []
    for count in steps:
        student = make_model("lenet", (1, 28, 28), 10, seed=derive(seed, "student")).to(settings.device)
        if count:
            recipe = Recipe(steps=count, batch=200, lr=2e-3, schedule="cyclic")
            fit(student, (x, target), _loss, recipe, seed=seed, progress=settings.progress, title=f"{count} steps")
        rows.append({"steps": count, **gradient_norms(victim, student.eval(), images)})
    return rows


def gradient_norms(victim: nn.Module, student: nn.Module, images: Tensor) -> dict[str, float]:
    """Mean norms of the input gradients of both losses, of the loss itself, and how far apart the two models are."""
    x = images.clone().requires_grad_()
    v, s = victim(x), student(x)
    centred = v - v.mean(1, keepdim=True)
    losses = {"kl": kl_rows(s, v), "l1": l1_rows(s, centred)}
    norms = {name: torch.autograd.grad(loss.sum(), x, retain_graph=True)[0] for name, loss in losses.items()}
    facts = {f"gradient_{name}": norm.flatten(1).norm(dim=1).mean().item() for name, norm in norms.items()}
    facts |= {name: loss.mean().item() for name, loss in losses.items()}
    facts["agreement"] = (v.argmax(1) == s.argmax(1)).float().mean().item()
    return facts


def softmax_jacobian(probs: Tensor) -> Tensor:
    """∂S/∂s of a softmax output S, [n, K, K]: diag(S) - S Sᵀ (lemma 1)."""
    return torch.diag_embed(probs) - probs[:, :, None] * probs[:, None, :]


def _loss(model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
    x, target = batch
    return l1_loss(model(x), target - target.mean(1, keepdim=True))


def _plot(cells: list[list[dict[str, float]]], place: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for name, label in (("gradient_l1", "ℓ1 on logits"), ("gradient_kl", "KL")):
        for cell in cells:
            steps = [max(row["steps"], 1) for row in cell]
            axes.loglog(steps, [row[name] for row in cell], "o-", color="C0" if "l1" in name else "C1")
        axes.plot([], [], "o-", color="C0" if "l1" in name else "C1", label=label)
    axes.set_xlabel("training steps of the student")
    axes.set_ylabel("mean norm of the input gradient")
    axes.legend()
    place.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(place, dpi=120)
