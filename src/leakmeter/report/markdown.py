"""`report.md`: the document as text, for pull requests and wikis. A chart is told in words, a picture is a link."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from leakmeter.report import blocks as b
from leakmeter.shown import shown

_APART = "\N{ZERO WIDTH SPACE}"
_LIVE = re.compile(r"@(?=\w)|#(?=\d)|\b[Gg][Hh]-(?=\d)|:(?=//)|\b[Ww]{3}(?=\.)|\bmailto:|\bxmpp:")
"""What sites make links and mentions of by themselves."""


def document_markdown(document: b.Document) -> str:
    """Every section under its title; the one that begins with a headline has no other."""
    parts: list[str] = []
    for section in document.sections:
        begun = section.blocks and isinstance(section.blocks[0], b.Headline)
        parts += [] if begun else [f"## {escaped(section.title)}"]
        parts += [escaped(section.lead), *map(_block, section.blocks)]
    return "\n\n".join([*filter(None, parts), escaped(document.footer)]) + "\n"


def escaped(value: object) -> str:
    """Text that stays text in Markdown, in a table and in the HTML that it becomes."""
    text = re.sub(r"([\\`*_\[\]|~])", r"\\\1", re.sub(r"\s+", " ", shown(str(value))))
    text = _LIVE.sub(lambda found: f"{found[0]}{_APART}", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _block(block: b.Block) -> str:
    match block:
        case b.Paragraph():
            return _inline(block.parts)
        case b.Callout():
            return f"> {_inline(block.parts)}"
        case b.Steps(items):
            return "\n".join(f"{number}. {_inline(item)}" for number, item in enumerate(items, 1))
        case b.Headline(eyebrow, badge, _, text):
            return f"# {escaped(text)}\n\n" + (f"**{escaped(badge)}.** " if badge else "") + f"{escaped(eyebrow)}."
        case b.Heading(text):
            return f"### {escaped(text)}"
        case b.Figures(items):
            return "\n".join(f"- **{escaped(n)}** {escaped(what)} ({escaped(source)})" for n, what, source in items)
        case b.Facts(items):
            return "\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in items)
        case b.Table():
            return _table(block)
        case b.Chart(title, description):
            return f"*{escaped(title)}*: {escaped(description)}."
        case b.Picture(caption, _, _, path):
            return f"[{escaped(caption)}]({quote(path)})"
        case b.Preformatted(text):
            return _fenced(text)
        case b.Folded(title, inner):
            return "\n\n".join([f"**{escaped(title)}**", *map(_block, inner)])


def _inline(parts: Sequence[b.Part]) -> str:
    return "".join(map(_part, parts))


def _part(part: b.Part) -> str:
    match part:
        case b.Mono():
            return "`" + shown(part).replace("`", "'") + "`"
        case b.Strong():
            return f"**{escaped(part)}**"
        case b.Link():
            return ""  # how sections are addressed is each site's own
        case _:
            return escaped(part)


def _table(table: b.Table) -> str:
    """Nothing without rows; a group's title is a row of its own."""
    width = len(table.columns)
    lines = [_line(map(escaped, table.columns))]
    lines.append(
        "|" + "|".join(" ---: " if isinstance(column, b.Numeric) else " --- " for column in table.columns) + "|"
    )
    for title, rows in table.groups:
        lines += [_line([f"**{escaped(title)}**"] + [""] * (width - 1))] if title else []
        lines += [_line(map(escaped, _texts(row))) for row in rows]
    return "\n".join(lines) if table.groups else ""


def _line(entries: Iterable[str]) -> str:
    return f"| {' | '.join(entries)} |"


def _texts(row: b.Row) -> list[str]:
    texts = [f"{each.text} ({each.below})" if each.below else each.text for each in row.entries]
    return [texts[0] + " (control)" if row.control else texts[0], *texts[1:]]


def _fenced(text: str) -> str:
    """The fence is longer than any in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}\n{shown(text.rstrip())}\n{fence}"
