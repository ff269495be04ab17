import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from leakmeter.report.charts import query_axis
from leakmeter.report.sections.certified import certified_chart
from leakmeter.report.sections.copy_cost import cost_chart, drawn
from leakmeter.report.sections.defenses import defense_chart, defense_effects
from leakmeter.report.surfaces import Surface, surfaces
from leakmeter.report.svg import chart_svg
from leakmeter.results import Certified

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_line_is_named_where_it_ends(make_audit):
    probs = surfaces(make_audit())[0]
    svg = chart_svg(cost_chart(probs), "c")
    assert {"procedural", "dfme", "surrogate (gaussian)", "control", "untrained", "the model itself"} <= set(texts(svg))
    assert {"250", "8k", "0%", "100%", "queries", "fidelity"} <= set(texts(svg))


def test_control_arms_are_dashed_and_others_are_not(make_audit):
    probs = surfaces(make_audit())[0]

    def dashes(arms):
        return chart_svg(cost_chart(Surface("probs", "none", arms, None)), "c").count("stroke-dasharray")

    assert dashes([arm for arm in probs.arms if not arm.control]) == 0
    assert dashes([arm for arm in probs.arms if arm.control]) == 1


def test_colours_are_left_to_the_page(full_audit):
    points = [(each.distortion, each) for each in defense_effects(full_audit) if each.view == "probs"]
    for chart in (cost_chart(surfaces(full_audit)[0]), defense_chart("probs", "distortion", points)):
        svg = chart_svg(chart, "a")
        assert not re.search(r"#[0-9a-fA-F]{6}", svg)
        assert "font-family" not in svg
        assert "<style" not in svg
        assert "var(--series-1)" in svg


def test_it_has_a_title_and_a_description_in_words(make_audit):
    root = ElementTree.fromstring(chart_svg(cost_chart(surfaces(make_audit())[1]), "c"))
    assert root.attrib["role"] == "img"
    assert root.find(f"{SVG}title").text == "Fidelity by queries, showing labels"
    assert "procedural: " in root.find(f"{SVG}desc").text
    assert root.attrib["aria-labelledby"].split() == [root[0].attrib["id"], root[1].attrib["id"]]


def test_numbers_of_queries_do_not_lie_on_each_other():
    figure = Figure()
    axes = figure.add_axes((0, 0, 1, 1))
    for stops, shown in (((1, 16, 62, 63, 500), [1, 16, 63, 500]), ((250, 8000), [250, 8000]), ((7,), [7]), ((), None)):
        query_axis(axes, stops)
        assert shown is None or list(axes.get_xticks()) == shown


@pytest.mark.parametrize("label", ["<script>x</script>", "$\\frac{1}{$", "a\x00b\x1b", "&amp; \"'", "λ ≤ 3", "x" * 300])
def test_any_label_stays_a_label(make_audit, label):
    probs = surfaces(make_audit(attacks=1))[0]
    arm = probs.arms[0].model_copy(update={"label": label})
    svg = chart_svg(cost_chart(Surface(label, "none", [arm], 0.1)), "c")
    shown = "".join(c if c.isprintable() else " " for c in label)
    assert any(text and shown.startswith(text.rstrip("…")) and len(text) > 1 for text in texts(svg))
    assert "<script" not in svg


def test_a_single_point_keeps_its_interval(make_audit):
    probs = surfaces(make_audit(attacks=1))[0]
    arm = probs.arms[0].model_copy(update={"curve": [(500, 0.6, 0.5, 0.7)], "copies": [[0.5, 0.6, 0.7]]})
    one = chart_svg(cost_chart(Surface("probs", "none", [arm], None)), "c")
    none = chart_svg(cost_chart(Surface("probs", "none", [], None)), "c")
    assert one.count("<path") > none.count("<path")


def test_ids_of_two_charts_differ(make_audit):
    probs, labels = surfaces(make_audit())
    drawings = [chart_svg(cost_chart(each), name) for each, name in ((probs, "c1"), (labels, "c2"))]
    ids = [set(re.findall(r' id="([^"]+)"', svg)) for svg in drawings]
    assert not ids[0] & ids[1]
    svg = drawings[0]
    assert set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", svg)) <= ids[0]


def test_too_many_arms_keep_the_strongest(make_audit):
    probs = surfaces(make_audit(attacks=14, seeds=1, views=("probs",)))[0]
    kept = drawn(probs)
    assert len(kept) == 8
    assert kept[0] == probs.best
    assert min(arm.fidelity for arm in kept) >= max(arm.fidelity for arm in probs.attackers if arm not in kept)


def test_names_do_not_overlap(make_audit):
    probs = surfaces(make_audit(attacks=1))[0]
    arms = [probs.arms[0].model_copy(update={"label": f"attack-{k}", "fidelity": 0.5}) for k in range(6)]
    root = ElementTree.fromstring(chart_svg(cost_chart(Surface("probs", "none", arms, None)), "c"))
    heights = sorted(
        float(text.attrib["y"]) for text in root.iter(f"{SVG}text") if (text.text or "").startswith("attack-")
    )
    assert len(heights) == 6
    assert min(b - a for a, b in pairwise(heights)) > 11


def test_certified_curves():
    curve = Certified(label="sigma 0.5", n=10, alpha=0.001, points=[(0.0, 0.9), (1.0, 0.2)])
    assert {"sigma 0.5", "l2 radius", "certified accuracy"} <= set(texts(chart_svg(certified_chart(curve), "c")))
    assert chart_svg(certified_chart(curve.model_copy(update={"points": []})), "c")
