"""What the answer to a small probe tells of a victim: what its outputs are, and how many classes it has."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.victims.spec import Outputs, VictimSpec

SIGN_DECIDES = (
    "The model returns one number a row, which is no probability: its sign was taken to decide between two classes; if "
    "it does not, this audit is of another model: cut the answers into classes in a function, or set outputs."
)
LABELS_UNCOUNTED = "a victim that returns labels does not say how many there are; pass classes=10, --classes 10"


def outputs_of(answer: Tensor) -> Outputs:
    """Labels, probabilities or scores, told by the numbers."""
    if _one_column(answer) and not answer.dtype.is_floating_point:
        return "labels"
    if _one_column(answer):
        return "probs" if _in_unit(answer) else "logits"
    return "probs" if _is_distribution(answer) else "logits"


def classes_of(answer: Tensor, outputs: str, said: int | None) -> int:
    """Columns of the outputs, or how many labels there are: `said` by the owner where the answer does not tell."""
    if outputs == "labels":
        if not _one_column(answer):
            raise UsageError(f"expected one label a row, got outputs with {answer.shape[1]} columns")
        if said is None and answer.dtype != torch.bool:
            raise UsageError(LABELS_UNCOUNTED)
        return said or 2
    if _one_column(answer):
        return _narrow(answer, outputs, said)
    if said is not None and answer.shape[1] != said:
        raise UsageError(f"expected {said} classes, got outputs with {answer.shape[1]} columns")
    if outputs == "probs" and not _is_distribution(answer):
        raise UsageError("expected probabilities that are positive and add up to 1; pass outputs='logits'")
    return answer.shape[1]


def check_score(answer: Tensor) -> None:
    """Refuses one number a row of which nobody said that it is a score, where it looks like something else."""
    if answer.dim() == 1 or bool((answer == answer.round()).all()):
        raise UsageError(
            "expected a model of classes, got one number a row that is no probability; pass outputs='labels', or "
            "outputs='logits' if its sign decides; a regression model has no classes to copy, so cut its answers "
            "into classes in a function"
        )


def advice(error: BaseException, spec: VictimSpec) -> str:
    """What to look at when a victim does not take the probe."""
    if spec.columns is not None:
        return (
            f"it was given rows of the {len(spec.columns)} columns {', '.join(spec.columns.names[:12])}"
            f"{', …' if len(spec.columns) > 12 else ''}; if one of them holds the classes, name it: [data] target, on "
            f"the command line --target-column {spec.columns.names[-1]}"
        )
    if isinstance(error, KeyError | IndexError | AttributeError | TypeError) or "column" in str(error).lower():
        return (
            "it is given a plain array: where it wants a data frame, name its columns ([columns], columns=); where it "
            "calls a network, give the nn.Module itself"
        )
    if len(spec.input_shape) == 3:
        return "check input_shape, which is channels, height, width, and pass layout='nhwc' if it takes channels last"
    return "check input_shape"


def _narrow(answer: Tensor, outputs: str, said: int | None) -> int:
    """One number a row: the probability of the second of two classes, or a score whose sign decides."""
    if said is not None and said > 2:
        raise UsageError(f"expected {said} classes, got outputs with one column")
    if outputs != "probs":
        return 1
    if not _in_unit(answer):
        raise UsageError("expected a probability from 0 to 1, got another number; pass outputs='logits'")
    return 2


def _one_column(answer: Tensor) -> bool:
    return answer.dim() == 1 or answer.shape[1] == 1


def _in_unit(answer: Tensor) -> bool:
    return bool(((answer >= 0) & (answer <= 1)).all())


def _is_distribution(answer: Tensor) -> bool:
    rows = answer.double()
    return bool((rows >= 0).all()) and bool(((rows.sum(1) - 1).abs() < 1e-3).all())
