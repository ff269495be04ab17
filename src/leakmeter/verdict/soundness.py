"""Checks of the audit itself: each says when it is raised and what that means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch

from leakmeter.evaluation.score import Score
from leakmeter.extraction.findings import COLLAPSED, class_entropy
from leakmeter.oracle.view import contains
from leakmeter.results import CellResult, Check
from leakmeter.verdict.findings import mistaken, whole

FEW_POINTS = 100
SATURATED = 0.95
SAME = 0.98


def soundness(cells: list[CellResult], *, real: bool = True) -> list[Check]:
    """All checks, in the order a reader should take them; `real`: copies were scored on test data."""
    done = [cell for cell in cells if cell.status == "done"]
    attackers = [cell for cell in done if not cell.control]
    return [
        _check(
            "all cells finished",
            [f"{cell.id} failed: {cell.error}" for cell in cells if cell.status == "failed"],
            f"{len(done)} done, {len(cells) - len(done)} skipped",
            "a cell of the plan ended with an error",
            "The strongest attack may be among the missing ones, so the copy may be cheaper than reported.",
        ),
        _check(
            "enough test points",
            _few_points(done),
            "every copy was scored on enough test inputs",
            f"a copy was scored on fewer than {FEW_POINTS} test inputs",
            "The intervals are too wide to tell a good copy from a poor one.",
        ),
        _check(
            "budget spent",
            [f"{c.id} left some of it" for c in attackers if c.spending and _stopped_early(c, attackers)],
            "every attack used its budget",
            "an attack stopped before its budget was spent",
            "The result speaks for the queries really asked; a determined attacker would have gone on.",
        ),
        _check(
            "victim repeatable",
            [f"{cell.id}: the same inputs brought other answers" for cell in done if cell.repeatable is False],
            "the same inputs brought the same answers",
            "the victim answers the same input differently when asked again",
            "Fidelity to a random target has a ceiling below 100 %, and one answer does not show all it may say.",
        ),
        _check(
            "answers informative",
            [f"{c.id}: {c.saturated:.0%} of answers are 0 or 1" for c in done if (c.saturated or 0) > SATURATED],
            "probabilities are not saturated",
            f"more than {SATURATED:.0%} of the victim's probabilities on test data are 0 or 1 to single precision",
            "Views of probabilities then show little more than labels, and logits cannot be recovered from them.",
        ),
        _check(
            "copies beat the control",
            _no_better_than_untrained(attackers),
            "wherever the model was attacked, some copy is better than an untrained network",
            "under some view and defense the interval of every copy reaches down to that of a network that learned "
            "nothing",
            "The attacks failed outright; a low fidelity then says nothing about how well the model is protected.",
        ),
        _check(
            "queries diverse",
            [
                f"{cell.id} collapsed"
                for cell in attackers
                if _collapsed(cell, real) and not _beside_another(cell, attackers, real)
            ],
            "no attack collapsed onto a few classes",
            f"the classes of an attack's answers have less than {COLLAPSED:.0%} of the entropy they could have, and of "
            "what the model's answers to the test inputs have",
            "A collapsed attack is a failed one: its low fidelity is no evidence of protection.",
        ),
        _check(
            "certificates true",
            [f"{cell.id} calls a copy complete that is not" for cell in attackers if mistaken(cell)],
            "no attack called a copy complete that is not",
            "an attack says that it holds the whole model, and fresh points or test inputs say otherwise",
            "The attack is wrong about this victim: what it found is a copy like any other, and may miss a part of it.",
        ),
        _check(
            "copies beat a constant",
            _no_better_than_constant(attackers),
            "through every view some copy is better than one that always names the same class",
            "no copy through a view agrees more often than one that always names the same class",
            "The victim names one class nearly always: a high fidelity then says nothing; read it class by class.",
        ),
        _check(
            "transfer measured",
            [f"{cell.id}: {cell.transfer_error}" for cell in done if cell.transfer_error],
            "adversarial examples were tried wherever the plan asks for them",
            "making or measuring adversarial examples on a copy ended with an error",
            "What the thief can do with that copy is not known; the copy itself was measured all the same.",
        ),
        _check(
            "more shown, more leaked",
            _less_from_more(attackers),
            "no view reads lower than one that shows less",
            "the best copy made where more is shown is surely worse than the best one made where less is",
            "Whoever sees more can throw it away: the attack on the richer view was too weak, its reading is too low.",
        ),
        *_white_box(done),
        *([] if real else [_drawn_varied(done)]),
    ]


def _drawn_varied(done: list[CellResult]) -> Check:
    scores = [cell.final.score.by_class for cell in done if cell.final is not None and cell.final.score is not None]
    constant = max((each.constant for each in scores if each is not None), default=0.0)
    return _check(
        "drawn inputs varied",
        [f"the model names one class for {constant:.0%} of them"] if constant > SAME else [],
        "the model names several classes for inputs drawn by chance",
        f"there are no test data and the model names one class for more than {SAME:.0%} of inputs drawn by chance",
        "Agreement on such inputs says nothing: give test data, or check the range (low, high) of the inputs.",
    )


def _white_box(done: list[CellResult]) -> list[Check]:
    """Nothing where no white box was measured, as of a server: a check that cannot fail says nothing."""
    if not any(cell.transfer is not None and cell.transfer.white_box_rate is not None for cell in done):
        return []
    return [
        _check(
            "white box strongest",
            [f"{cell.id}: the copy's examples transfer better than white-box ones" for cell in done if _odd(cell)],
            "white-box examples are at least as strong as transferred ones",
            "adversarial examples made on a copy fool the victim more often than those made on the victim itself",
            "The white-box attack is too weak or the victim hides its gradients; transfer rates understate the risk.",
        )
    ]


def _check(name: str, problems: list[str], fine: str, raised_if: str, means: str) -> Check:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    message = problems[0] + more if problems else fine
    return Check(name=name, ok=not problems, message=message, raised_if=raised_if, means=means)


def _few_points(cells: Iterable[CellResult]) -> list[str]:
    scored = [
        (cell.id, cell.final.score.n) for cell in cells if cell.final is not None and cell.final.score is not None
    ]
    return [f"{name}: {n:,} test inputs" for name, n in scored if n < FEW_POINTS]


def _stopped_early(cell: CellResult, attackers: list[CellResult]) -> bool:
    """Whoever holds the whole model or asked every input has no use for the rest, nor has who gives up and says why."""
    assert cell.spending is not None
    asked = cell.findings is not None and cell.findings.all_asked
    if cell.spending.queries >= cell.budget or whole(cell) or asked:
        return False
    gave_up = cell.findings is not None and cell.findings.missing is not None
    return not gave_up or not any(
        other.spending is not None and other.spending.queries >= other.budget
        for other in attackers
        if (other.view, other.defense, other.seed) == (cell.view, cell.defense, cell.seed)
    )


def _collapsed(cell: CellResult, real: bool) -> bool:
    """A victim that names few classes on real test inputs, too, is no collapse of whoever asks it."""
    if cell.findings is None or cell.findings.class_entropy is None or not cell.findings.collapsed:
        return False
    there = class_entropy(torch.tensor([each.n for each in cell.class_scores])) if real else None
    return there is None or cell.findings.class_entropy < COLLAPSED * there


def _beside_another(cell: CellResult, attackers: list[CellResult], real: bool) -> bool:
    """Whether one that did not collapse attacked the surface, and the cell gave up, which it says, or reads less."""
    gave_up = cell.findings is not None and cell.findings.missing is not None
    return any(
        (other.view, other.defense, other.seed) == (cell.view, cell.defense, cell.seed)
        and not _collapsed(other, real)
        and (gave_up or _fidelity(other) > _fidelity(cell))
        for other in attackers
    )


def _fidelity(cell: CellResult) -> float:
    return -1.0 if cell.final is None or cell.final.score is None else cell.final.score.fidelity


def _less_from_more(cells: list[CellResult]) -> list[str]:
    """Pairs of undefended views of which the richer one reads surely lower.

    What a defense shows may well mislead who believes it: there labels alone count beside it (`closure.py`).
    """
    best: dict[str, Score] = {}
    for cell in (cell for cell in cells if cell.defense == "none"):
        score = None if cell.final is None else cell.final.score
        if score is not None and (cell.view not in best or score.fidelity > best[cell.view].fidelity):
            best[cell.view] = score
    return [
        f"showing {view} reads {more.fidelity:.1%} and showing {less_view} {less.fidelity:.1%}"
        for view, more in best.items()
        for less_view, less in best.items()
        if contains(view, less_view) and more.fidelity_interval.high < less.fidelity_interval.low
    ]


def _no_better_than_untrained(cells: list[CellResult]) -> list[str]:
    """The surfaces on which no attack got anywhere; that one of several is weak there weakens nothing."""
    surfaces: dict[tuple[str, str], list[CellResult]] = defaultdict(list)
    for cell in cells:
        if cell.final is not None and cell.final.score is not None:
            surfaces[cell.view, cell.defense].append(cell)
    return [
        f"showing {view}, defense {defense}, no copy is better than an untrained network"
        for (view, defense), there in surfaces.items()
        if not _beats_untrained(there)
    ]


def _beats_untrained(cells: list[CellResult]) -> bool:
    """Whether some copy does; one of an attack without a control of its own must beat those of all others."""
    controls = [cell.untrained.fidelity_interval.high for cell in cells if cell.untrained is not None]
    if not controls:
        return True
    lines = [max(controls) if cell.untrained is None else cell.untrained.fidelity_interval.high for cell in cells]
    finals = [cell.final.score for cell in cells if cell.final is not None and cell.final.score is not None]
    return any(score.fidelity_interval.low > line for score, line in zip(finals, lines, strict=True))


def _odd(cell: CellResult) -> bool:
    if cell.transfer is None or cell.transfer.white_box_rate is None:
        return False
    return cell.transfer.copy_rate.interval.low > cell.transfer.white_box_rate.interval.high


def _no_better_than_constant(cells: list[CellResult]) -> list[str]:
    """Cells no better than a constant, where no other attacker through the same view is: one that fails is no fault."""
    good = {(cell.view, cell.defense) for cell in cells if _above_constant(cell)}
    poor = [cell for cell in cells if not _beats_constant(cell) and (cell.view, cell.defense) not in good]
    return [f"{cell.id} is no better than naming one class" for cell in poor]


def _above_constant(cell: CellResult) -> bool:
    score = None if cell.final is None else cell.final.score
    return score is not None and score.by_class is not None and score.fidelity > score.by_class.constant


def _beats_constant(cell: CellResult) -> bool:
    score = None if cell.final is None else cell.final.score
    if score is None or score.by_class is None or score.by_class.constant == 1:
        return True
    return score.fidelity > score.by_class.constant or score.by_class.unnamed == 0
