"""How this process computes: threads and denormals while it works on a plan, modes and layouts of networks."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor, nn

from leakmeter.errors import UsageError


def check_device(name: torch.device | str) -> torch.device:
    """The device of that name, or a sentence where it cannot be used here."""
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        raise UsageError(f"the device '{name}' cannot be used here; try --device cpu") from error


@contextmanager
def computing(threads: int) -> Iterator[None]:
    """That many torch threads, and no denormal numbers: both change the last bits of a result, so a plan fixes them."""
    before = torch.get_num_threads()
    flushed = not torch.tensor(1e-310, dtype=torch.float64) * 1.0  # torch does not say
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(flushed)


def give_back() -> None:
    """Gives memory that was freed, and that the C library keeps for later, back to the machine, where it can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """A module in evaluation mode, each part put back as it was; anything else that can be called is left alone."""
    modes = [(part, part.training) for part in model.modules()] if isinstance(model, nn.Module) else []
    for part, _ in modes:
        part.training = False
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def prefer_channels_last(model: nn.Module, images: Tensor) -> bool:
    """Puts the channels of a pixel side by side, which is faster, where the model's code can do with it.

    A network that reshapes with `view` cannot; it keeps the plain layout and computes the same.
    """
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        with evaluating(model), torch.no_grad():
            model(images.contiguous(memory_format=torch.channels_last))
    except RuntimeError:
        model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        return False
    return True
