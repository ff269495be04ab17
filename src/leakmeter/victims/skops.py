"""A scikit-learn model in a `.skops` file (extra `[trees]`): types nobody vouches for are refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from leakmeter.errors import UsageError, first_line, missing_extra
from leakmeter.victims.kind import FileKind, Request


class SkopsKind(FileKind):
    """Estimators saved with `skops.io.dump`."""

    form = "a .skops file"
    suffixes = (".skops",)

    def read(self, path: Path, request: Request) -> Any:  # noqa: ARG002
        """The estimator, if every type in the file is one that skops trusts."""
        try:
            import skops.io
        except ImportError as error:
            raise missing_extra("skops", "trees") from error
        try:
            untrusted = skops.io.get_untrusted_types(file=path)
        except Exception as error:
            raise UsageError(f"{path} is not a .skops file: {first_line(error)}") from error
        if untrusted := [name for name in untrusted if name not in _CHECKED]:
            raise UsageError(
                f"expected only types that skops trusts in {path}, got {', '.join(untrusted)}; "
                "load it yourself and give it through package.module:factory if you know them"
            )
        try:
            model = skops.io.load(path, trusted=list(_CHECKED))
        except Exception as error:
            raise UsageError(f"{path} cannot be loaded: {first_line(error)}") from error
        if not all(_is_sound(tree) for tree in _trees(model, set())):
            raise UsageError(f"expected sound trees in {path}, got one whose nodes point outside it")
        return model


_CHECKED = ("sklearn.tree._tree.Tree", "numpy.dtype")
"""What skops trusts nobody with: trees, since scikit-learn follows their numbers without looking, so we look first; and
the type of a column, which every imputer holds, and which is read off an empty array, without pickle."""


def _trees(held: Any, seen: set[int]) -> Iterator[Any]:
    """Every tree inside an estimator, however deep."""
    if id(held) in seen:
        return
    seen.add(id(held))
    if type(held).__name__ == "Tree":
        yield held
    elif isinstance(held, dict):
        for value in held.values():
            yield from _trees(value, seen)
    elif isinstance(held, list | tuple) or (isinstance(held, np.ndarray) and held.dtype == object):
        for value in np.ravel(held) if isinstance(held, np.ndarray) else held:
            yield from _trees(value, seen)
    elif hasattr(held, "__dict__"):
        yield from _trees(vars(held), seen)


def _is_sound(tree: Any) -> bool:
    """Whether children stand behind their parents and inside the tree, and columns inside the table."""
    nodes = np.arange(tree.node_count)
    left, right, feature = (np.asarray(part) for part in (tree.children_left, tree.children_right, tree.feature))
    inner = left != -1
    children = np.stack([left[inner], right[inner]])
    ordered = (children > nodes[inner]) & (children < tree.node_count)
    columns = (feature[inner] >= 0) & (feature[inner] < tree.n_features)
    return bool(ordered.all()) and bool(columns.all()) and bool((right[~inner] == -1).all())
