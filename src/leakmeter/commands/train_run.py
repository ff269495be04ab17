"""A training as a run directory: the plan, the weights, the accuracy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from leakmeter.data.catalogue import load
from leakmeter.evaluation.intervals import exact
from leakmeter.evaluation.score import predict
from leakmeter.files import write_atomic
from leakmeter.models import make_model
from leakmeter.models.saved import save_network
from leakmeter.progress import SILENT, Progress
from leakmeter.runs.run import Run, fresh_path
from leakmeter.training.train import train


def train_to_run(
    technique: str,
    data: str,
    model: str,
    *,
    epochs: int,
    options: dict[str, Any],
    seed: int,
    data_dir: Path | None,
    out: Path,
    device: str,
    progress: Progress = SILENT,
) -> tuple[Path, float]:
    """Trains on the train split, measures on the test split; returns the path of the weights and the accuracy."""
    dataset, test = load(data, "train", data_dir), load(data, "test", data_dir)
    x, y = dataset.labelled()
    network = make_model(model, dataset.input_shape, dataset.classes or 0, seed=seed).to(device)
    plan = {"technique": technique, "data": data, "model": model, "epochs": epochs, "options": options, "seed": seed}
    run = Run.enter(fresh_path(out, f"train-{technique}"), plan)
    with run.held():
        checkpoint = run.checkpoint("network")
        train(technique, network, (x, y), epochs=epochs, seed=seed, progress=progress, checkpoint=checkpoint, **options)
        path = run.path / "model.safetensors"
        save_network(network, path, model, dataset.input_shape, dataset.classes or 0)
        test_x, test_y = test.labelled()
        right = int((predict(network, test_x).argmax(1) == test_y).sum())
        rate = {"accuracy": right / len(test_y), "interval": exact(right, len(test_y)).model_dump()}
        write_atomic(run.path / "train.json", json.dumps({**plan, **rate, "torch": torch.__version__}).encode())
    return path, right / len(test_y)
