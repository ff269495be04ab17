"""What attacks themselves found, beside what the owner's own measurement says of it."""

from __future__ import annotations

from leakmeter.results import CellResult

GOOD = 0.9
"""The fidelity of a copy worth stealing."""
WHOLE = 0.99
"""The least fidelity that a copy of the whole model has on test inputs: rounding may move a close call."""


def whole(cell: CellResult) -> bool:
    """Whether the copy is the model: the attack says so, fresh points agree, and so do the test inputs."""
    return cell.findings is not None and cell.findings.exact and not mistaken(cell)


def mistaken(cell: CellResult) -> bool:
    """Whether an attack calls a copy complete that is not, on fresh points or on test inputs."""
    if cell.findings is None or not cell.findings.complete:
        return False
    score = None if cell.final is None else cell.final.score
    return not cell.findings.exact or (score is not None and score.fidelity < WHOLE)


def explained(cell: CellResult) -> bool:
    """Whether the attack read the explanations it was shown: it, or what a choosing attack chose."""
    from leakmeter.extraction.base import ATTACKS

    chosen = () if cell.findings is None else (trial.name for trial in cell.findings.tried if trial.chosen)
    names = [cell.attack, *(name.split()[0] for name in chosen)]
    return any(name in ATTACKS and ATTACKS[name].reads(cell.view) for name in names)


def beats_untrained(cell: CellResult) -> bool:
    """Whether the copy is surely better than a network that learned nothing, as far as that was measured."""
    if cell.untrained is None or cell.final is None or cell.final.score is None:
        return True
    return cell.final.score.fidelity_interval.low > cell.untrained.fidelity_interval.high
