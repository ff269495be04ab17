"""`load_victim`: from whatever the owner has to a `Victim` with a full spec. Pickles are never opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from leakmeter.compute import check_device
from leakmeter.victims.facts import UNSAID, Bound, Facts
from leakmeter.victims.kind import Request, open_source
from leakmeter.victims.remote.pace import Share
from leakmeter.victims.remote.settings import RemoteSettings, make_settings
from leakmeter.victims.victim import Victim


def load_victim(
    source: object,
    *,
    input_shape: Sequence[int] | None = None,
    low: Bound = UNSAID,
    high: Bound = UNSAID,
    classes: int | None = None,
    outputs: str | None = None,
    device: torch.device | str = "cpu",
    name: str | None = None,
    remote: RemoteSettings | Mapping[str, Any] | None = None,
    share: Share | None = None,
) -> Victim:
    """Loads the model to audit.

    Args:
        source: an `nn.Module`, `"package.module:factory"` or `"file.py:factory"` (runs that code), the path of a `.pt2`
            or `.onnx` file or of a `.safetensors` file that leakmeter wrote, a fitted scikit-learn classifier, a
            function from float arrays to arrays, `"http://127.0.0.1:8000/v2/models/NAME"` (Open Inference Protocol), or
            the path of a `.toml` file that describes another JSON API.
        input_shape: the shape of one input, such as `(1, 28, 28)`.
        low: the lowest value an input may take, one number or one a feature; None: unbounded.
        high: the highest value.
        classes: the number of output columns.
        outputs: what the model returns: `"logits"`, `"probs"` or `"labels"`.
        device: where an `nn.Module` computes.
        name: what reports call it.
        remote: how to ask a victim over HTTP, and who allowed it; see `RemoteSettings`.
        share: what a victim over HTTP must keep to where several workers ask it; None: its own settings.
    """
    if name is None and isinstance(source, str | Path):
        name = str(source)
    check_device(device)
    facts = Facts(input_shape, low, high, classes, outputs, name=name)
    return open_source(source, Request(facts, device, None if remote is None else make_settings(remote), share))
