import pytest

from leakmeter.report.sections.defenses import defense_effects


def test_a_defense_is_compared_under_its_own_view(full_audit):
    effects = {(each.defense, each.view): each for each in defense_effects(full_audit)}
    bare, rounded = effects["none", "labels"], effects["rounding:1", "labels"]
    assert rounded.gain == pytest.approx(bare.fidelity - rounded.fidelity)
    assert rounded.gain > 0
    assert (rounded.accuracy_loss, rounded.distortion) == (0.001, 0.03)


def test_without_a_defense_there_is_nothing_to_compare(make_audit):
    assert defense_effects(make_audit()) == []
