"""Trees as students: boosted ones, which add up to the victim's scores, and bagged ones, which average.

Where scores are shown they are learned as numbers, one ensemble a class (one for two classes), not as classes: a score
tells how far a boundary is. Scikit-learn grows them; the copy is a `TreeEnsemble`, which needs no pickle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import nn

from leakmeter.extraction.students import Lesson, Student
from leakmeter.extraction.students.added import parts
from leakmeter.extraction.students.reading import seen_logits
from leakmeter.extraction.targets import answered_probs
from leakmeter.models.trees.ensemble import Tree, TreeEnsemble, empty_ensemble, leaf
from leakmeter.models.trees.from_sklearn import from_sklearn
from leakmeter.victims.spec import VictimSpec

_MOST_FEATURES = 300
_ROUND, _VALUE = 2e-3, 1e-8  # seconds a round of boosting costs, and those for every number it looks at
_FEWEST, _MOST = 60, 1500
_LEARNED = 60.0  # rounds times learning rate that are enough for scores without noise
_BAGGED = 50


class Trees(Student):
    """Students whose copy is a `TreeEnsemble`."""

    differentiable = False

    def suits(self, spec: VictimSpec) -> bool:
        """Rows of a table that is not too wide, with two classes or more: of a single score trees would make two."""
        return len(spec.input_shape) == 1 and spec.features <= _MOST_FEATURES and spec.classes > 1


class Boosted(Trees):
    """Histogram gradient boosting."""

    def fit(self, lesson: Lesson) -> nn.Module:
        """As many rounds as fit into the lesson's seconds."""
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        per_round = _ROUND + _VALUE * lesson.x.numel()
        rounds = int(min(max(lesson.seconds / per_round / _outputs(lesson), _FEWEST), _MOST))
        options: dict[str, Any] = {
            "max_iter": rounds,
            "max_features": 0.5,
            "early_stopping": False,
            "random_state": lesson.seed % 2**32,
        }
        if lesson.reading == "labels":  # which say little each: trees that follow every one of them learn nothing
            options |= {"learning_rate": 0.1 if rounds < 400 else 0.06, "l2_regularization": 1.0}
            options |= {"min_samples_leaf": 5 if len(lesson.x) > 500 else 2}
        else:
            options |= {"learning_rate": min(max(_LEARNED / rounds, 0.05), 0.3)}
            options |= {"min_samples_leaf": 5, "max_depth": 4}
        return fitted(
            lesson, lambda: HistGradientBoostingRegressor(**options), lambda: HistGradientBoostingClassifier(**options)
        )


class Bagged(Trees):
    """Extremely randomised trees."""

    def fit(self, lesson: Lesson) -> nn.Module:
        """A fixed number of trees: more change little."""
        from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

        seed, least = lesson.seed % 2**32, 1 if len(lesson.x) < 2000 else 2
        options: dict[str, Any] = {"random_state": seed, "min_samples_leaf": least, "max_features": None}
        return fitted(
            lesson,
            lambda: ExtraTreesRegressor(_BAGGED, **options | {"max_features": 1.0}),
            lambda: ExtraTreesClassifier(_BAGGED, **options),
        )


def fitted(lesson: Lesson, regressor: Callable[[], Any], classifier: Callable[[], Any]) -> TreeEnsemble:
    """The ensemble scikit-learn grows: of scores by the regressor, of labels by the classifier."""
    rows = lesson.x.flatten(1).double()
    x = torch.where(rows.isnan().all(0), 0.0, rows).numpy()  # it cannot bin a column of which no value is known
    with threadpool_limits(torch.get_num_threads(), "openmp"):  # of their own they take every core from other cells
        if lesson.reading == "labels":
            return _of_labels(x, lesson, classifier)
        found = [[from_sklearn(regressor().fit(x, part)) for part in output] for output in _added(lesson)]
    return side_by_side(found, "score" if lesson.spec.classes == 2 else "scores")


def _added(lesson: Lesson) -> NDArray[np.float64]:
    """The numbers to learn, [outputs, parts, n]: scores, or parts of them where explanations tell these."""
    wanted = scores(lesson)
    told = parts(lesson, wanted)
    return (wanted[:, :, None] if told is None else told).transpose(1, 2, 0)


def _outputs(lesson: Lesson) -> int:
    """How many ensembles share the lesson's seconds."""
    if lesson.reading == "labels":
        return 1 if lesson.spec.classes <= 2 else lesson.spec.classes
    outputs, count, _ = _added(lesson).shape
    return int(outputs * count)


def scores(lesson: Lesson) -> NDArray[np.float64]:
    """What is learned as numbers: logits, or where they are softened the probabilities themselves."""
    if lesson.spec.classes == 1:
        return lesson.answer.logits.double().numpy()
    if lesson.reading in ("softened", "probs"):
        values = 4 * (answered_probs(lesson.answer).double() - 1 / lesson.spec.classes)
    else:
        values = seen_logits(lesson.answer).double()
    return (values[:, 1:] - values[:, :1] if lesson.spec.classes == 2 else values).numpy()


def _of_labels(x: NDArray[np.float64], lesson: Lesson, classifier: Callable[[], Any]) -> TreeEnsemble:
    """The classifier's own ensemble, spread over all classes of the victim: a class never answered is never named."""
    labels = lesson.answer.labels.numpy()
    seen = np.unique(labels)
    classes = lesson.spec.classes
    if len(seen) == 1:
        value = [8.0 * (2 * int(seen[0]) - 1)] if classes == 1 else [8.0 * (k == seen[0]) for k in range(classes)]
        return TreeEnsemble([leaf(value)], [0.0] * len(value))
    found = from_sklearn(classifier().fit(x, labels))
    return found if len(seen) == classes else _spread(found, seen, classes)


def _spread(found: TreeEnsemble, seen: NDArray[np.int64], classes: int) -> TreeEnsemble:
    """An ensemble of the classes that were answered as one of all of them."""
    state = dict(found.named_buffers())
    link = int(found.semantics[2])
    if classes > 1:
        columns = torch.from_numpy(seen if found.value.shape[1] == len(seen) else seen[1:])
        value, base = (
            torch.zeros(len(found.value), classes).double(),
            torch.full((classes,), 0.0 if link == 2 else -30.0),
        )
        base[torch.from_numpy(seen)] = 0.0
        value[:, columns], base[columns] = found.value, found.base.float()
        state |= {"value": value, "base": base.double()}
    state["semantics"] = torch.tensor([*found.semantics[:2].tolist(), 2 if link == 2 and classes > 1 else 0])
    wide = empty_ensemble((1,), classes)
    wide.load_state_dict(state)
    return wide


def side_by_side(found: list[list[TreeEnsemble]], link: Any) -> TreeEnsemble:
    """Ensembles of one output each as one ensemble of as many outputs, each the sum of its own."""
    trees = [tree for output, some in enumerate(found) for each in some for tree in _trees(each, output, len(found))]
    single = bool(found[0][0].semantics[1])
    return TreeEnsemble(trees, [sum(float(each.base[0]) for each in some) for some in found], link=link, single=single)


def _trees(ensemble: TreeEnsemble, output: int, width: int) -> Iterator[Tree]:
    """The trees of an ensemble of one output as trees of `width` outputs."""
    value = np.zeros((len(ensemble.value), width))
    value[:, output] = ensemble.value[:, 0].numpy()
    for start, end in pairwise([*ensemble.roots.tolist(), len(value)]):
        part = slice(start, end)
        column = {name: getattr(ensemble, name)[part].numpy() for name in ("feature", "threshold", "missing_left")}
        left, right = (getattr(ensemble, side)[part].numpy() - start for side in ("left", "right"))
        yield Tree(**column, left=left, right=right, value=value[part])


BOOSTED, BAGGED = Boosted(), Bagged()
