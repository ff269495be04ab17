"""Run as a process of its own: writes a CatBoost model as JSON, and its loss beside it. See `trial.py`."""

from __future__ import annotations

import json
from pathlib import Path

import catboost

from leakmeter.trial import limited


def export(path: str, folder: str) -> None:
    """Writes `model.json` and `about.json` into the folder."""
    model = catboost.CatBoost()
    model.load_model(path)
    about = {"loss": str(model.get_all_params().get("loss_function", "")), "names": list(model.feature_names_)}
    model.save_model(str(Path(folder) / "model.json"), format="json")
    (Path(folder) / "about.json").write_text(json.dumps(about))


if __name__ == "__main__":
    limited(export)
