"""What a report is made of: a document is a list of sections, a section a list of blocks.

Sections say what is to be shown; `html` and `markdown` write the same blocks down, each in its own way. Every text is
plain text: whoever renders it escapes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Tone = Literal["good", "bad", "unsure", "plain"]


class Mono(str):
    """Code inside a sentence."""


class Strong(str):
    """What must not be missed in a sentence."""


@dataclass(frozen=True)
class Link:
    """Words behind a sentence that lead to another section; a format without links drops them."""

    text: str
    section: str


Part = str | Link


class Paragraph:
    """A sentence or a few; muted ones explain what stands beside them."""

    def __init__(self, *parts: Part, muted: bool = False) -> None:
        self.parts, self.muted = parts, muted


class Callout:
    """What a reader must see before the numbers."""

    def __init__(self, tone: Tone, *parts: Part) -> None:
        self.tone, self.parts = tone, parts


@dataclass(frozen=True)
class Steps:
    """A numbered list."""

    items: Sequence[Sequence[Part]]


@dataclass(frozen=True)
class Headline:
    """The answer, above everything; the section it begins has no other title."""

    eyebrow: str
    badge: str
    tone: Tone
    text: str


@dataclass(frozen=True)
class Heading:
    """A title within a section."""

    text: str


@dataclass(frozen=True)
class Figures:
    """Large numbers: each with what it is, and where it comes from."""

    items: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    items: Sequence[tuple[str, str]]


class Numeric(str):
    """The name of a column of numbers, which are set to the right."""


@dataclass(frozen=True)
class Entry:
    """A table's cell that is more than text."""

    text: str
    below: str = ""
    """A second, smaller line."""
    tone: Tone = "plain"
    share: float | None = None
    """From 0 to 1: how strongly the cell is coloured."""


class Row:
    """A line of a table; its first entry names it. A control is there to be compared with."""

    def __init__(self, *entries: str | Entry, control: bool = False) -> None:
        self.entries = [Entry(entry) if isinstance(entry, str) else entry for entry in entries]
        self.control = control


@dataclass(frozen=True)
class Table:
    """Rows under named columns, or rows in named groups; one without rows is not shown."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Row] | Mapping[str, Sequence[Row]]

    @property
    def groups(self) -> list[tuple[str, Sequence[Row]]]:
        """Each group's title and rows; rows without groups are one of no title."""
        groups = list(self.rows.items()) if isinstance(self.rows, Mapping) else [("", self.rows)]
        return [group for group in groups if group[1]]


@dataclass(frozen=True)
class Chart:
    """A drawing with its numbers. `draw` is handed matplotlib's axes, and only by a format that shows pictures."""

    title: str
    description: str
    """What the chart says, for those who do not see it."""
    draw: Callable[[Any], None]
    numbers: Table | None = None


@dataclass(frozen=True)
class Picture:
    """A PNG of the run folder."""

    caption: str
    alt: str
    png: bytes
    path: str
    """Where it lies in the folder."""


@dataclass(frozen=True)
class Preformatted:
    """Text as it was written."""

    text: str


@dataclass(frozen=True)
class Folded:
    """Blocks that wait to be opened."""

    title: str
    blocks: Sequence[Block]


Block = (
    Paragraph | Callout | Steps | Headline | Heading | Figures | Facts | Table | Chart | Picture | Preformatted | Folded
)


@dataclass(frozen=True)
class Section:
    """A part of a document."""

    id: str
    title: str
    lead: str
    """What a reader should know before the rest, in a sentence or two."""
    blocks: Sequence[Block]
    summary: bool = False
    """Whether it belongs to the first printed page."""


@dataclass(frozen=True)
class Document:
    """What a format writes down."""

    title: str
    sections: Sequence[Section]
    footer: str = ""
