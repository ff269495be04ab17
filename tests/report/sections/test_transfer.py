import pytest

from leakmeter.evaluation.intervals import attack_mean
from leakmeter.report.sections.transfer import arm_transfers


def test_transfer_is_averaged_over_seeds(make_audit, thief):
    result = make_audit(attacks=1, views=("probs",), seeds=3)
    values = [0.2, 0.4, 0.6]
    cells = [
        cell.model_copy(update={"transfer": thief(value)}) for cell, value in zip(result.cells, values, strict=True)
    ]
    (found,) = arm_transfers(result.model_copy(update={"cells": cells}))
    assert found.rate("copy_rate") == pytest.approx(0.4)
    assert found.interval == attack_mean(values, 100)
    assert [found.rate(kind) for kind in ("noise_rate", "untrained_rate", "white_box_rate")] == pytest.approx(
        [0.05, 0.08, 0.95]
    )


def test_one_seed_is_not_read_as_the_attack(make_audit, thief):
    audit = make_audit(attacks=1, views=("probs",), seeds=1)
    cells = [cell.model_copy(update={"transfer": thief(0.61)}) for cell in audit.cells]
    (found,) = arm_transfers(audit.model_copy(update={"cells": cells}))
    assert found.interval.low < 0.02
    assert found.interval.high > 0.98


def test_two_defenses_are_never_put_together(make_audit, thief):
    audit = make_audit(attacks=1, views=("probs",), defenses=("none", "rounding:1"), seeds=1)
    cells = [
        cell.model_copy(update={"transfer": thief(value)}) for cell, value in zip(audit.cells, (0.6, 0.2), strict=True)
    ]
    found = arm_transfers(audit.model_copy(update={"cells": cells}))
    assert [(each.defense, each.rate("copy_rate")) for each in found] == [("none", 0.6), ("rounding:1", 0.2)]
