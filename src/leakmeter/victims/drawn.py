"""Inputs drawn by chance, to see how a model answers where nobody gives real ones."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from leakmeter.victims.spec import VictimSpec, to_labels
from leakmeter.victims.usual_range import picture_shape
from leakmeter.victims.victim import Question, Victim

_GRIDS = (1, 2, 4, 8, 16)  # patches of one colour along a side: noise alone looks alike to most networks

SOME = 40
"""Inputs that must not all look alike to a model, in a range that is guessed."""


def drawn(spec: VictimSpec, n: int) -> Tensor:
    """`n` inputs of the box, float32 and always the same: patches of colour for pictures, else any point alike."""
    chance = torch.Generator().manual_seed(0)
    picture = picture_shape(spec.input_shape)
    if picture is None or spec.columns is not None:
        return spec.sample(n, chance).float()
    channels, *sides = picture
    each = [n // len(_GRIDS) + (place < n % len(_GRIDS)) for place in range(len(_GRIDS))]
    grids = [torch.rand(rows, channels, side, side, generator=chance) for rows, side in zip(each, _GRIDS, strict=True)]
    patches = torch.cat([interpolate(grid, tuple(sides)) for grid in grids]).reshape(n, *spec.input_shape)
    return spec.box.from_unit(patches).float()


def tells_apart(victim: Victim) -> bool:
    """Whether some inputs drawn in its range get different labels."""
    x = drawn(victim.spec, SOME).to(victim.spec.dtype)
    with torch.no_grad():
        parts = torch.split(x, victim.batch)
        answers = torch.cat([victim.respond(part, Question(torch.Generator())) for part in parts])
    labels = answers if victim.spec.outputs == "labels" else to_labels(answers)
    return bool((labels != labels[0]).any())
