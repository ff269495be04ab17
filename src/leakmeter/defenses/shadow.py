"""Shadow answers: what a classifier could have said, drawn without looking at any.

Whoever knows a defense can put it before answers of its own: shown and true side by side, as many as wanted. From them
an attacker learns to read what is shown (`recovery.py`); a defender makes its codebook of them (`modelguard_s.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

_SCALES, _MARGIN = (0.5, 8.0), 4.0


def shadow_answers(rows: int, classes: int, generator: torch.Generator) -> Tensor:
    """Distributions from flat to certain, [rows, classes] in float64; no class is preferred.

    Normal logits, to one of which a margin of its own is added, times a scale from 0.5 to 8.
    """
    logits = torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    favoured = torch.randint(classes, (rows, 1), generator=generator)
    margin = _MARGIN * torch.rand(rows, 1, generator=generator, dtype=torch.float64)
    low, high = (torch.tensor(scale, dtype=torch.float64).log() for scale in _SCALES)
    scale = (low + (high - low) * torch.rand(rows, 1, generator=generator, dtype=torch.float64)).exp()
    return (scale * logits.scatter_add(1, favoured, margin)).softmax(1)
