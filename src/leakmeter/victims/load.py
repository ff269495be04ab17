"""`load_victim`: from whatever the owner has to a `Victim` with a full spec. Pickles are never opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from leakmeter.compute import check_device
from leakmeter.data.columns import Columns
from leakmeter.victims.bounds import UNSAID, Bound
from leakmeter.victims.facts import Facts
from leakmeter.victims.kind import Ends, Request, open_source
from leakmeter.victims.preparation_settings import make_preparation
from leakmeter.victims.remote.pace import Share
from leakmeter.victims.remote.settings import RemoteSettings, make_settings
from leakmeter.victims.victim import Victim


def load_victim(
    source: object,
    *,
    input_shape: Sequence[int] | None = None,
    low: Bound = UNSAID,
    high: Bound = UNSAID,
    classes: int | Sequence[str] | None = None,
    outputs: str | None = None,
    output: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    scale: float | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    layout: str | None = None,
    resize: Sequence[int] | None = None,
    dtype: str | None = None,
    device: torch.device | str = "cpu",
    name: str | None = None,
    remote: RemoteSettings | Mapping[str, Any] | None = None,
    share: Share | None = None,
    assumed: tuple[Any, Any] | None = None,
    columns: Columns | Mapping[str, Mapping[str, Any]] | None = None,
) -> Victim:
    """Loads the model to audit.

    Args:
        source: an `nn.Module`, `"package.module:factory"` or `"file.py:factory"` (runs that code), the path of a `.pt2`
            or `.onnx` file, of a model of trees (XGBoost `.json` or `.ubj`, LightGBM `.txt`, CatBoost `.cbm`), of a
            `.skops` file or of a `.safetensors` file that leakmeter wrote, a fitted scikit-learn classifier, a
            function from float arrays to arrays, `"http://127.0.0.1:8000/v2/models/NAME"` (Open Inference Protocol), or
            the path of a `.toml` file that describes another JSON API.
        input_shape: the shape of one raw input, such as `(1, 28, 28)`; pictures are channels, height, width.
        low: the lowest value an input may take, one number or one a feature; None: unbounded.
        high: the highest value.
        classes: the number of output columns, or what the classes are called, in their order.
        outputs: what the model returns: `"logits"`, `"probs"` or `"labels"`.
        output: which output to read, by name, where the model has several.
        inputs: of an `.onnx` file with several inputs: what all but the one to attack hold, by name.
        sizes: of an `.onnx` file that leaves sides of its input open: their sizes by name, such as `{"H": 224}`.
        scale: raw inputs are multiplied by this before the model sees them; this and what follows is preprocessing that
            belongs to the model, so that queries stay in the raw box.
        mean: is subtracted after scaling, one number or one a channel.
        std: is divided by after that.
        layout: `"nchw"` or `"nhwc"`: whether the model takes channels first or last; None: told by the shape.
        resize: height and width that the model takes, where raw pictures have another size.
        dtype: the numbers the model takes, such as `"uint8"`; None: floats, or what its file says.
        device: where an `nn.Module` computes.
        name: what reports call it.
        remote: how to ask a victim over HTTP, and who allowed it; see `RemoteSettings`.
        columns: what the columns of a table hold, as in the `[columns]` section of a plan; they say shape and range.
        assumed: the range to take where neither the caller nor the model says one; `Victim.notes` tells so.
        share: what a victim over HTTP must keep to where several workers ask it; None: its own settings.
    """
    if name is None and isinstance(source, str | Path):
        name = str(source)
    check_device(device)
    names = None if classes is None or isinstance(classes, int) else tuple(map(str, classes))
    facts = Facts(
        input_shape,
        low,
        high,
        classes=classes if isinstance(classes, int) else None if names is None else len(names),
        outputs=outputs,
        name=name,
        columns=columns if columns is None or isinstance(columns, Columns) else Columns.parse(columns),
        class_names=names,
        assumed=assumed,
        preparation=make_preparation(
            {"scale": scale, "mean": mean, "std": std, "layout": layout, "resize": resize, "dtype": dtype}
        ),
    )
    ends = Ends(output, inputs or {}, sizes or {})
    settings = None if remote is None else make_settings(remote)
    return open_source(source, Request(facts, device, settings, share, ends))
