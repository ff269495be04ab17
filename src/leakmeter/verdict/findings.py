"""What attacks themselves found, as the verdict reads it: in one place, whatever wrote it."""

from __future__ import annotations

from leakmeter.results import CellResult

COLLAPSED = 0.5
"""Below this share of the highest class entropy, the queries have collapsed onto a few classes."""
WHOLE = 0.99
"""The least fidelity that a copy of the whole model has: rounding may move a close call."""


def collapsed(cell: CellResult) -> bool:
    """Whether the answers the attack drew name only a few classes."""
    answers = cell.notes.get("answers") or []
    entropy = cell.notes.get("class_entropy", answers[-1]["class_entropy"] if answers else None)
    return bool(cell.notes.get("collapsed")) or (entropy is not None and entropy < COLLAPSED)


def complete(cell: CellResult) -> bool:
    """Whether the attack believes that it holds the whole model."""
    return bool((cell.notes.get("certificate") or {}).get("complete"))


def confirmed(cell: CellResult) -> bool:
    """Whether the owner's own measurement says so too: nothing differs on fresh points but rounding."""
    return complete(cell) and bool(cell.notes["certificate"].get("exact"))


def mistaken(cell: CellResult) -> bool:
    """Whether an attack calls a copy complete that is not."""
    score = None if cell.final is None else cell.final.score
    return complete(cell) and (not confirmed(cell) or (score is not None and score.fidelity < WHOLE))


def explained(cell: CellResult) -> bool:
    """Whether the attack read the explanations it was shown."""
    from leakmeter.extraction.base import ATTACKS

    return "+" in cell.view and cell.attack in ATTACKS and ATTACKS[cell.attack].reads_explanations
