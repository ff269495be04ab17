"""Models of trees in their libraries' own files: XGBoost `.json` and `.ubj`, LightGBM `.txt`, CatBoost `.cbm`.

None of them is a pickle. All but CatBoost's are read here, without the library.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leakmeter.errors import UsageError, missing_extra
from leakmeter.files import check_announced
from leakmeter.models.trees import from_lightgbm, from_xgboost
from leakmeter.models.trees.ensemble import TreeEnsemble
from leakmeter.models.trees.from_catboost import from_catboost
from leakmeter.models.trees.sound import check_sound
from leakmeter.models.trees.thresholds import threshold_box
from leakmeter.models.trees.ubjson import parse_ubjson
from leakmeter.trial import tried
from leakmeter.victims.facts import AROUND
from leakmeter.victims.kind import FileKind, Request


class TreeFunction:
    """An ensemble as a function from rows to probabilities."""

    outputs = "probs"
    assumed_from = AROUND

    def __init__(self, ensemble: TreeEnsemble, features: int, names: list[str] | None) -> None:
        check_announced("a row of its input", 8 * features)
        check_sound(ensemble, features)
        self.trees = ensemble
        self.input_shape = (features,)
        self.assumed = threshold_box(ensemble, features)
        self.names = names
        """The columns it was trained on, where the file says them."""
        self.dtype = torch.float32 if bool(ensemble.semantics[1]) else torch.float64
        with torch.no_grad():
            self.classes = ensemble(torch.zeros(1, features)).shape[1]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """A probability for each class."""
        if x.shape[1:] != self.input_shape:  # rows of another table would be answered all the same
            wanted, got = self.input_shape, tuple(x.shape[1:])
            raise UsageError(f"expected inputs of shape {wanted}, the columns that the model was trained on, got {got}")
        with torch.no_grad():
            return np.asarray(self.trees(torch.from_numpy(x)).softmax(1))


class TreesKind(FileKind):
    """Boosted trees as their libraries save them."""

    form = "an XGBoost .json or .ubj, LightGBM .txt or CatBoost .cbm file"
    suffixes = (".json", ".ubj", ".txt", ".cbm")

    def read(self, path: Path, request: Request) -> Any:  # noqa: ARG002
        """The ensemble as a function; of a CatBoost model with categories, the classifier itself."""
        return read_trees(path)


def read_trees(path: Path) -> Any:
    """The model in the file, known by the ending of its name."""
    suffix, source = path.suffix.lower(), str(path)
    try:
        if suffix == ".cbm":
            return _catboost(path)
        if suffix == ".txt":
            return _lightgbm(path.read_text(errors="replace"), source)
        parse = parse_ubjson if suffix == ".ubj" else from_xgboost.parse_json
        return _xgboost(parse(path.read_bytes(), source), source)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"expected a model of trees in {path}, got a file that lacks parts of one: {error!r}"
        ) from error


def _xgboost(document: dict[str, Any], source: str) -> TreeFunction:
    ensemble = from_xgboost.from_xgboost(document, source)
    return TreeFunction(ensemble, from_xgboost.features(document), from_xgboost.feature_names(document))


def _lightgbm(text: str, source: str) -> TreeFunction:
    ensemble, head = from_lightgbm.from_lightgbm(text, source), from_lightgbm.header(text, source)
    names = head.get("feature_names", "").split()
    plain = all(name == f"Column_{place}" for place, name in enumerate(names))
    return TreeFunction(ensemble, int(head["max_feature_idx"]) + 1, None if plain else names)


def _catboost(path: Path) -> Any:
    if importlib.util.find_spec("catboost") is None:
        raise missing_extra("catboost", "trees")
    with tempfile.TemporaryDirectory() as folder:
        tried("leakmeter.victims.catboost_trial", path, folder)
        document, about = (json.loads((Path(folder) / f"{name}.json").read_text()) for name in ("model", "about"))
    if about["loss"] not in ("Logloss", "CrossEntropy", "MultiClass"):
        raise UsageError(
            f"expected a CatBoost classifier (Logloss, CrossEntropy or MultiClass) in {path}, got the loss "
            f"'{about['loss']}'; leakmeter measures copies of classifiers"
        )
    if document.get("features_info", {}).get("categorical_features"):  # whose statistics are not in the trees
        return _catboost_itself(path)
    names = about["names"]
    plain = all(name == str(place) for place, name in enumerate(names))
    return TreeFunction(from_catboost(document, str(path)), len(names), None if plain else names)


def _catboost_itself(path: Path) -> Any:
    """The classifier, which takes a data frame with words as words."""
    import catboost

    model = catboost.CatBoostClassifier()
    model.load_model(str(path))
    return model
