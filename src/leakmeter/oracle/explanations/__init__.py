"""What a server can show beside an answer, one file each: from input gradients to reasons and counterfactuals.

An explanation is written as its name and its numbers, then what hides part of it: `NAME:ARGS/PROTECTION:ARGS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakmeter.registry import Registry
from leakmeter.settings import from_text

if TYPE_CHECKING:
    from leakmeter.oracle.explanations.base import Explanation, Protection

_HERE = "leakmeter.oracle.explanations"
EXPLANATIONS: Registry[type[Explanation]] = Registry(
    "explanation",
    {
        "gradient": f"{_HERE}.gradient:Gradient",
        "smoothgrad": f"{_HERE}.smoothgrad:SmoothGrad",
        "gradxinput": f"{_HERE}.gradxinput:GradientTimesInput",
        "integrated": f"{_HERE}.integrated:IntegratedGradients",
        "occlusion": f"{_HERE}.occlusion:Occlusion",
        "gradcam": f"{_HERE}.gradcam:GradCam",
        "shap": f"{_HERE}.shap:Shapley",
        "lime": f"{_HERE}.lime:Lime",
        "reasons": f"{_HERE}.reasons:Reasons",
        "counterfactual": f"{_HERE}.counterfactual:Counterfactual",
    },
    group="leakmeter.explanations",
)
PROTECTIONS: Registry[type[Protection]] = Registry(
    "protection",
    {
        "top": f"{_HERE}.protections:Top",
        "sign": f"{_HERE}.protections:Sign",
        "round": f"{_HERE}.protections:Round",
        "noise": f"{_HERE}.protections:Noise",
        "abs": f"{_HERE}.protections:Absolute",
    },
    group="leakmeter.protections",
)


def parse(text: str) -> tuple[Explanation, tuple[Protection, ...]]:
    """The explanation and its protections, in the order in which they are applied."""
    name, *rest = text.split("/")
    return from_text(EXPLANATIONS, name), tuple(from_text(PROTECTIONS, each) for each in rest)
