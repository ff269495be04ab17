"""How this process computes while it works on a plan, and as it was afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def computing(threads: int) -> Iterator[None]:
    """That many torch threads, and no denormal numbers: both change the last bits of a result, so a plan fixes them."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(False)
