"""What a dataset is, how pixels become one, and how one is fitted to another input shape."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from leakmeter.box import Box
from leakmeter.data.columns import Columns
from leakmeter.errors import UsageError
from leakmeter.files import check_announced
from leakmeter.seeds import stream

Split = Literal["train", "test", "all"]
"""`all`: a set published as one, whole; the test part of a set that has one."""
Range = tuple[float, float]

_TEST_SHARE = 5  # one row in five is the test part of a set that comes without one


@dataclass(frozen=True, eq=False)
class Dataset:
    """Checked on construction: finite float32 rows, images in `range`, labels below `classes`.

    Attributes:
        name: what messages and reports call it.
        x: [N, C, H, W] images, or [N, d] features.
        y: int64 labels, or None for a pool of unlabelled inputs.
        classes: the number of classes, None where nothing says it.
        partial: what is missing of the published set, empty where it is whole.
        columns: what each column of a table may hold, None where nothing says it.
        range: what images lie in; pixels, and whatever nobody spoke of, in [0, 1].
        pixels: whether images are shares of full brightness, to be stretched to the range a model takes.
        class_names: what the classes are called, where the set says it.
    """

    name: str
    x: Tensor
    y: Tensor | None
    classes: int | None
    partial: str = ""
    columns: Columns | None = None
    range: Range = (0.0, 1.0)
    pixels: bool = True
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        x = self.x if self.columns is None else self.columns.admit(self.x).nan_to_num()
        _check_inputs(self.name, x, self.range)
        if self.y is not None:
            _check_labels(self.name, self.y, len(self.x), self.classes)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.x.shape[1:])

    def labelled(self) -> tuple[Tensor, Tensor]:
        """Inputs and labels; an error for an unlabelled pool."""
        if self.y is None:
            raise UsageError(f"{self.name} has no labels; choose a labelled dataset, or use it as a query pool only")
        return self.x, self.y

    def into(self, box: Box) -> Dataset:
        """Pixels stretched to the range a model takes; what is no picture, and floats of a file, as they are."""
        if self.x.dim() != 4 or not self.pixels or box.low is None or box.high is None:
            return self
        x = box.from_unit(self.x)
        return replace(self, x=x, range=(float(box.low.min()), float(box.high.max())), pixels=False)

    def rows(self, index: Tensor) -> Dataset:
        """The rows at `index` (positions, or a mask), in that order."""
        return replace(self, x=self.x[index], y=None if self.y is None else self.y[index])

    def take(self, n: int, generator: torch.Generator) -> Dataset:
        """`n` different rows drawn at random."""
        if not 1 <= n <= len(self):
            raise UsageError(f"expected to take between 1 and {len(self):,} rows of {self.name}, got {n:,}")
        return self.rows(torch.randperm(len(self), generator=generator)[:n])

    def split(self, n: int, generator: torch.Generator) -> tuple[Dataset, Dataset]:
        """`n` rows drawn at random, and all the others."""
        if not 1 <= n < len(self):
            raise UsageError(f"expected to split off between 1 and {len(self) - 1:,} rows of {self.name}, got {n:,}")
        order = torch.randperm(len(self), generator=generator)
        return self.rows(order[:n]), self.rows(order[n:])

    def skew(self, first: int) -> Dataset:
        """Only the rows of the first classes (DFME appendix A.2, SVHN_skew); `classes` stays what it was."""
        _, y = self.labelled()
        if first < 1 or not bool((y < first).any()):
            raise UsageError(f"expected a number of first classes that {self.name} has rows of, got {first}")
        return replace(self.rows(y < first), name=f"{self.name}-first-{first}")

    def holdout(self, split: Split) -> Dataset:
        """The train or test part of a set that was published as one: fixed, disjoint, four to one.

        A pool without labels is all for training.
        """
        if split == "all":
            return self
        if self.y is None:
            if split == "test":
                raise UsageError(f"{self.name} has no labels, so it has no test part; choose a labelled dataset")
            return self
        if len(self) < _TEST_SHARE:
            raise UsageError(f"expected at least {_TEST_SHARE} rows in {self.name} to hold some out, got {len(self)}")
        test, train = self.split(len(self) // _TEST_SHARE, stream(0, "holdout", len(self)))
        return test if split == "test" else train


def from_pixels(name: str, pixels: NDArray[np.uint8], labels: NDArray[Any] | None, classes: int | None) -> Dataset:
    """A dataset of bytes 0..255, scaled to [0, 1]."""
    check_announced(name, 4 * pixels.size)
    x = torch.from_numpy(pixels.astype(np.float32, order="C")).div_(255)
    y = None if labels is None else torch.from_numpy(labels.astype(np.int64))
    return Dataset(name, x, y, classes)


def read_bytes(path: Path) -> bytes:
    """The whole file; what cannot be read is named."""
    try:
        check_announced(path, path.stat().st_size)
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _check_inputs(name: str, x: Tensor, bounds: Range) -> None:
    if x.dtype != torch.float32 or x.ndim < 2 or x.numel() == 0:
        raise UsageError(
            f"expected {name} to hold float32 inputs, such as [N, C, H, W] or [N, d], none of them empty, "
            f"got {x.dtype} {list(x.shape)}"
        )
    low, high = (float(bound) for bound in x.aminmax())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise UsageError(f"expected finite inputs in {name}, got NaN or infinity; mend or drop those rows")
    if x.ndim == 4 and (low < bounds[0] or high > bounds[1]):
        raise UsageError(
            f"expected the images of {name} in the raw box [{bounds[0]:g}, {bounds[1]:g}], got values from {low:g} to "
            f"{high:g}; say which range the model takes, for example low={math.floor(low):g}, high={math.ceil(high):g} "
            f"(--low={math.floor(low):g} --high={math.ceil(high):g}), or store uint8"
        )


def _check_labels(name: str, y: Tensor, n: int, classes: int | None) -> None:
    if y.dtype != torch.int64 or y.shape != (n,):
        raise UsageError(f"expected {n:,} int64 labels in {name}, got {y.dtype} {list(y.shape)}")
    if classes is None:
        raise UsageError(f"expected the number of classes of the labelled dataset {name}, got none")
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= classes:
        raise UsageError(f"expected labels from 0 to {classes - 1} in {name}, got labels from {low} to {high}")


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
    return x.clamp(*dataset.range).expand(-1, channels, -1, -1)
