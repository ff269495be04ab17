"""How far a student's explanation is from the one shown: gradients by random projections, all else by its own method.

Comparing class by class would cost a backward pass a class. Each step draws one combination `a` of the class scores for
each row instead, and compares the explanation of `<a, scores>` alone: without bias where explanations are linear in the
scores. Where they are not (Grad-CAM, reasons, signs, ranks), the combination is one class, drawn at random.

Slopes of probabilities become slopes of their logarithms, protected or not: the probability to divide by is shown, and
dividing by it changes neither signs nor ranks. Slopes times inputs are divided by the inputs, where these are not zero.
SmoothGrad of probabilities is turned back into slopes (`unsmoothed.py`).

A student is explained by few random draws where the server took many. The error of one draw, squared, is too large by
how much draws differ, and would teach a student whose draws do not; the product of the errors of two is right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from leakmeter.errors import NotApplicable
from leakmeter.extraction.targets import answered_logits
from leakmeter.extraction.unsmoothed import unsmoothed
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.explanations.base import Scores, as_often
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Question

_FLOOR = 1e-30  # the gradient of a probability below this loses digits in single precision
_SQUARED = 1e-12  # and below this its square, by which an error is divided
_ROUNDING = 10  # steps of rounding a probability must be worth before anything is divided by it
_NUMBERS = 100_000  # that inputs hold which a student is asked in one step to explain some rows, or one
_SLOPES = ("gradient", "gradxinput")
_ONE = torch.ones(1)


class Matching(Protocol):
    """What is known of the victim from its explanations."""

    def loss(self, model: nn.Module, x: Tensor, rows: Tensor, draws: torch.Generator) -> tuple[Tensor, Tensor]:
        """The logits of a student for the queries `x`, which are those numbered `rows`, and how far off it explains."""


def matching(x: Tensor, answer: Answer, spec: VictimSpec) -> Matching:
    """How to compare a student with the explanations in an answer to `x`."""
    answer = unsmoothed(answer, spec)
    explanation, protections = answer.view.explanation, answer.view.protections
    assert explanation is not None
    if explanation.name not in _SLOPES or not all(protection.linear for protection in protections):
        return OwnExplanations(answer, spec)
    units = _units(spec)
    if explanation.name != "gradxinput":
        return Explanations(answer, units, units)
    if protections:  # divided by a small input, noise would be large
        return Explanations(answer, mine=x)
    return Explanations(answer, torch.where(x != 0, units / x, 0.0), units * (x != 0))


def _units(spec: VictimSpec) -> Tensor:
    """What makes gradients by features of different ranges comparable, [1, ...]."""
    width = spec.width
    return _ONE if width is None or not width.dim() else width.float()[None]


class Explanations:
    """The gradients as given, and what makes of them gradients of the scores a student is compared by.

    The scores are logits where logits are shown and log-probabilities where probabilities are. Where only a label is
    shown, the probability to divide by is unknown: there the directions of the gradients are compared.
    """

    def __init__(self, answer: Answer, theirs: Tensor = _ONE, mine: Tensor = _ONE) -> None:
        """`theirs` and `mine`: what the gradients shown and the student's are multiplied by, to be compared."""
        self.times = mine
        self.gradients = answer.explanation * theirs[:, None]
        self.of_logits = answer.view.kind == "logits" or answer.classes == 1
        self.directions = answer.view.kind == "labels" and not self.of_logits
        self.weights = answer.shown.float() if self.of_logits or self.directions else _by_probability(answer)
        self.power = self._power()

    def loss(self, model: nn.Module, x: Tensor, rows: Tensor, draws: torch.Generator) -> tuple[Tensor, Tensor]:
        """The logits and ℓ_G."""
        logits = model(x.requires_grad_())
        a = self.draw(rows, draws)
        gradient = torch.autograd.grad((a * self.scores(logits)).sum(), x, create_graph=True)[0]
        times = self.times if len(self.times) == 1 else self.times[rows.cpu()]
        return logits, self.error(gradient * times.to(gradient), a, rows)

    def draw(self, rows: Tensor, draws: torch.Generator) -> Tensor:
        """A random combination of the scores shown for each row, [n, classes].

        Where every class is shown it sums to zero: it then sees differences of logits, and nothing of the constant that
        softmax removes.
        """
        known = (self.weights[rows.cpu()] > 0).to(rows.device)
        a = torch.randn(known.shape, generator=draws, device=rows.device) * known
        return a - a.mean(1, keepdim=True) * self._whole(known)

    def scores(self, logits: Tensor) -> Tensor:
        """What the student is compared by, [n, classes]."""
        return logits if self.of_logits else logits.log_softmax(1)

    def error(self, gradient: Tensor, a: Tensor, rows: Tensor) -> Tensor:
        """ℓ_G: how far `gradient` is from that of `<a, scores>` shown for `rows`, relative to the mean square shown."""
        wanted = self.combine(a, rows).to(gradient)
        if self.directions:
            return 2 - 2 * torch.cosine_similarity(gradient.flatten(1), wanted.flatten(1)).mean()
        return _squares(gradient - wanted).mean() / self.power

    def combine(self, a: Tensor, rows: Tensor) -> Tensor:
        """`Σ_c a_c ∇score_c` of some rows, class by class: never more than rows × features at once."""
        a, rows = a.cpu(), rows.cpu()
        total = torch.zeros(())
        for c in range(self.weights.shape[1]):
            total = total + _scaled(self.gradients[rows, c], a[:, c] * self.weights[rows, c])
        return total

    def _power(self) -> float:
        """The mean of `|combine(a)|²` over `draw` and the rows."""
        n, classes = self.weights.shape
        total = torch.zeros(())
        for c in range(classes):
            total = total + _squares(_scaled(self.gradients[:, c], self.weights[:, c]))
        common = _squares(self.combine(torch.ones(n, classes), torch.arange(n))) / classes
        power = (total - common * self._whole(self.weights > 0)[:, 0]).mean()
        return float(power.clamp_min(torch.finfo(power.dtype).tiny))

    @staticmethod
    def _whole(known: Tensor) -> Tensor:
        return known.all(1, keepdim=True) & (known.shape[1] > 1)


def _by_probability(answer: Answer, least: float = _FLOOR) -> Tensor:
    """What slopes of probabilities are multiplied by to become those of their logarithms; 0: it cannot be told."""
    decimals = answer.view.decimals
    least = least if decimals is None else _ROUNDING * 10.0**-decimals
    return torch.where(answer.probs >= least, answer.shown.float() / answer.probs.clamp_min(least), 0)


def _scaled(rows: Tensor, factors: Tensor) -> Tensor:
    return rows * factors.view(-1, *[1] * (rows.dim() - 1))


def _squares(rows: Tensor) -> Tensor:
    return rows.flatten(1).square().sum(1)


@dataclass(eq=False)
class Student:
    """A student as what an explanation is computed of."""

    white_box: nn.Module
    spec: VictimSpec
    remote: bool = False
    differentiable: bool = True
    batch: int = 1024

    def respond(self, x: Tensor, question: Question) -> Tensor:  # noqa: ARG002
        """Its logits."""
        logits: Tensor = self.white_box(x)
        return logits


@dataclass(frozen=True, eq=False)
class Combined(Scores):
    """One score a row: a combination of those that the student has, [n, classes], or of log-probabilities."""

    a: Tensor | None = None
    log: bool = False

    def _shown(self, scores: Tensor) -> Tensor:
        assert self.a is not None
        shown = scores.log_softmax(1) if self.log else super()._shown(scores)
        return (as_often(self.a, shown) * shown).sum(1, keepdim=True)


class OwnExplanations:
    """Explains the student as the server explains the victim; a protection says what its output leaves to compare."""

    def __init__(self, answer: Answer, spec: VictimSpec) -> None:
        view, explanation = answer.view, answer.view.explanation
        assert explanation is not None
        self.spec = replace(spec, outputs="logits", dtype=torch.float32)
        self.explanation, self.protections = explanation.fewer(self.spec), view.protections
        self.shown = answer.explanation
        self.times = 2 if explanation.sampled else 1
        self.linear = explanation.linear and all(protection.linear for protection in view.protections)
        self.logits = view.kind == "logits" or (answer.classes > 1 and _of_logits(answer))
        slopes = explanation.name in _SLOPES
        self.log = slopes and view.kind in ("probs", "top")
        least = _FLOOR if self.linear else _SQUARED
        self.weights = _by_probability(answer, least) if self.log else answer.shown.float()
        self.units = _units(spec)[:, None] if slopes and explanation.name != "gradxinput" else _ONE
        self.power = self._power()

    def loss(self, model: nn.Module, x: Tensor, rows: Tensor, draws: torch.Generator) -> tuple[Tensor, Tensor]:
        """The logits, and how far the student's own explanation is from what could have been shown so."""
        logits, student = model(x), Student(model, self.spec)
        some = max(1, _NUMBERS // (self.spec.features * self.times * self.explanation.work(student)))
        x, rows = x[:some], rows[:some]
        a, scale = self.draw(rows, draws)
        try:
            softs = [self._own(student, x, a * scale, draws) for _ in range(self.times)]
        except NotApplicable:  # a student that has no convolution has no map of it
            return logits, torch.zeros(())
        wanted = torch.einsum("nc,nc...->n...", a, self.shown[rows.cpu()].to(a))[:, None]
        power = self.power * scale.view(-1, *[1] * (wanted.dim() - 1)) ** 2 / self.units.to(scale) ** 2
        if self.linear:
            return logits, ((softs[0] - wanted) * (softs[-1] - wanted) / power).flatten(1).sum(1).mean()
        teller, soft = self.protections[-1] if self.protections else self.explanation, torch.stack(softs).mean(0)
        if len(self.protections) > 1 and any(each.hides for each in self.protections):
            soft = torch.where(wanted != 0, soft, torch.zeros_like(soft))
        return logits, teller.mismatch(soft, wanted, power)

    def _own(self, student: Student, x: Tensor, a: Tensor, draws: torch.Generator) -> Tensor:
        """The student's explanation of a combination of its scores."""
        seed = int(torch.randint(2**62, (1,), generator=draws, device=draws.device))
        question = Question(torch.Generator().manual_seed(seed))
        scores = Combined(student, question, self.logits, None, graph=True, a=a, log=self.log)
        return self.explanation.soft(x, scores)

    def draw(self, rows: Tensor, draws: torch.Generator) -> tuple[Tensor, Tensor]:
        """A random combination of the scores shown for each row, [n, classes]; one of them where it must be.

        And what the student's score is multiplied by, [n, 1]: the victim's probability where logarithms are compared,
        so that both explanations have the unit of the one shown.
        """
        weights = self.weights[rows.cpu()].to(rows.device)
        known = (weights > 0).float()
        if self.linear:
            return torch.randn(known.shape, generator=draws, device=rows.device) * known, torch.ones_like(known[:, :1])
        chosen = torch.multinomial(known + 1e-9, 1, generator=draws)  # of a row of which nothing is known, none
        scale = torch.where(weights > 0, 1 / weights, 1.0).gather(1, chosen)
        return torch.zeros_like(known).scatter_(1, chosen, 1.0) * known, scale

    def _power(self) -> float:
        """The mean square of what is compared, in units of the box and of what the student is compared by."""
        inner = [1] * (self.shown.dim() - 2)
        maps = self.shown * self.weights.view(*self.weights.shape, *inner) * self.units
        squares = maps.flatten(2).square().sum(2).sum(1).mean()
        size = squares if self.linear else squares / (self.weights > 0).float().sum(1).mean()
        return float(size.clamp_min(torch.finfo(size.dtype).tiny))


def _of_logits(answer: Answer) -> bool:
    """Whether what is explained are log-odds although probabilities are shown, as of boosted trees: sums tell."""
    explanation = answer.view.explanation
    if explanation is None or explanation.name != "shap" or answer.view.kind != "probs" or len(answer) < 2:
        return False
    total = answer.explanation.flatten(2).sum(2).double()
    total = total - total.mean(1, keepdim=True)
    fits = []
    for scores in (answered_logits(answer).double(), answer.probs.double() - 1 / answer.classes):
        for factor in (1.0, 2.0):  # of two classes the log-odds are shown, twice a centred logit
            off = total - factor * scores
            fits.append(float((off - off.mean(0)).square().mean()))
    return fits.index(min(fits)) < 2
