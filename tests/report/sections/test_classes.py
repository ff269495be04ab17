from leakmeter.evaluation.intervals import exact
from leakmeter.evaluation.score import ClassScore
from leakmeter.report.sections.classes import _row, section
from leakmeter.report.words import span


def rows(found) -> list[list[str]]:
    return [[entry.text for entry in row.entries] for row in found.blocks[0].rows]


def test_seeds_are_pooled_and_classes_named_the_most_copied_first(full_audit):
    shown = rows(section(full_audit, None))
    assert shown[0] == ["digit 0", "100", "90.0%"]
    assert shown[-1] == ["digit 9", "100", "45.0%"]
    assert len(shown) == 10


def test_without_names_a_class_has_its_number_and_many_are_cut(make_audit):
    audit = make_audit(attacks=1, views=("probs",), seeds=1)
    scores = [ClassScore(n=10, same=k % 11) for k in range(100)] + [ClassScore(n=0, same=0)]
    cells = [cell.model_copy(update={"class_scores": scores}) for cell in audit.cells]
    found = section(audit.model_copy(update={"cells": cells}), None)
    assert len(rows(found)) == 40
    assert rows(found)[0][0].startswith("class ")
    assert found.blocks[0].caption == "Agreement by class: the most and the least copied of 100"


def test_left_out_where_it_was_not_measured(make_audit):
    assert section(make_audit(), None) is None


def test_more_seeds_on_the_same_inputs_make_a_class_no_surer():
    assert _row("it", 0.9, 100).entries[-1].below == span(exact(90, 100).low, exact(90, 100).high)
