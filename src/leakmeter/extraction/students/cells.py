"""One tree with a leaf for every row it learned: exact where a table has so few rows that all of them can be asked."""

from __future__ import annotations

from typing import Any

from torch import nn

from leakmeter.extraction.exact_tree.axes import Axes
from leakmeter.extraction.students import Lesson
from leakmeter.extraction.students.trees import Trees, fitted
from leakmeter.victims.spec import VictimSpec

_MOST = 100_000  # rows a table may have


class Cells(Trees):
    """Remembers every answer; of a row never asked it guesses what the nearest splits say."""

    def suits(self, spec: VictimSpec) -> bool:
        """Tables whose rows can be counted."""
        cells = None if spec.columns is None else Axes(spec.columns).cells
        return cells is not None and cells <= _MOST and super().suits(spec)

    def fit(self, lesson: Lesson) -> nn.Module:
        """The tree grown to the end."""
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        options: dict[str, Any] = {"random_state": lesson.seed % 2**32}
        return fitted(lesson, lambda: DecisionTreeRegressor(**options), lambda: DecisionTreeClassifier(**options))


CELLS = Cells()
