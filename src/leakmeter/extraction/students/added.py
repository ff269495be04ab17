"""What explanations that add up to a score tell a student: not the sum only, but what every column adds to it.

Each part is a simpler function than their sum, so fewer answers teach it. Whether they add up is seen from the answers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leakmeter.extraction.students import Lesson

_NOISE = 1e-3  # of the scores' spread by which sum and score may differ, but for a constant


def parts(lesson: Lesson, scores: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """What each column adds to each score, [n, outputs, columns], the first with the constant; None: nothing is told.

    Args:
        lesson: the answers.
        scores: what the student would learn of them without explanations, [n, outputs].
    """
    explanation = lesson.answer.view.explanation
    if explanation is None or not explanation.a_map or not bool(lesson.answer.shown.all()):
        return None
    told = lesson.answer.explanation.flatten(2).double().numpy()
    if told.shape[1] != scores.shape[1]:  # one score of two classes
        told = told[:, 1:] - told[:, :1]
    told = told * _scale(told.sum(2), scores)
    rest = scores - told.sum(2)
    if bool((rest.std(0) > _NOISE * scores.std(0) + 1e-12).any()):
        return None
    told[:, :, 0] += rest
    return np.asarray(told)


def _scale(sums: NDArray[np.float64], scores: NDArray[np.float64]) -> float:
    """By how much sums must be multiplied to change as the scores do."""
    centred, wanted = sums - sums.mean(0), scores - scores.mean(0)
    return float((centred * wanted).sum() / max(float((centred**2).sum()), 1e-12))
