"""Where an attacker's queries come from, in the order of what they cost: code, photographs, a public pool.

A source draws `n` queries in the victim's box: `source(n, spec, generator) -> [n, *input_shape]`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leakmeter.registry import Registry
from leakmeter.victims.spec import VictimSpec

Source = Callable[[int, VictimSpec, torch.Generator], Tensor]

_HERE = "leakmeter.extraction.sources"
SOURCES: Registry[Source] = Registry(
    "query source",
    {
        "uniform": f"{_HERE}.points:uniform",
        "corners": f"{_HERE}.points:corners",
        "amounts": f"{_HERE}.tables:amounts",
        "rows": f"{_HERE}.drawings:rows",
        "drawings": f"{_HERE}.drawings:drawings",
        "glyphs": f"{_HERE}.glyphs:glyphs",
        "photographs": f"{_HERE}.photographs:photographs",
    },
)


POINTS = ("uniform", "corners")
"""Sources that do not look like pictures."""


def usual_sources(spec: VictimSpec) -> tuple[str, ...]:
    """The sources that need no data, for this kind of input."""
    points = POINTS if spec.width is not None else POINTS[:1]
    if len(spec.input_shape) != 3:
        return (*points, "rows")
    return (*points, "drawings", "glyphs", "photographs")


def into_box(pictures: Tensor, spec: VictimSpec) -> Tensor:
    """Pictures in [0, 1] stretched to the victim's box; where it is open, to zero mean and about unit spread."""
    if spec.low is None or spec.high is None:
        return spec.clamp((pictures - 0.5) * 4)
    return spec.clamp(torch.lerp(spec.low.to(pictures), spec.high.to(pictures), pictures))
