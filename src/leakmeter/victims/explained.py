"""An explanation that a victim's own answers hold: where it stands in them, and of which kind it is."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from leakmeter.settings import Settings


class OwnExplanation(Settings):
    """What a description's `explanation`, or `[victim.remote]`, says of it."""

    field: str = Field(min_length=1)
    """Where it is in an answer: a path as that of the outputs; of the Open Inference Protocol an output's name."""
    kind: str = Field(min_length=1)
    """What it is, as in a view: `gradient`, `shap`, `reasons:4`, ...; a map, one number for each feature."""
    of: Literal["all", "label", "second"] = "all"
    """Whose: a map for each class; one map, of the class named; or one, of the second of two classes."""
