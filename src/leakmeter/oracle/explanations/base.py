"""What explanations share: the scores they explain, as functions of the input, and how they are written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.errors import NotApplicable, VictimError, first_line
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Question, Responder


@dataclass(frozen=True, eq=False)
class Scores:
    """The class scores an answer shows: logits under a view of logits, else probabilities (or the single score)."""

    responder: Responder
    question: Question
    logits: bool
    """Whether logits are explained."""
    classes: Tensor | None
    """Which class each shown score belongs to, [n, shown]; None: all of them."""

    @property
    def spec(self) -> VictimSpec:
        """What the victim takes and gives."""
        return self.responder.spec

    @property
    def noise(self) -> torch.Generator:
        """Where everything random comes from."""
        return self.question.noise

    def __call__(self, x: Tensor) -> Tensor:
        """The scores, [n, shown]: one call of the victim a row."""
        scores = self.responder.respond(x, self.question)
        if not self.logits and self.spec.outputs == "logits" and self.spec.classes > 1:
            scores = scores.softmax(1)
        return scores if self.classes is None else scores.gather(1, self.classes.to(scores.device))

    def gradients(self, x: Tensor) -> Tensor:
        """The input gradient of every score, [n, shown, *input_shape]: one gradient computation a row."""
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            scores = self(x)
            try:
                columns = [
                    torch.autograd.grad(scores[:, column].sum(), x, retain_graph=column + 1 < scores.shape[1])[0]
                    for column in range(scores.shape[1])
                ]
            except RuntimeError as error:
                name = self.spec.name
                raise VictimError(f"the victim {name} has no gradient at its input: {first_line(error)}") from error
        return torch.stack(columns, dim=1)


class _Written:
    """A frozen dataclass whose fields are its numbers, in the order of the text that names it."""

    name: ClassVar[str]

    def __str__(self) -> str:
        numbers = ",".join(repr(getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        return f"{self.name}:{numbers}" if numbers else self.name


class Explanation(_Written, ABC):
    """What a server computes for each row besides its answer. Subclasses are frozen dataclasses."""

    column: ClassVar[str] = "gradients"
    """The column of the `Answer` in which it is shown."""
    needs_gradients: ClassVar[bool] = True

    def check(self, spec: VictimSpec, *, differentiable: bool) -> None:
        """Refuses a victim that cannot be explained so."""
        if self.needs_gradients and not differentiable:
            raise NotApplicable(f"the explanation {self} needs a differentiable victim: an nn.Module or a .pt2 file")
        if spec.outputs == "labels":
            raise NotApplicable(f"the explanation {self} needs a victim that returns logits or probs, got labels")

    @abstractmethod
    def work(self, spec: VictimSpec) -> int:
        """Gradient computations, or calls of the victim, that one explained row costs the server."""

    @abstractmethod
    def explain(self, x: Tensor, scores: Scores) -> Tensor:
        """The explanation of each score of each row, [n, shown, ...]."""


class Protection(_Written, ABC):
    """What hides part of an explanation. Subclasses are frozen dataclasses."""

    @abstractmethod
    def protect(self, explanation: Tensor, noise: torch.Generator) -> Tensor:
        """What is shown instead of this explanation, [n, shown, ...]."""
