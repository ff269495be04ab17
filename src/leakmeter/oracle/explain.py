"""Explanations a server can attach to an answer: input gradients, plain or averaged over noise (SmoothGrad)."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.errors import VictimError, first_line
from leakmeter.oracle.answer import present
from leakmeter.oracle.view import View
from leakmeter.victims.victim import Responder


def explain(view: View, responder: Responder, x: Tensor, columns: dict[str, Tensor], noise: torch.Generator) -> Tensor:
    """The gradient of every class output shown, [n, shown, *input_shape]; SmoothGrad averages `samples` of them."""
    classes = _shown(view, columns) if responder.spec.classes > 1 else None
    if view.explanation == "gradient":
        return _gradients(view, responder, x, classes, noise)
    width = responder.spec.width
    scale = view.sigma * (torch.ones(()) if width is None else width).to(x)
    total = torch.zeros(())
    for _ in range(view.samples):
        shift = torch.randn(x.shape, generator=noise, dtype=x.dtype).to(x.device) * scale
        total = total.to(x) + _gradients(view, responder, x + shift, classes, noise)
    return total / view.samples


def work(view: View) -> int:
    """How many gradient computations one explained row costs the server."""
    return view.samples if view.explanation == "smoothgrad" else 1


def _shown(view: View, columns: dict[str, Tensor]) -> Tensor | None:
    """Which class each shown output belongs to, [n, shown]; None: all of them."""
    if view.kind == "top":
        return columns["top"]
    return columns["labels"][:, None] if view.kind == "labels" else None


def _gradients(view: View, responder: Responder, x: Tensor, classes: Tensor | None, noise: torch.Generator) -> Tensor:
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        outputs = _scores(view, responder.respond(x, noise), responder.spec.outputs)
        picked = outputs if classes is None else outputs.gather(1, classes.to(outputs.device))
        try:
            rows = [
                torch.autograd.grad(picked[:, column].sum(), x, retain_graph=column + 1 < picked.shape[1])[0]
                for column in range(picked.shape[1])
            ]
        except RuntimeError as error:
            name = responder.spec.name
            raise VictimError(f"the victim {name} has no gradient at its input: {first_line(error)}") from error
    return torch.stack(rows, dim=1)


def _scores(view: View, outputs: Tensor, kind: str) -> Tensor:
    """What is differentiated: the logits under a logits view, else the probabilities (or the single score)."""
    if view.kind == "logits" or kind == "probs" or outputs.shape[1] == 1:
        return outputs
    return present(View("probs"), outputs, kind)["probs"]
