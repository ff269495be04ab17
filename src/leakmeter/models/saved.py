"""A network on disk: weights as safetensors, with what is needed to build it again."""

from __future__ import annotations

import json
from pathlib import Path

import safetensors
import safetensors.torch
from torch import nn

from leakmeter.errors import UsageError, first_line
from leakmeter.files import write_atomic, writing
from leakmeter.models import make_model


def save_network(network: nn.Module, path: Path, model: str | None, input_shape: tuple[int, ...], classes: int) -> None:
    """Writes the weights; `model` is the registered name the network can be built by, if there is one."""
    about = {"model": model or "", "input_shape": json.dumps(input_shape), "classes": str(classes)}
    weights = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in network.state_dict().items()}
    with writing(path):
        write_atomic(path, safetensors.torch.save(weights, metadata=about))


def load_network(path: Path) -> nn.Module:
    """The network with its weights, in evaluation mode."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            about = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        model = make_model(about["model"], tuple(json.loads(about["input_shape"])), int(about["classes"]))
        model.load_state_dict(weights)
    except (OSError, KeyError, ValueError, RuntimeError, safetensors.SafetensorError) as error:
        raise UsageError(f"{path} does not hold a substitute that can be built by name: {first_line(error)}") from error
    return model.eval()
