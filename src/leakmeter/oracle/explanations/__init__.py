"""What a server can show beside an answer, one file each: `gradient`, `smoothgrad:SAMPLES,SIGMA`.

An explanation is written as its name and its numbers, then what hides part of it: `NAME:ARGS/PROTECTION:ARGS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakmeter.registry import Registry
from leakmeter.settings import from_text

if TYPE_CHECKING:
    from leakmeter.oracle.explanations.base import Explanation, Protection

EXPLANATIONS: Registry[type[Explanation]] = Registry(
    "explanation",
    {
        "gradient": "leakmeter.oracle.explanations.gradient:Gradient",
        "smoothgrad": "leakmeter.oracle.explanations.smoothgrad:SmoothGrad",
    },
    group="leakmeter.explanations",
)
PROTECTIONS: Registry[type[Protection]] = Registry("protection", {}, group="leakmeter.protections")


def parse(text: str) -> tuple[Explanation, tuple[Protection, ...]]:
    """The explanation and its protections, in the order in which they are applied."""
    name, *rest = text.split("/")
    return from_text(EXPLANATIONS, name), tuple(from_text(PROTECTIONS, each) for each in rest)
