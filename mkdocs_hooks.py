"""The site holds what its pages link to: the README as its start, and result files from outside `docs/`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent
_OUTSIDE = re.compile(r"\]\(\.\./([^)#]+)")
_IN_README = re.compile(r"\]\((?!https?:|#)(?:docs/)?([^)]+)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the start page and every file that a page links to with `../`."""
    readme = _IN_README.sub(r"](\1", (ROOT / "README.md").read_text())
    files.append(File.generated(config, "index.md", content=readme))
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    linked = {found for page in pages for found in _OUTSIDE.findall(page.read_text())}
    linked |= {found for found in _IN_README.findall(readme) if not (ROOT / "docs" / found.split("#")[0]).exists()}
    for path in sorted(linked):
        if (ROOT / path).is_file():
            files.append(File.generated(config, path, content=(ROOT / path).read_bytes()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links within the site."""
    return _OUTSIDE.sub(r"](\1", markdown)
