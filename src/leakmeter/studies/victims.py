"""The victims of the studies: trained once from a seed, then kept in the user's cache."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import nn

from leakmeter.checkpoint import DiskCheckpoint
from leakmeter.data.catalogue import load
from leakmeter.data.places import cache
from leakmeter.files import write_atomic
from leakmeter.models import make_model
from leakmeter.progress import SILENT, Progress
from leakmeter.seeds import derive
from leakmeter.studies.provenance import fingerprint
from leakmeter.studies.strangers import resnet20
from leakmeter.tensors import to_safetensors
from leakmeter.training.loop import Recipe
from leakmeter.training.train import train

LENET = Recipe(epochs=6, batch=128, optimizer="adam", lr=2e-3, schedule="cyclic")


def trained(
    dataset: str,
    model: str = "lenet",
    *,
    seed: int = 0,
    first: int | None = None,
    technique: str = "plain",
    recipe: Recipe = LENET,
    data_dir: Path | None = None,
    device: str = "cpu",
    progress: Progress = SILENT,
    **options: Any,
) -> nn.Module:
    """The named network trained on the train split (its `first` rows, if given), in evaluation mode.

    `resnet20` begins with what others trained, all others with nothing. The cache is only a saving: the same arguments
    give the same weights with or without it.
    """
    data = load(dataset, "train", data_dir)
    x, y = data.labelled()
    x, y = x[:first], y[:first]
    fresh = partial(make_model, model, data.input_shape, data.classes or 0, seed=derive(seed, "victim"))
    network = (resnet20() if model == "resnet20" else fresh()).to(device)
    about = [fingerprint(), dataset, len(x), model, seed, technique, options, recipe.model_dump()]
    key = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()[:16]
    path = cache() / "victims" / f"{dataset}-{model.replace(':', '-')}-{key}.safetensors"
    if path.exists():
        network.load_state_dict(safetensors.torch.load(path.read_bytes()))
        return network.eval()
    half = path.with_suffix(".part")  # where a training that was killed goes on
    options |= {"checkpoint": DiskCheckpoint(half), "progress": progress}
    train(technique, network, (x, y), recipe=recipe, seed=derive(seed, "victim"), **options)
    weights = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    write_atomic(path, to_safetensors(weights))
    half.unlink(missing_ok=True)
    return network
