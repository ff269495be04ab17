"""A network on disk: weights as safetensors, with what is needed to build it again."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path

import safetensors
import torch
from safetensors import SafetensorError
from torch import nn

from leakmeter.errors import UsageError, first_line
from leakmeter.files import check_announced, write_atomic, writing
from leakmeter.models import make_model
from leakmeter.models.trees.ensemble import TreeEnsemble
from leakmeter.models.trees.sound import check_sound
from leakmeter.tensors import to_safetensors


def save_network(network: nn.Module, path: Path, model: str | None, input_shape: tuple[int, ...], classes: int) -> None:
    """Writes the weights; `model` is the registered name the network can be built by, if there is one."""
    about = {"model": model or "", "input_shape": json.dumps(input_shape), "classes": str(classes)}
    weights = {name: tensor.detach().cpu() for name, tensor in network.state_dict().items()}
    with writing(path):
        write_atomic(path, to_safetensors(weights, about))


def load_network(path: Path) -> nn.Module:
    """The network with its weights, in evaluation mode."""
    try:
        check_announced(path, path.stat().st_size)
        with safetensors.safe_open(path, "pt") as file:
            about = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        build = partial(make_model, about["model"], _shape(about["input_shape"]), _whole(about["classes"]))
        with torch.device("meta"):  # without memory: what the file says of itself may fit no memory, nor its weights
            empty = build()
        wanted = {name: tensor.shape for name, tensor in empty.state_dict().items()}
        sized = not getattr(empty, "sized_by_state", False)  # trees are as large as what is loaded into them
        if sized and wanted != {name: tensor.shape for name, tensor in weights.items()}:
            raise ValueError(f"its weights are not those of {about['model']}")
        model = build()
        model.load_state_dict(weights)
        model.input_shape = _shape(about["input_shape"])  # type: ignore[assignment]  # whoever audits it need not say it
        if isinstance(model, TreeEnsemble):
            check_sound(model, math.prod(_shape(about["input_shape"])))
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, RecursionError, SafetensorError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{path} does not hold a substitute that can be built by name: {first_line(error)}") from error
    model.__dict__["input_shape"] = _shape(about["input_shape"])  # what a victim says of itself
    return model.eval()


def _shape(text: str) -> tuple[int, ...]:
    shape = json.loads(text)
    if not isinstance(shape, list) or not all(type(side) is int and 0 < side < 1 << 31 for side in shape):
        raise ValueError(f"its input_shape is {text!r:.80}")
    return tuple(shape)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10):
        raise ValueError(f"its classes are {text!r:.80}")
    return int(text)
