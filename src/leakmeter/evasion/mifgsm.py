"""MI-FGSM: BIM with a memory of past gradients, which transfers better (Dong et al. 2018, algorithm 1)."""

from __future__ import annotations

from leakmeter.evasion.bim import Bim


class MiFgsm(Bim):
    """BIM with the paper's momentum, and steps that together are just as long as the radius."""

    momentum: float = 1.0
    reach: float = 1.0
