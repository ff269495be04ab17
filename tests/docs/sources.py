"""Finds the figures of a page that nothing vouches for."""

from __future__ import annotations

import re
from collections.abc import Iterable

FIGURE = re.compile(r"(?<![\w./,^−-])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(e-?\d+)?(?:\s?(%))?(?![\w.]*\w)")
GIVEN = re.compile(r"<!-- given:(.*?)-->", re.S)
NO_FIGURE = re.compile(r"^```.*?^```|`[^`]*`|<!--.*?-->|\]\([^)]*\)|^#.*?$|\b(?:19|20)\d\d\b", re.S | re.M)
"""Code, comments, addresses, headings, years."""


def unvouched(page: str, texts: Iterable[str]) -> list[str]:
    """Figures of a page outside `texts` that their section does not give either, each with what stands before it."""
    for text in texts:
        page = re.sub(r"\s+".join(map(re.escape, text.split())), lambda found: _hidden(found.group(0)), page)
    loose = []
    for section in re.split(r"^(?=##* )", re.sub(r"^```.*?^```", "", page, flags=re.S | re.M), flags=re.M):
        given = {figure.strip() for words in GIVEN.findall(section) for figure in words.replace("%", " %").split(", ")}
        given = {re.sub(r"\s+", " ", figure) for figure in given}
        plain = NO_FIGURE.sub(lambda found: " " * len(found.group(0)), section)
        for found in FIGURE.finditer(plain):
            figure = re.sub(r"\s*%", " %", found.group(0).strip())
            if is_measured(figure) and figure not in given:
                loose.append(f"{section[max(0, found.start() - 40) : found.end()]}".replace("\n", " "))
    return loose


def _hidden(text: str) -> str:
    """Without its digits; code marks stay in pairs."""
    return re.sub(r"\d", "_", text)


def is_measured(figure: str) -> bool:
    """Whether a number may have been measured: small whole ones count or name things."""
    return bool(re.search(r"[.%e]", figure)) or len(figure.replace(",", "")) > 2
