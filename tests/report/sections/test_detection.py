from leakmeter.report.sections.detection import arm_detections, fired_words


def test_a_detector_that_never_fired_says_so(make_audit):
    result = make_audit(attacks=1, views=("probs",), seeds=3)
    moments = [None, 300, 1200]
    cells = [
        cell.model_copy(update={"notes": {"detector": {"detector": "PRADA", "fired_at": at, "queries": 8000}}})
        for cell, at in zip(result.cells, moments, strict=True)
    ]
    (found,) = arm_detections(result.model_copy(update={"cells": cells})).values()
    assert fired_words(found) == "300 to 1,200 of 8,000, never in 1 of 3 runs"
    assert fired_words(found[1:2]) == "300 of 8,000"
    alarm = found[0].model_copy(update={"benign": 7})
    assert fired_words([alarm]) == "never in 8,000; honest test data sets it off too"
