"""The linear student, solved rather than trained: least squares for logits, logistic regression for labels."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor, nn

from leakmeter.extraction.students import Lesson, Student
from leakmeter.extraction.students.reading import seen_logits
from leakmeter.extraction.students.scaled import scaled
from leakmeter.models import make_model
from leakmeter.victims.spec import VictimSpec

_MOST = 4096  # features above which solving is no longer cheap
_QUICK = 1024  # features above which a few steps must do
_HURRIED = 1.0  # seconds below which they must do, too
_RIDGE = 1e-6
_CONFIDENT = 6.0  # logits of a class never answered lie this far below


class Linear(Student):
    """One affine map of the scaled inputs."""

    differentiable = True

    def suits(self, spec: VictimSpec) -> bool:
        """Wherever it can be solved in seconds."""
        return spec.features <= _MOST

    def fit(self, lesson: Lesson) -> nn.Module:
        """The exact minimum: of squared logits, or of the regularised logistic loss."""
        first = scaled(lesson.spec, lesson.x)
        x = first(lesson.x).flatten(1).double()
        weight, bias = _logistic(x, lesson) if lesson.reading == "labels" else _least_squares(x, lesson)
        network = make_model("linear", lesson.spec.input_shape, lesson.spec.classes)
        with torch.no_grad():
            for parameter, value in zip(network.parameters(), (weight, bias), strict=True):
                parameter.copy_(value)
        return nn.Sequential(first, network).eval()


def _least_squares(x: Tensor, lesson: Lesson) -> tuple[Tensor, Tensor]:
    target = lesson.answer.logits if lesson.spec.classes == 1 else seen_logits(lesson.answer)
    middle, mean = x.mean(0), target.double().mean(0)
    x, y = x - middle, target.double() - mean
    gram = x.T @ x + _RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype)
    weight = torch.linalg.solve(gram, x.T @ y).T
    return weight, mean - weight @ middle


def _logistic(x: Tensor, lesson: Lesson) -> tuple[Tensor, Tensor]:
    """Of the classes that were answered; the others are never named."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    labels, classes = lesson.answer.labels.numpy(), lesson.spec.classes
    weight, bias = torch.zeros(classes, x.shape[1]), torch.full((classes,), -_CONFIDENT)
    seen = np.unique(labels)
    if len(seen) == 1:
        sign = 1.0 if classes > 1 or seen[0] == 1 else -1.0
        bias[seen[0] if classes > 1 else 0] = sign * _CONFIDENT
        return weight, bias
    with warnings.catch_warnings():  # near enough is good enough
        warnings.simplefilter("ignore", ConvergenceWarning)
        steps = 300 if x.shape[1] <= _QUICK and lesson.seconds >= _HURRIED else 60
        model = LogisticRegression(C=1.0, max_iter=steps).fit(x.numpy(), labels)
    found, offset = torch.from_numpy(model.coef_).float(), torch.from_numpy(model.intercept_).float()
    if classes == 1:
        return found, offset
    if len(seen) == 2:  # one row: the second class against the first
        found, offset = torch.cat([-found, found]) / 2, torch.cat([-offset, offset]) / 2
    bias[:] = offset.min() - _CONFIDENT * x.shape[1]
    weight[seen], bias[seen] = found, offset
    return weight, bias


LINEAR = Linear()
