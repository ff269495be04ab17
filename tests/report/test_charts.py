import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from leakmeter.report.charts import certified_chart, cost_chart, defense_chart, drawn
from leakmeter.report.facts import Surface, defense_rows, surfaces
from leakmeter.results import Certified

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_line_is_named_where_it_ends(make_audit):
    probs = surfaces(make_audit())[0]
    svg = cost_chart(probs, "c")
    assert {"procedural", "dfme", "surrogate (gaussian)", "control", "untrained", "the model itself"} <= set(texts(svg))
    assert {"250", "8k", "0%", "100%", "queries", "fidelity"} <= set(texts(svg))


def test_control_arms_are_dashed_and_others_are_not(make_audit):
    probs = surfaces(make_audit())[0]

    def dashes(arms):
        return cost_chart(Surface(1, "probs", "none", arms, None), "c").count("stroke-dasharray")

    assert dashes([arm for arm in probs.arms if not arm.control]) == 0
    assert dashes([arm for arm in probs.arms if arm.control]) == 1


def test_colours_are_left_to_the_page(full_audit):
    rows = [row for row in defense_rows(full_audit) if row.view == "probs"]
    for svg in (cost_chart(surfaces(full_audit)[0], "a"), defense_chart(rows, "distortion", "b")):
        assert not re.search(r"#[0-9a-fA-F]{6}", svg)
        assert "font-family" not in svg
        assert "<style" not in svg
        assert "var(--series-1)" in svg


def test_it_has_a_title_and_a_description_in_words(make_audit):
    root = ElementTree.fromstring(cost_chart(surfaces(make_audit())[1], "c"))
    assert root.attrib["role"] == "img"
    assert root.find(f"{SVG}title").text == "What a copy costs when the API shows labels"
    assert "procedural: " in root.find(f"{SVG}desc").text
    assert root.attrib["aria-labelledby"].split() == [root[0].attrib["id"], root[1].attrib["id"]]


@pytest.mark.parametrize("label", ["<script>x</script>", "$\\frac{1}{$", "a\x00b\x1b", "&amp; \"'", "λ ≤ 3", "x" * 300])
def test_any_label_stays_a_label(make_audit, label):
    probs = surfaces(make_audit(attacks=1))[0]
    arm = probs.arms[0].model_copy(update={"label": label})
    svg = cost_chart(Surface(1, label, "none", [arm], 0.1), "c")
    shown = "".join(c if c.isprintable() else " " for c in label)
    assert any(text and shown.startswith(text.rstrip("…")) and len(text) > 1 for text in texts(svg))
    assert "<script" not in svg


def test_a_single_point_keeps_its_interval(make_audit):
    probs = surfaces(make_audit(attacks=1))[0]
    arm = probs.arms[0].model_copy(update={"curve": [(500, 0.6, 0.5, 0.7)]})
    one = cost_chart(Surface(1, "probs", "none", [arm], None), "c")
    none = cost_chart(Surface(1, "probs", "none", [], None), "c")
    assert one.count("<path") > none.count("<path")


def test_ids_of_two_charts_differ(make_audit):
    probs, labels = surfaces(make_audit())
    ids = [set(re.findall(r' id="([^"]+)"', cost_chart(each, f"c{each.key}"))) for each in (probs, labels)]
    assert not ids[0] & ids[1]
    svg = cost_chart(probs, "c1")
    assert set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", svg)) <= ids[0]


def test_too_many_arms_keep_the_strongest(make_audit):
    probs = surfaces(make_audit(attacks=14, seeds=1))[0]
    kept = drawn(probs)
    assert len(kept) == 8
    assert kept[0] == probs.best
    assert min(arm.fidelity for arm in kept) >= max(arm.fidelity for arm in probs.attackers if arm not in kept)


def test_names_do_not_overlap(make_audit):
    probs = surfaces(make_audit(attacks=1))[0]
    arms = [probs.arms[0].model_copy(update={"label": f"attack-{k}", "fidelity": 0.5}) for k in range(6)]
    root = ElementTree.fromstring(cost_chart(Surface(1, "probs", "none", arms, None), "c"))
    heights = sorted(
        float(text.attrib["y"]) for text in root.iter(f"{SVG}text") if (text.text or "").startswith("attack-")
    )
    assert len(heights) == 6
    assert min(b - a for a, b in pairwise(heights)) > 11


def test_certified_curves():
    curve = Certified(label="sigma 0.5", n=10, alpha=0.001, points=[(0.0, 0.9), (1.0, 0.2)])
    assert {"sigma 0.5", "l2 radius", "certified accuracy"} <= set(texts(certified_chart([curve], "c")))
    assert certified_chart([curve.model_copy(update={"points": []})], "c")
