"""A room of the package imports only rooms below it, lazily or not: the library knows nothing of the application."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import leakmeter

ROOT = Path(leakmeter.__file__).parent

LAYERS = (
    ("shown",),
    ("errors",),
    ("registry", "seeds", "progress", "files", "compute", "tensors", "patience"),
    ("display", "trial"),
    ("checkpoint", "box", "settings"),
    ("models", "data"),
    ("victims",),
    ("oracle",),
    ("defenses", "detectors"),
    ("evasion",),
    ("training",),
    ("evaluation",),
    ("extraction", "certificates"),
    ("traffic",),
    ("runs",),
    ("executors",),
    ("plan",),
    ("results",),
    ("verdict",),
    ("report",),
    ("_audit",),
    ("watch",),
    ("demo",),
    ("serve", "studies"),
    ("commands",),
    ("cli",),
    ("__main__",),
)
HEIGHT = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}


def imports() -> Iterator[tuple[str, str, str]]:
    """Every import of one room by another: importing module, its room, the room imported."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts == ("__init__",):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            for name in imported(node):
                room = name.split(".")[1] if "." in name else None
                if room is not None and room != parts[0]:
                    yield ".".join(parts), parts[0], room


def imported(node: ast.AST) -> list[str]:
    """The modules of this package that a statement imports."""
    if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "leakmeter":
        if node.module == "leakmeter":
            return [f"leakmeter.{alias.name}" for alias in node.names if not alias.name.startswith("__")]
        return [node.module]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name.split(".")[0] == "leakmeter"]
    return []


def test_every_room_has_its_place() -> None:
    rooms = {path.stem for path in ROOT.glob("*.py")} | {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert rooms - {"__init__"} == set(HEIGHT)


@pytest.mark.parametrize("room", HEIGHT)
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    upward = sorted(
        f"{module} imports {other}" for module, own, other in imports() if own == room and HEIGHT[other] >= HEIGHT[own]
    )
    assert upward == []
