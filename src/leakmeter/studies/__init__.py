"""The papers' tables and figures, and our own: each study is one command that writes its numbers and its picture.

A study is a file `PAPER/NAME.py` with a function `main(options)` that writes `<name>.json`, with its command inside,
and its figures into `options.out`, and returns what the JSON holds, and a function `rows` that tells it in lines. What
is already in the JSON is not computed again, so a study killed half-way goes on. The file's place is its name:
`stn/fig1.py` is `stn-fig1`, `ours/procedural.py` is `procedural`; files that begin with an underscore are what the
studies of a paper share.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leakmeter.registry import Registry
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row

Study = Callable[[StudyOptions], dict[str, Any]]
Tells = Callable[[dict[str, Any]], list[Row]]


def _found(function: str = "main") -> dict[str, str]:
    files = sorted(Path(__file__).parent.glob("*/[!_]*.py"))
    places = [(file.parent.name, file.stem) for file in files]
    names = [name if paper == "ours" else f"{paper}-{name}" for paper, name in places]
    return {
        name.replace("_", "-"): f"leakmeter.studies.{'.'.join(place)}:{function}"
        for name, place in zip(names, places, strict=True)
    }


STUDIES: Registry[Study] = Registry("study", _found())
ROWS: Registry[Tells] = Registry("study", _found("rows"))


def about(name: str) -> str:
    """What the study does, in its own words; nothing of it is imported."""
    place = _found()[name].removesuffix(":main").split(".")[2:]
    text = Path(__file__).parent.joinpath(*place).with_suffix(".py").read_text()
    return (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].replace("\n", " ")
