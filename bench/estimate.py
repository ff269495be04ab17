"""What an audit says it will take, against what it takes: seconds of computing, on three small models.

    python bench/estimate.py [--minutes 0.25] [--only pictures]

The digits model of the demo, boosted trees on a table, and a convolutional network of 3x32x32 pictures, each with the
default attacks and the views `probs` and `labels`, one seed, in this process. Computing is counted, not waiting, so
other work on the machine does not matter. Writes results/bench/estimate.json.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _keep import keep

import leakmeter as lm
from leakmeter._audit.flow import preview
from leakmeter.models import make_model


def digits(_folder: Path) -> dict[str, Any]:
    """64 inputs, ten classes."""
    return {"victim": {"source": "leakmeter.demo:digits_victim"}, "data": {"name": "digits"}, "budget": 2000}


def table(folder: Path) -> dict[str, Any]:
    """30 columns, two classes."""
    from sklearn.datasets import load_breast_cancer
    from xgboost import XGBClassifier

    data = load_breast_cancer()
    XGBClassifier(n_estimators=50, max_depth=4, n_jobs=1).fit(data.data, data.target).save_model(folder / "trees.json")
    names = [name.replace(" ", "_") for name in data.feature_names]
    rows = np.column_stack([data.data, data.target])
    np.savetxt(folder / "rows.csv", rows, "%g", ",", header=",".join([*names, "target"]), comments="")
    source = {"source": str(folder / "trees.json")}
    return {"victim": source, "data": {"name": str(folder / "rows.csv"), "target": "target"}, "budget": 2000}


def pictures(folder: Path) -> dict[str, Any]:
    """3072 inputs, ten classes."""
    net = make_model("small-conv:16", (3, 32, 32), 10, seed=0).eval()
    x = torch.rand(200, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    np.savez(folder / "pictures.npz", x=x.numpy(), y=net(x).argmax(1).numpy())
    torch.export.save(
        torch.export.export(net, (x[:4],), dynamic_shapes=({0: torch.export.Dim("rows", min=1)},)), folder / "net.pt2"
    )
    source = {"source": str(folder / "net.pt2"), "low": 0.0, "high": 1.0}
    return {"victim": source, "data": {"name": str(folder / "pictures.npz")}, "budget": 1000}


MODELS = {"digits": digits, "table": table, "pictures": pictures}


def measured(name: str, minutes: float) -> dict[str, Any]:
    """Both figures of one model."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        plan = MODELS[name](folder) | {"minutes": minutes, "seeds": [0], "views": ["probs", "labels"]}
        told = preview(plan, "inline")
        start = time.process_time()
        audit = lm.audit(plan, out=folder / "runs", executor="inline", progress=False)
        took = time.process_time() - start
    cells = {f"{cell.attack} {cell.view}": round(cell.seconds or 0.0, 1) for cell in audit.cells}
    ratio = took / max(told.seconds, 1e-9)
    return {"told": round(told.seconds, 1), "took": round(took, 1), "ratio": round(ratio, 2), "cells": cells}


def main() -> None:
    """Measures all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.25)
    parser.add_argument("--only", choices=list(MODELS), nargs="*", default=list(MODELS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    for name in given.only:
        found[name] = measured(name, given.minutes)
        print(name, found[name], flush=True)
        keep("estimate", {"minutes": given.minutes, "models": found}, show=False)  # what is there if it is stopped


if __name__ == "__main__":
    main()
