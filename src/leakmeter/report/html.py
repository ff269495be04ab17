"""`report.html`: one self-contained file, without a script, whose own policy forbids it to load anything."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from itertools import count, groupby
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from leakmeter.report.blocks import Block, Chart, Document, Link, Mono, Numeric, Part, Strong
from leakmeter.report.sections import report_document
from leakmeter.report.sections.attack_by_view import section as attack_by_view
from leakmeter.report.sections.verdict import section as verdict
from leakmeter.results import AuditResult


def document_html(document: Document, template: str = "page.html") -> str:
    """The document as a page, or by another template as a part of one."""
    return _environment(document).get_template(template).render(document=document)


def summary_html(result: AuditResult) -> str:
    """The verdict and what every attack got, for notebooks."""
    return document_html(report_document(result, Path(), (verdict, attack_by_view)), "fragment.html")


def _environment(document: Document) -> Environment:
    """Templates that escape every value, and in which a name that does not exist is an error, never an empty space."""
    made = Environment(
        loader=PackageLoader("leakmeter.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.tests["numeric"] = lambda column: isinstance(column, Numeric)
    made.filters |= {
        "runs": _runs,
        "svg": _svg(),
        "base64": lambda png: base64.b64encode(png).decode(),
        "inline": _inline({section.id for section in document.sections}),
    }
    return made


def _runs(blocks: Iterable[Block]) -> list[tuple[str, list[Block]]]:
    """Blocks of a kind that follow each other, with the name of the kind: charts stand side by side."""
    return [(kind, list(run)) for kind, run in groupby(blocks, key=lambda block: type(block).__name__)]


def _svg() -> Callable[[Chart], Markup]:
    """Draws charts; the ids of one are not those of another."""
    numbers = count(1)

    def draw(chart: Chart) -> Markup:
        from leakmeter.report.svg import chart_svg

        return Markup(chart_svg(chart, f"chart-{next(numbers)}"))  # made by an XML writer

    return draw


def _inline(targets: set[str]) -> Callable[[Sequence[Part]], Markup]:
    """Parts of a sentence; a link to a section that is not there is plain words."""

    def one(part: Part) -> Markup:
        match part:
            case Mono():
                return Markup("<code>{}</code>").format(str(part))
            case Strong():
                return Markup("<strong>{}</strong>").format(str(part))
            case Link(text, section):
                return Markup('<a href="#{}">{}</a>').format(section, text) if section in targets else escape(text)
            case _:
                return escape(part)

    return lambda parts: Markup().join(map(one, parts))
