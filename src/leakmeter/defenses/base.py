"""What defenses share. A defense is its numbers and a change of probabilities; `around` puts it before a victim."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.defenses.recovery import recovered
from leakmeter.errors import NotApplicable
from leakmeter.oracle.answer import Answer, to_labels
from leakmeter.oracle.view import View
from leakmeter.victims.spec import Outputs
from leakmeter.victims.victim import Question, Responder


@dataclass(frozen=True)
class Defense:
    """One defense; its fields are its numbers, in the order of the text that names it."""

    name: ClassVar[str]
    outputs: ClassVar[Outputs] = "probs"
    differentiable: ClassVar[bool] = False
    undoable: ClassVar[bool] = True
    """Whether knowing the defense helps to read an answer."""
    keeps_label: ClassVar[bool] = False
    """Whether every answer names the class that the victim names."""

    def __str__(self) -> str:
        numbers = ",".join(f"{getattr(self, field.name):.12g}" for field in fields(self))
        return f"{self.name}:{numbers}" if numbers else self.name

    @property
    def most_queries(self) -> int | None:
        """The most answers that one client gets; None: as many as it likes."""
        return None

    def around(self, victim: Responder) -> Responder:
        """The victim behind this defense."""
        self.check(victim)
        return Defended(self, victim)

    def check(self, victim: Responder) -> None:
        """Refuses a victim this defense cannot stand before."""
        spec = victim.spec
        if spec.outputs == "labels" or spec.classes == 1:
            got = "labels" if spec.outputs == "labels" else "a single score"
            raise NotApplicable(f"the defense {self} needs a victim that returns logits or probabilities, got {got}")

    def respond(self, victim: Responder, x: Tensor, question: Question) -> Tensor:
        """The defended outputs. Computed in float64, so that the defense adds no rounding of its own."""
        outputs = victim.respond(x, question)
        return self.change(probabilities(victim, outputs), question.noise).to(outputs.dtype)

    def change(self, probs: Tensor, noise: torch.Generator) -> Tensor:
        """What is shown instead of these probabilities."""
        raise NotImplementedError

    def undo(self, answer: Answer) -> Answer:
        """What an attacker who knows this defense, and sees nothing but `answer`, takes the victim to have said.

        Learned on shadow answers, unless a defense has something better; a label that is kept is believed.
        """
        read = recovered(self, answer.probs)
        return reread(answer, with_label(read, answer.labels[:, None]) if self.keeps_label else read)


class Defended:
    """A victim behind a defense: to an oracle it is a victim."""

    def __init__(self, defense: Defense, victim: Responder) -> None:
        self.spec = replace(victim.spec, outputs=defense.outputs)
        self.remote, self.batch = victim.remote, victim.batch
        self.differentiable = victim.differentiable and defense.differentiable
        self._defense, self._victim = defense, victim

    def respond(self, x: Tensor, question: Question) -> Tensor:
        """The victim's outputs as the defense shows them."""
        return self._defense.respond(self._victim, x, question)


def probabilities(victim: Responder, outputs: Tensor) -> Tensor:
    """The victim's outputs as probabilities in float64."""
    return outputs.double().softmax(1) if victim.spec.outputs == "logits" else outputs.double()


def with_label(probs: Tensor, label: Tensor) -> Tensor:
    """The same values, with the highest at `label`, [n, 1]: it changes places with whatever was there."""
    top = probs.argmax(1, keepdim=True)
    highest, other = probs.gather(1, top), probs.gather(1, label)
    return probs.scatter(1, top, other).scatter(1, label, highest)


def labels_of(victim: Responder, x: Tensor, question: Question) -> Tensor:
    """The victim's label of each row, whatever it returns."""
    outputs = victim.respond(x, question)
    return outputs.long() if victim.spec.outputs == "labels" else to_labels(outputs)


def reread(answer: Answer, probs: Tensor) -> Answer:
    """The same answer, read as these probabilities."""
    return Answer(View("probs"), answer.classes, {**answer.columns, "probs": probs.to(answer.probs.dtype)})


def softened(answer: Answer, pseudo: float) -> Answer:
    """The answer with `pseudo` added to every probability: a shown zero is not believed to be one.

    The order of the classes stays. Distilling from logarithms, a zero taken at its word would outweigh all else.
    """
    return reread(answer, (answer.probs.double() + pseudo) / (1 + answer.classes * pseudo))
