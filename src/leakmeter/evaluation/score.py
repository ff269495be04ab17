"""How good a copy is. The victim is asked once, on the evaluation account; its answers then judge every copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from pydantic import BaseModel, ConfigDict
from safetensors import SafetensorError
from torch import Tensor, nn

from leakmeter.data.dataset import Dataset
from leakmeter.errors import Inconclusive, UsageError, first_line
from leakmeter.evaluation.by_class import ByClass, by_class
from leakmeter.evaluation.intervals import Interval, exact
from leakmeter.files import write_atomic
from leakmeter.oracle.answer import Answer, to_labels
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.tensors import to_safetensors
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Victim

TestData = Dataset | tuple[Tensor, Tensor | None] | Tensor
_BATCH, _NUMBERS = 400, 2**22  # rows at once, and numbers in them: layers hold many times as many


class Score(BaseModel):
    """A copy measured on `n` test inputs. What cannot be measured (no labels, a label-only victim) is None."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n: int
    fidelity: float
    """How often the copy and the victim name the same class."""
    fidelity_interval: Interval
    """Of this copy, on the population the inputs were drawn from; what another seed would give it does not say."""
    accuracy: float | None
    """How often the copy is right."""
    accuracy_interval: Interval | None
    victim_accuracy: float | None
    kl: float | None
    """Mean KL(victim || copy) in nats."""
    max_error: float | None
    """Largest difference of one output: of logits where the victim gives logits, else of probabilities."""
    by_class: ByClass | None = None
    """The same class by class, and what a copy that ignores its input would get; None: measured before there was it."""


class ClassScore(BaseModel):
    """How a copy agrees with the victim on the inputs to which the victim gives one class."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n: int
    same: int
    """On how many of them the copy names the same class."""


@dataclass(frozen=True, eq=False)
class Reference:
    """Test inputs with the victim's answers to them."""

    x: Tensor
    y: Tensor | None
    answer: Answer

    def score(self, substitute: nn.Module) -> Score:
        """Measures one copy; the victim is not asked again."""
        logits = predict(substitute, self.x)
        if logits.shape != (len(self.x), self.answer.classes):
            expected = (len(self.x), self.answer.classes)
            raise UsageError(f"expected outputs of shape {expected} from the substitute, got {tuple(logits.shape)}")
        if not torch.isfinite(logits).all():
            raise Inconclusive("the substitute answers with NaN or infinity: its training diverged")
        labels, truth, n = to_labels(logits), self.answer.labels, len(self.x)
        same = int((labels == truth).sum())
        right = None if self.y is None else int((labels == self.y).sum())
        return Score(
            n=n,
            fidelity=same / n,
            fidelity_interval=exact(same, n),
            accuracy=None if right is None else right / n,
            accuracy_interval=None if right is None else exact(right, n),
            victim_accuracy=None if self.y is None else int((truth == self.y).sum()) / n,
            kl=self._kl(logits),
            max_error=self._max_error(logits),
            by_class=by_class(labels, truth, self.y),
        )

    def class_scores(self, substitute: nn.Module) -> list[ClassScore]:
        """The copy's agreement class by class, in their order."""
        truth, classes = self.answer.labels, max(self.answer.classes, 2)
        same = to_labels(predict(substitute, self.x)) == truth
        counts = zip(
            truth.bincount(minlength=classes).tolist(), truth[same].bincount(minlength=classes).tolist(), strict=True
        )
        return [ClassScore(n=n, same=agreed) for n, agreed in counts]

    def save(self, path: Path) -> None:
        """Keeps the victim's answers; the inputs stay where they came from."""
        write_atomic(path, to_safetensors(self.answer.columns))

    @classmethod
    def load(cls, path: Path, data: Dataset, spec: VictimSpec) -> Reference:
        """The answers kept at `path` to the inputs of `data`."""
        try:
            columns = safetensors.torch.load(path.read_bytes())
        except (OSError, ValueError, SafetensorError) as error:
            raise Inconclusive(f"cannot read the answers of the victim in {path}: {first_line(error)}") from error
        answer = Answer(View(spec.outputs), spec.classes, columns)
        if len(answer) != len(data):
            raise Inconclusive(
                f"the victim answered {len(answer):,} test inputs and {data.name} now holds {len(data):,}: it was "
                "changed since; start the audit anew"
            )
        return cls(data.x, data.y, answer)

    def _kl(self, logits: Tensor) -> float | None:
        if self.answer.view.kind == "labels" or logits.shape[1] == 1:
            return None
        if self.answer.view.kind == "logits":
            log_p = self.answer.logits.double().log_softmax(1)
        else:
            log_p = self.answer.probs.double().clamp_min(1e-30).log()
        log_q = logits.double().log_softmax(1)
        return float((log_p.exp() * (log_p - log_q)).sum(1).mean().clamp_min(0))

    def _max_error(self, logits: Tensor) -> float | None:
        if self.answer.view.kind == "labels":
            return None
        if self.answer.view.kind == "logits":
            return float((logits.double() - self.answer.logits.double()).abs().max())
        return float((logits.double().softmax(1) - self.answer.probs.double()).abs().max())


def reference(victim: Victim | Oracle, data: TestData) -> Reference:
    """Asks the victim for its full outputs on the test inputs."""
    x, y = _columns(data)
    oracle = victim if isinstance(victim, Oracle) else Oracle(victim, View("labels"))
    return Reference(x, y, oracle.judge(x))


def score(substitute: nn.Module, victim: Victim | Oracle, data: TestData) -> Score:
    """Measures a copy of `victim` on test inputs, with labels where there are any."""
    return reference(victim, data).score(substitute)


def predict(model: nn.Module, x: Tensor) -> Tensor:
    """The model's logits, in batches, on the CPU."""
    first = next(model.parameters(), None)
    device, dtype = (first.device, first.dtype) if first is not None else (x.device, x.dtype)
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        size = min(_BATCH, max(1, _NUMBERS // max(1, x[:1].numel())))
        rows = [model(piece.to(device, dtype)).cpu() for piece in torch.split(x, size)]
    model.train(was_training)
    return torch.cat(rows).clone()


def _columns(data: TestData) -> tuple[Tensor, Tensor | None]:
    if isinstance(data, Dataset):
        return data.x, data.y
    x, y = data if isinstance(data, tuple | list) else (data, None)
    x = torch.as_tensor(x)
    y = None if y is None else torch.as_tensor(y).long()
    if y is not None and (y.dim() != 1 or len(y) != len(x)):
        raise UsageError(f"expected one label for each of {len(x)} test inputs, got labels of shape {tuple(y.shape)}")
    return x, y
