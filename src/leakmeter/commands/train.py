"""`leakmeter train`: the weights and their accuracy, in a run directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from leakmeter.commands import options


def train(
    technique: Annotated[str, typer.Argument(help="plain, gaussian, stability, madry or trades")],
    data: Annotated[str, typer.Option("--data", help="a dataset's name, an .npz or an image folder")] = "digits",
    model: Annotated[str, typer.Option("--model", help="a network by name, such as lenet or mlp:256")] = "lenet",
    epochs: Annotated[int, typer.Option("--epochs", min=1)] = 10,
    settings: options.Settings = None,
    seed: options.Seed = 0,
    data_dir: options.DataDir = None,
    out: options.Out = Path("runs"),
    device: options.Device = None,
    threads: options.Threads = None,
    display: options.Display = None,
) -> None:
    """Trains a network, plainly or to be robust, and keeps it where other commands can load it."""
    import torch

    from leakmeter.compute import computing
    from leakmeter.data.catalogue import load
    from leakmeter.evaluation.intervals import exact
    from leakmeter.evaluation.score import predict
    from leakmeter.files import write_atomic
    from leakmeter.models import make_model
    from leakmeter.models.saved import save_network
    from leakmeter.runs.run import Run, fresh_path
    from leakmeter.training.train import train as train_network

    more = options.settings(settings)
    plan = {"technique": technique, "data": data, "model": model, "epochs": epochs, "options": more, "seed": seed}
    where, progress = options.device(device or "cpu"), options.display(display)
    dataset, test = load(data, "train", data_dir), load(data, "test", data_dir)
    (x, y), (test_x, test_y) = dataset.labelled(), test.labelled()
    shape, classes = dataset.input_shape, dataset.classes or 0
    with computing(threads or 1):
        network = make_model(model, shape, classes, seed=seed).to(where)
        run = Run.enter(fresh_path(out, f"train-{technique}"), plan)
        with run.held():
            kept = run.checkpoint("network")
            train_network(
                technique, network, (x, y), epochs=epochs, seed=seed, progress=progress, checkpoint=kept, **more
            )
            save_network(network, run.path / "model.safetensors", model, shape, classes)
            right = int((predict(network, test_x).argmax(1) == test_y).sum())
            rate = {"accuracy": right / len(test_y), "interval": exact(right, len(test_y)).model_dump()}
            write_atomic(run.path / "train.json", json.dumps({**plan, **rate, "torch": torch.__version__}).encode())
    options.say(f"accuracy {rate['accuracy']:.2%} on the test split of {data}")
    options.say(run.path / "model.safetensors")
