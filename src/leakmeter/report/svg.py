"""A matplotlib figure as SVG inside a page: the same bytes every time, named for screen readers, in the page's colours.

Figures are drawn in stand-in colours, which become CSS variables here: one drawing serves light, dark and print. Text
stays text (escaped by the XML writer), in the page's own font.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")

ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", _XLINK)

INK, MUTED, RULE = "#0000f0", "#0000f1", "#0000f2"
SERIES = tuple(f"#00000{k}" for k in range(1, 7))
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


@contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """An empty figure of that many CSS pixels; draw, and call `to_svg`, inside the `with` block."""
    with mpl.rc_context(_SETTINGS):
        yield Figure(figsize=(width / 72, height / 72), layout=None)


def plain_text(text: str, limit: int = 200) -> str:
    """Text that XML can hold, on one line, cut to `limit` characters."""
    text = _CONTROL.sub(" ", text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def to_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """The figure as an `<svg>` element whose ids all begin with `name`."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata=_NO_METADATA)
    root = ElementTree.fromstring(buffer.getvalue())
    root.remove(root[0])  # matplotlib's own style sheet would reach the whole page
    for element in root.iter():
        _restyle(element)
        _rename(element, name)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"{name}-title {name}-desc", "class": "chart"}
    root[:0] = [_named("title", f"{name}-title", title), _named("desc", f"{name}-desc", description)]
    return ElementTree.tostring(root, encoding="unicode")


def _named(tag: str, name: str, text: str) -> ElementTree.Element:
    element = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": name})
    element.text = plain_text(text, 2000)
    return element


def _restyle(element: ElementTree.Element) -> None:
    """Stand-in colours become variables; the font is left to the page, its size is not."""
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
