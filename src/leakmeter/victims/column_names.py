"""The columns a model in a file was trained on, where the file says them."""

from __future__ import annotations

from pathlib import Path

from leakmeter.victims.estimator import fitted_names
from leakmeter.victims.facts import Facts
from leakmeter.victims.kind import Request
from leakmeter.victims.onnx import open_session
from leakmeter.victims.onnx_graph import table_names
from leakmeter.victims.skops import SkopsKind
from leakmeter.victims.trees import TreeFunction, TreesKind


def column_names(source: str) -> list[str] | None:
    """Their names in order; None: the file does not say them, or it is another kind of victim."""
    path = Path(source)
    if path.suffix.lower() == ".onnx" and path.is_file():
        return table_names(open_session(path))
    kind = next((kind for kind in (TreesKind(), SkopsKind()) if path.suffix.lower() in kind.suffixes), None)
    if kind is None or not path.is_file():
        return None
    model = kind.read(path, Request(Facts()))
    return model.names if isinstance(model, TreeFunction) else fitted_names(model)
