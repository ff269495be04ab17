"""Fits a dataset to another input shape, as DFME appendix A.2 does to query one victim with the data of another."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from leakmeter.data.dataset import Dataset
from leakmeter.errors import UsageError

_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601


def adapt(dataset: Dataset, input_shape: tuple[int, ...], *, first_classes: int | None = None) -> Dataset:
    """The dataset with inputs of `input_shape`: images re-scaled, grey repeated over RGB, RGB made grey.

    `first_classes` keeps only that many classes (SVHN_skew in the paper). Images become flat features, or the
    reverse, only where the number of values agrees. Channels are repeated as a view: no copy is made.
    """
    if first_classes is not None:
        dataset = dataset.skew(first_classes)
    if dataset.input_shape == tuple(input_shape):
        return dataset
    if len(dataset.input_shape) == len(input_shape) == 3:
        return replace(dataset, x=_adapt_images(dataset, input_shape))
    if math.prod(dataset.input_shape) == math.prod(input_shape):
        return replace(dataset, x=dataset.x.reshape(-1, *input_shape))
    raise UsageError(
        f"expected inputs that can become {list(input_shape)}, got {list(dataset.input_shape)} in {dataset.name}; "
        "choose a dataset of images, or of as many features"
    )


def _adapt_images(dataset: Dataset, input_shape: tuple[int, ...]) -> Tensor:
    x, (channels, height, width) = dataset.x, input_shape
    if x.shape[1] == 3 and channels == 1:
        x = torch.einsum("nchw,c->nhw", x, x.new_tensor(_LUMA)).unsqueeze(1)
    if x.shape[2:] != (height, width):
        x = interpolate(x, (height, width), mode="bilinear", align_corners=False, antialias=True)
    if x.shape[1] != channels and x.shape[1] != 1:
        raise UsageError(f"expected 1 or {channels} channels in {dataset.name}, got {x.shape[1]}")
    return x.clamp(0, 1).expand(-1, channels, -1, -1)
