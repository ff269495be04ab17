"""One seed, many independent named streams: adding a stream never changes the numbers of another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed for the stream called `names` under `seed`."""
    text = "/".join(str(name).replace("\\", r"\\").replace("/", r"\/") for name in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def stream(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A fresh generator for that stream."""
    return torch.Generator(device=device).manual_seed(derive(seed, *names))


@contextmanager
def private_randomness(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seeds torch's global generators (dropout draws from them) and puts them back afterwards."""
    device = torch.device(device)
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(derive(seed, "global"))
        yield
