"""From raw inputs, as an API's users send them, to what a network takes: the preprocessing that belongs to the model.

Queries live in the raw box and pictures are channels x height x width; a victim that takes something else is prepared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from leakmeter.errors import UsageError
from leakmeter.victims.preparation_settings import PreparationSettings
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Question, Victim, affordable

Shape = tuple[int, ...]
_CHANNELS = (1, 3)
_PICTURE = 8  # a side at least as long as this makes three numbers look like a picture's


@dataclass(frozen=True)
class Preparation:
    """Settings made definite for inputs of one raw shape."""

    settings: PreparationSettings
    raw: Shape
    shape: Shape
    """What the model takes."""
    nhwc: bool = False

    @property
    def needed(self) -> bool:
        """Whether anything is done at all."""
        plain = self.settings.model_copy(update={"layout": None})
        return self.nhwc or self.raw != self.shape or plain != PreparationSettings()

    def __call__(self, x: Tensor) -> Tensor:
        """Raw inputs as the model takes them; gradients flow through everything but rounding."""
        if self.settings.resize is not None:
            x = interpolate(x, self.settings.resize, mode="bilinear", align_corners=False, antialias=True)
        x = self.values(x)
        if self.nhwc:
            x = x.permute(0, 2, 3, 1)
        if x.shape[1:] != self.shape:
            x = x.reshape(-1, *self.shape)
        if self.settings.dtype is None:
            return x
        dtype: torch.dtype = getattr(torch, self.settings.dtype)
        return x.to(dtype) if dtype.is_floating_point else x.round().to(dtype)

    def values(self, x: Tensor) -> Tensor:
        """Scaled and normalised, channel by channel."""
        set_ = self.settings
        x = x if set_.scale is None else x * set_.scale
        x = x if set_.mean is None else x - self._by_channel(set_.mean, x)
        return x if set_.std is None else x / self._by_channel(set_.std, x)

    def model_spec(self, spec: VictimSpec) -> VictimSpec:
        """What the model itself takes, for the raw inputs of `spec`."""
        return replace(spec, input_shape=self.shape)  # what is asked is checked against the raw box

    def _by_channel(self, numbers: tuple[float, ...] | float, x: Tensor) -> Tensor:
        each = x.new_tensor(numbers)
        return each if each.dim() == 0 or x.dim() <= 2 else each.view(-1, *(1,) * (x.dim() - 2))


def settle(said: Sequence[int] | None, declared: Sequence[Any] | None, settings: PreparationSettings) -> Preparation:
    """How to prepare inputs, from the shape the owner said and the one the model declares (None: a side left open)."""
    whole = declared is not None and all(isinstance(side, int) for side in declared)
    given = tuple(said) if said is not None else tuple(declared or ())
    nhwc = _channels_last(given, tuple(declared) if declared is not None else given, settings)
    raw: Shape = given
    if nhwc and (said is None or not _first_is_channels(given)):
        raw = (given[2], given[0], given[1])
    _check(settings, raw)
    inner = raw if settings.resize is None else (raw[0], *settings.resize)
    shape = (*inner[1:], inner[0]) if nhwc else inner
    if whole and declared is not None and shape != tuple(declared) and math.prod(shape) == math.prod(declared):
        shape = tuple(declared)
    return Preparation(settings, raw, shape, nhwc)


def _channels_last(given: Sequence[Any], declared: Sequence[Any], settings: PreparationSettings) -> bool:
    if settings.layout is not None or len(declared) != 3 or len(given) != 3:
        return settings.layout == "nhwc"
    first, last = (side in _CHANNELS for side in (declared[0], declared[2]))
    if not (first and last):
        return last
    if max(side or 0 for side in declared) < _PICTURE or tuple(given) != tuple(declared):
        return False
    raise UsageError(
        f"cannot tell channels from height and width in inputs of {_show(declared)}; pass layout='nchw' (channels "
        "first) or layout='nhwc' (channels last), on the command line --layout"
    )


def _first_is_channels(shape: Sequence[int]) -> bool:
    return shape[0] in _CHANNELS or shape[2] not in _CHANNELS


def _check(settings: PreparationSettings, raw: Shape) -> None:
    """Refuses what cannot be done to inputs of that shape."""
    if (settings.resize is not None or settings.layout == "nhwc") and len(raw) != 3:
        raise UsageError(
            f"expected pictures (channels, height, width) where resize or layout is set, got {_show(raw)}; pass "
            "input_shape, on the command line --input-shape 3,224,224"
        )
    for name in ("mean", "std"):
        numbers = getattr(settings, name)
        if isinstance(numbers, tuple) and len(numbers) != raw[0]:
            raise UsageError(f"expected {name} to be one number or one for each of {raw[0]} channels, got {numbers}")
    if settings.std is not None and min(torch.tensor(settings.std).reshape(-1).tolist()) <= 0:
        raise UsageError(f"expected std to be positive, got {settings.std}")


def _show(shape: Sequence[Any]) -> str:
    return "x".join("?" if side is None else str(side) for side in shape)


class PreparedVictim(Victim):
    """Takes raw inputs, and shows its model prepared ones."""

    def __init__(self, spec: VictimSpec, model: Victim, preparation: Preparation) -> None:
        super().__init__(spec)
        self._model, self._preparation = model, preparation
        self.remote, self.authorized_by = model.remote, model.authorized_by
        self.batch = model.batch if model.remote else affordable(model.batch, spec)
        self.notes = model.notes
        self.differentiable = model.differentiable and not str(preparation.settings.dtype).startswith(("int", "uint"))

    def compute(self, x: Tensor, question: Question) -> Tensor:
        """The model's outputs for the prepared inputs."""
        return self._model.compute(self._preparation(x), question)

    def close(self) -> None:
        """Closes what the model holds open."""
        close = getattr(self._model, "close", None)
        if close is not None:
            close()

    @property
    def white_box(self) -> nn.Module:
        """The network behind its preparation."""
        return nn.Sequential(PreparationLayer(self._preparation), self._model.white_box)


class PreparationLayer(nn.Module):
    """A preparation as the first layer of a network."""

    def __init__(self, preparation: Preparation) -> None:
        super().__init__()
        self._preparation = preparation

    def forward(self, x: Tensor) -> Tensor:
        """Prepared inputs."""
        return self._preparation(x)
