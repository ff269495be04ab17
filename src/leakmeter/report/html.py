"""`report.html`: one self-contained file, without a script, whose own policy forbids it to load anything."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import count, groupby
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from leakmeter.report.blocks import Block, Chart, Document, Link, Mono, Numeric, Part, Strong
from leakmeter.report.glossary import GLOSSARY, PLURALS
from leakmeter.report.sections import report_document
from leakmeter.report.sections.attack_by_view import section as attack_by_view
from leakmeter.report.sections.verdict import section as verdict
from leakmeter.report.sections.what_to_do import section as what_to_do
from leakmeter.results import AuditResult

_WORDS = re.compile(rf"\b({'|'.join([*PLURALS, *GLOSSARY])})\b", re.IGNORECASE)


def document_html(document: Document, template: str = "page.html") -> str:
    """The document as a page, or by another template as a part of one."""
    return _environment(document).get_template(template).render(document=document)


def summary_html(result: AuditResult) -> str:
    """The verdict, what follows from it, and what every attack got, for notebooks."""
    return document_html(report_document(result, Path(), (verdict, what_to_do, attack_by_view)), "fragment.html")


def _environment(document: Document) -> Environment:
    """Templates that escape every value, and in which a name that does not exist is an error, never an empty space."""
    made = Environment(
        loader=PackageLoader("leakmeter.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    inline = _Inline({section.id for section in document.sections})
    made.tests["numeric"] = lambda column: isinstance(column, Numeric)
    made.filters |= {
        "runs": _runs,
        "svg": _svg(),
        "base64": lambda png: base64.b64encode(png).decode(),
        "inline": inline,
    }
    made.globals["begin"] = inline.begin
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


class _Inline:
    """Parts of a sentence. Where a section first uses a word of the glossary, hovering says what it means."""

    def __init__(self, targets: set[str]) -> None:
        self._targets, self._said = targets, set[str]()

    def begin(self) -> str:
        """A new section: its reader may not have seen the others."""
        self._said.clear()
        return ""

    def __call__(self, parts: Sequence[Part]) -> Markup:
        return Markup().join(map(self._one, parts))

    def _one(self, part: Part) -> Markup:
        match part:
            case Mono():
                return Markup("<code>{}</code>").format(str(part))
            case Strong():
                return Markup("<strong>{}</strong>").format(str(part))
            case Link(text, section):
                return self._link(section, text)
            case _:
                return Markup().join(map(self._word, _WORDS.split(part)))

    def _link(self, section: str, text: str) -> Markup:
        """Nothing where the section is not there."""
        return Markup('<a href="#{}">{}</a>').format(section, text) if section in self._targets else Markup()

    def _word(self, text: str) -> Markup:
        word = PLURALS.get(text.lower(), text.lower())
        if word not in GLOSSARY or word in self._said or "glossary" not in self._targets:
            return escape(text)
        self._said.add(word)
        return Markup('<a class="word" href="#glossary" title="{}: {}">{}</a>').format(word, GLOSSARY[word], text)
