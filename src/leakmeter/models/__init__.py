"""The papers' networks and generators by name, built without touching the global random state."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from leakmeter.errors import UsageError
from leakmeter.registry import Registry

if TYPE_CHECKING:
    from torch import nn

    from leakmeter.models.generators.base import Generator

MODELS: Registry[Callable[..., nn.Module]] = Registry(
    "model",
    {
        "linear": "leakmeter.models.dense:linear",
        "mlp": "leakmeter.models.dense:mlp",
        "lenet": "leakmeter.models.convolutional:lenet",
        "milli-conv": "leakmeter.models.convolutional:milli_conv",
        "codfe-target": "leakmeter.models.convolutional:codfe_target",
        "codfe-substitute": "leakmeter.models.convolutional:codfe_substitute",
        "stn-mnist": "leakmeter.models.convolutional:stn_mnist",
        "stn-cifar": "leakmeter.models.convolutional:stn_cifar",
        "vgg11": "leakmeter.models.convolutional:vgg11",
        "resnet9": "leakmeter.models.resnet:resnet9",
        "resnet18": "leakmeter.models.resnet:resnet18",
        "resnet34": "leakmeter.models.resnet:resnet34",
        "small-conv": "leakmeter.models.convolutional:small_conv",
        "trees": "leakmeter.models.trees.ensemble:empty_ensemble",
    },
)

GENERATORS: Registry[Callable[..., Generator]] = Registry(
    "generator",
    {
        "dfme": "leakmeter.models.generators.dfme:DfmeGenerator",
        "dast": "leakmeter.models.generators.dast:DastGenerator",
        "codfe": "leakmeter.models.generators.codfe:CodfeGenerator",
    },
)


def make_model(name: str, input_shape: tuple[int, ...], classes: int, *, seed: int = 0) -> nn.Module:
    """An untrained network from the raw box to logits; the same seed gives the same weights.

    `name` may carry a width where the family has one: `mlp:256` (hidden units), `resnet18:16` (first channels).
    """
    base, colon, width = name.partition(":")
    build = MODELS[base]
    if classes < 1:
        raise UsageError(f"expected at least 1 class, got {classes}")
    options = {"width": _width(base, build, width)} if colon else {}
    with _seeded(seed, "model"):
        return build(tuple(input_shape), classes, **options)


def make_generator(name: str, output_shape: tuple[int, ...], *, seed: int = 0, **options: object) -> Generator:
    """An untrained generator of images of that shape; the options are those of its class."""
    build = GENERATORS[name]
    known = [option for option in inspect.signature(build).parameters if option != "shape"]
    if unknown := set(options) - set(known):
        raise UsageError(f"the generator '{name}' has no option {sorted(unknown)} (known: {', '.join(known)})")
    with _seeded(seed, "generator"):
        return build(tuple(output_shape), **options)


def _seeded(seed: int, what: str) -> AbstractContextManager[None]:
    # here, so that listing the names does not load torch
    from leakmeter.seeds import derive, private_randomness

    return private_randomness(derive(seed, what))


def _width(base: str, build: Callable[..., nn.Module], text: str) -> int:
    if "width" not in inspect.signature(build).parameters:
        raise UsageError(f"the model '{base}' has no width to choose, got '{base}:{text}'; write '{base}'")
    if not (text.isdecimal() and int(text) > 0):
        raise UsageError(f"expected a positive whole number as the width of '{base}', got '{text}'; write '{base}:64'")
    return int(text)
