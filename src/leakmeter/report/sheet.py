"""Contact sheets: what queries and adversarial examples look like."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from leakmeter.evasion.base import Evasion
from leakmeter.files import write_atomic, writing
from leakmeter.victims.spec import VictimSpec

_COLUMNS, _GAP, _SMALLEST = 16, 2, 32


def write_sheet(queries: Tensor, spec: VictimSpec, path: Path) -> None:
    """Draws images in rows of sixteen, small ones enlarged without smoothing."""
    with writing(path):
        write_atomic(path, sheet_png(unit_range(queries, spec)))


def unit_range(x: Tensor, spec: VictimSpec) -> Tensor:
    """Inputs mapped from their box, or from their own range where it is open, to [0, 1]."""
    return spec.box.to_unit(x)


def sheet_png(images: Tensor, columns: int = _COLUMNS) -> bytes:
    """[n, channels, height, width] in [0, 1] as one PNG."""
    images = images.float()[:, :3] if images.shape[1] >= 3 else images.float()[:, :1]
    n, channels, height, width = images.shape
    columns = min(columns, n)
    rows = -(-n // columns)
    page = torch.ones(channels, rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP)
    for i, image in enumerate(images):
        top, left = (i // columns) * (height + _GAP), (i % columns) * (width + _GAP)
        page[:, top : top + height, left : left + width] = image
    pixels = (page * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    picture = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    scale = max(1, _SMALLEST // min(height, width))
    picture = picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def adversarial_png(x: Tensor, found: Evasion, spec: VictimSpec, columns: int = 12) -> bytes:
    """Three rows: the originals, the adversarial examples, and their difference about grey."""
    chosen = torch.argsort(found.success.double(), descending=True, stable=True)[:columns].cpu()
    clean, bad = unit_range(x.cpu()[chosen], spec), unit_range(found.examples.cpu()[chosen], spec)
    difference = bad - clean
    scale = difference.abs().flatten(1).amax(1).clamp_min(1e-6).reshape(-1, 1, 1, 1)
    return sheet_png(torch.cat([clean, bad, 0.5 + 0.5 * difference / scale]), columns=len(chosen))
