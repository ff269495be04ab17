"""A chart as SVG inside a page: the same bytes every time, named for screen readers, in the page's colours.

Figures are drawn in stand-in colours, which become CSS variables here: one drawing serves light, dark and print. Text
stays text (escaped by the XML writer), in the page's own font.
"""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

from leakmeter.report.blocks import Chart
from leakmeter.report.charts import INK, MUTED, RULE, SERIES
from leakmeter.report.words import plain_text

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))

ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", _XLINK)

_WIDTH, _HEIGHT = 430, 310  # CSS pixels
_AXES = (0.12, 0.145, 0.575, 0.825)
_VARIABLES = {INK: "--ink", MUTED: "--muted", RULE: "--rule"} | {
    color: f"--series-{k}" for k, color in enumerate(SERIES, 1)
}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "leakmeter",
    "text.parse_math": False,  # a label with a dollar sign is a label
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "font.size": 11,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.minor.size": 0,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
}


def chart_svg(chart: Chart, name: str) -> str:
    """The chart as an `<svg>` element whose ids all begin with `name`."""
    buffer = io.BytesIO()
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(_WIDTH / 72, _HEIGHT / 72), layout=None)
        chart.draw(figure.add_axes(_AXES))
        figure.savefig(buffer, format="svg", transparent=True, metadata=_NO_METADATA)
    root = ElementTree.fromstring(buffer.getvalue())
    root.remove(root[0])  # matplotlib's own style sheet would reach the whole page
    for element in root.iter():
        element.text, element.tail = (text if text and text.strip() else None for text in (element.text, element.tail))
        _restyle(element)
        _rename(element, name)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"{name}-title {name}-desc", "class": "chart"}
    root[:0] = [_named("title", f"{name}-title", chart.title), _named("desc", f"{name}-desc", chart.description)]
    return ElementTree.tostring(root, encoding="unicode")


def _named(tag: str, name: str, text: str) -> ElementTree.Element:
    element = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": name})
    element.text = plain_text(text, 2000)
    return element


def _restyle(element: ElementTree.Element) -> None:
    """Stand-in colours become variables; the font is left to the page, its size is not; numbers lose what none sees."""
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    for key, value in element.attrib.items():
        if key in ("d", "x", "y", "transform"):
            element.set(key, re.sub(r"(\.\d\d)\d+", r"\1", value))  # a hundredth of a pixel
    style = element.get("style", "")
    if element.tag == f"{{{_SVG}}}text":
        style = re.sub(
            r"font-family: [^;]*; ?", "", re.sub(r"font: (?:\S+ )*?([\d.]+px)", r"font-size: \1; font-family:", style)
        )
    for color, variable in _VARIABLES.items():
        style = style.replace(color, f"var({variable})")
    if style:
        element.set("style", style)


def _rename(element: ElementTree.Element, name: str) -> None:
    """Ids of one chart must not be those of another; groups need none."""
    if element.tag == f"{{{_SVG}}}g":
        element.attrib.pop("id", None)
    for key, value in element.attrib.items():
        if key == "id":
            element.set(key, f"{name}-{value}")
        elif key == f"{{{_XLINK}}}href" and value.startswith("#"):
            element.set(key, f"#{name}-{value[1:]}")
        elif "url(#" in value:
            element.set(key, value.replace("url(#", f"url(#{name}-"))
