"""What explanations share: the scores they explain, as functions of the input, and how they are written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.errors import NotApplicable, VictimError, first_line
from leakmeter.victims.spec import VictimSpec, to_labels
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
    graph: bool = False
    """Whether what is computed can be differentiated by the weights: a thief's own explanation of its student."""

    @property
    def spec(self) -> VictimSpec:
        """What the victim takes and gives."""
        return self.responder.spec

    @property
    def noise(self) -> torch.Generator:
        """Where everything random comes from."""
        return self.question.noise

    def __call__(self, x: Tensor) -> Tensor:
        """The scores, [n, shown]: one call of the victim a row; several inputs a row: n by n, [several * n, shown]."""
        with torch.set_grad_enabled(self.graph or x.requires_grad):
            return self._shown(self.responder.respond(x.clone(), self.question))

    def labels(self, x: Tensor) -> Tensor:
        """The class of each row, [n]: one call of the victim a row."""
        with torch.no_grad():
            outputs = self.responder.respond(x.clone(), self.question)
        return (outputs.long() if self.spec.outputs == "labels" else to_labels(outputs)).to(x.device)

    def _shown(self, scores: Tensor) -> Tensor:
        if not self.logits and self.spec.outputs == "logits" and self.spec.classes > 1:
            scores = scores.softmax(1)
        return scores if self.classes is None else scores.gather(1, as_often(self.classes, scores))

    @property
    def batch(self) -> int:
        """The most inputs to ask at once."""
        return self.responder.batch

    def gradients(self, x: Tensor) -> Tensor:
        """The input gradient of every score, [n, shown, *input_shape]: one gradient computation a row."""
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            scores = self(x)
            try:
                last = scores.shape[1] - 1
                columns = [
                    torch.autograd.grad(
                        scores[:, column].sum(), x, retain_graph=self.graph or column < last, create_graph=self.graph
                    )[0]
                    for column in range(last + 1)
                ]
            except RuntimeError as error:
                name = self.spec.name
                raise VictimError(f"the victim {name} has no gradient at its input: {first_line(error)}") from error
        return torch.stack(columns, dim=1)


def as_often(of_rows: Tensor, scores: Tensor) -> Tensor:
    """What belongs to each row, [n, shown], repeated for the scores of several inputs a row."""
    return of_rows.to(scores.device).repeat(len(scores) // len(of_rows), 1)


class _Written:
    """A frozen dataclass whose fields are its numbers, in the order of the text that names it; None: left out."""

    name: ClassVar[str]

    def __str__(self) -> str:
        given = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        numbers = ",".join(repr(number) for number in given if number is not None)
        return f"{self.name}:{numbers}" if numbers else self.name


class Explanation(_Written, ABC):
    """What a server computes for each row besides its answer. Subclasses are frozen dataclasses."""

    column: ClassVar[str] = "gradients"
    """The column of the `Answer` in which it is shown."""
    needs_gradients: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    """Whether the explanation of a weighted sum of scores is the weighted sum of theirs."""
    sampled: ClassVar[bool] = False
    """Whether a thief's own explanation of its student is a mean over random draws, few of which are off by chance."""
    softmax_known: ClassVar[bool] = False
    """Whether that of all logits, with the logits, tells that of the probabilities."""
    tells: ClassVar[tuple[str, ...]] = ()
    """Other explanations that follow from this one and the input."""
    a_map: ClassVar[bool] = True
    """Whether it says how much each feature mattered; else it is of another kind, such as an input."""

    def check(self, victim: Responder) -> None:
        """Refuses a victim that cannot be explained so."""
        if self.needs_gradients and not victim.differentiable:
            raise NotApplicable(f"the explanation {self} needs a differentiable victim: an nn.Module or a .pt2 file")
        if self.needs_gradients and victim.remote:
            raise NotApplicable(f"the explanation {self} needs gradients, which a remote victim does not give")
        if victim.spec.outputs == "labels":
            raise NotApplicable(f"the explanation {self} needs a victim that returns logits or probs, got labels")

    @abstractmethod
    def work(self, victim: Responder) -> int:
        """Gradient computations, or calls of the victim, that one explained row costs the server."""

    @abstractmethod
    def explain(self, x: Tensor, scores: Scores) -> Tensor:
        """The explanation of each score of each row, [n, shown, ...]."""

    def beside(self, shown: Tensor, scores: Scores) -> dict[str, Tensor]:  # noqa: ARG002
        """Other columns that are shown with it."""
        return {}

    def fewer(self, spec: VictimSpec) -> Explanation:  # noqa: ARG002
        """The same from no more samples than it takes, for a thief, who explains its student a thousand times."""
        return self

    def soft(self, x: Tensor, scores: Scores) -> Tensor:
        """What a thief compares with its student's: the explanation before anything that has no derivative."""
        return self.explain(x, scores)

    def mismatch(self, soft: Tensor, shown: Tensor, power: Tensor) -> Tensor:
        """How far `soft`, the student's, is from one that would be shown so; squares count against `power`.

        One number without a unit: 0 where nothing contradicts, about 1 where nothing is known.
        """
        return share(soft - shown, power)


class Protection(_Written, ABC):
    """What hides part of an explanation. Subclasses are frozen dataclasses."""

    hides: ClassVar[bool] = False
    """Whether a zero may stand for something that is not shown."""
    maps_only: ClassVar[bool] = True
    """Whether it makes no sense of an explanation that is an input."""
    linear: ClassVar[bool] = False
    """Whether it leaves the mean of a weighted sum of explanations what it was."""

    def check(self, explanation: Explanation, spec: VictimSpec) -> None:  # noqa: ARG002
        """Refuses an explanation that cannot be protected so."""
        if self.maps_only and not explanation.a_map:
            raise NotApplicable(f"the protection {self} hides a part of a map, and {explanation} shows no map")

    def at_least(self, other: Protection) -> bool:  # noqa: ARG002
        """Whether what this one leaves is all that `other` leaves, and more."""
        return False

    @abstractmethod
    def protect(self, explanation: Tensor, noise: torch.Generator) -> Tensor:
        """What is shown instead of this explanation, [n, shown, ...]."""

    def mismatch(self, soft: Tensor, shown: Tensor, power: Tensor) -> Tensor:
        """As that of an explanation: how far an unprotected one is from one that would be shown so."""
        return share(soft - shown, power)


def share(wrong: Tensor, power: Tensor) -> Tensor:
    """The mean over rows of the squares of what is wrong, each against its power."""
    return (wrong.square() / power).flatten(1).sum(1).mean()
