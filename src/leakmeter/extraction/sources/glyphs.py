"""Letters, digits and signs of the fonts that come with matplotlib: written things, drawn without any data.

Each fills the frame, turned, sheared and bent a little, with a pen of its own width; in colour, ink and paper
have a colour each.
"""

from __future__ import annotations

import string
from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from leakmeter.extraction.makers.canvas import smooth_field, uniform
from leakmeter.extraction.sources import into_box
from leakmeter.victims.spec import VictimSpec

_FONTS = (
    "DejaVuSans",
    "DejaVuSans-Oblique",
    "DejaVuSansMono",
    "DejaVuSerif",
    "STIXGeneral",
    "cmr10",
    "cmss10",
    "cmtt10",
)
_SIGNS = string.ascii_letters + string.digits + "#$%&*+<=>?@/"
_SIDE = 48  # pixels a side at which signs are kept
_BLUR = 9  # pixels: where the ink ends is chosen on the blurred edge, so a pen can be thin or broad
_FINE = 32  # pixels a side at which they are bent, before the victim's size
_CHUNK = 1024


def glyphs(n: int, spec: VictimSpec, generator: torch.Generator) -> Tensor:
    """Signs in random order, one a picture."""
    channels, height, width = spec.input_shape
    ink = torch.cat([_bent(min(_CHUNK, n - at), height, width, generator) for at in range(0, n, _CHUNK)])
    if channels == 1:
        return into_box(ink, spec)
    paper, colour = uniform(generator, 2, n, channels, 1, 1)
    return into_box(torch.lerp(paper.expand(-1, -1, height, width), colour, ink), spec)


def _bent(n: int, height: int, width: int, generator: torch.Generator) -> Tensor:
    """Ink in [0, 1], [n, 1, height, width]."""
    bank = _bank()
    signs = bank[torch.randint(len(bank), (n,), generator=generator)]
    finer = max(1, round(_FINE / min(height, width)))
    shape = (1, height * finer, width * finer)
    turn, shear = uniform(generator, 2, n, low=-0.25, high=0.25)
    across, down = uniform(generator, 2, n, low=0.75, high=1.3)
    shift = uniform(generator, 2, n, low=-0.12, high=0.12)
    rows = [
        turn.cos() / across,
        (shear - turn.sin()) / across,
        shift[0],
        turn.sin() / down,
        turn.cos() / down,
        shift[1],
    ]
    grid = F.affine_grid(torch.stack(rows, -1).reshape(-1, 2, 3), [n, *shape], align_corners=False)
    grid = grid + 0.06 * smooth_field(generator, n, 2, shape, 4).permute(0, 2, 3, 1)
    sampled = F.grid_sample(signs, grid, align_corners=False)
    pen, edge = uniform(generator, n, 1, 1, 1, low=0.05, high=0.55), uniform(generator, n, 1, 1, 1, low=2, high=6)
    return F.avg_pool2d(((sampled - pen) * edge + 0.5).clamp(0, 1), finer)


@cache
def _bank() -> Tensor:
    """Every sign in every font, white on black and slightly blurred, [signs, 1, side, side]."""
    import matplotlib
    from PIL import ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    fonts = [ImageFont.truetype(str(folder / f"{name}.ttf"), _SIDE) for name in _FONTS]
    return torch.stack([_framed(font.getmask(sign)) for font in fonts for sign in _SIGNS])


def _framed(mask: object) -> Tensor:
    """A sign as high as the frame but for a margin, its proportions kept unless it is wider than high."""
    pixels = np.array(mask, dtype=np.float32).reshape(mask.size[::-1]) / 255  # type: ignore[attr-defined]
    rows, columns = np.nonzero(pixels > 0.5)
    sign = torch.from_numpy(pixels[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1])[None, None]
    height = _SIDE - 8
    width = min(height, max(4, round(height * sign.shape[3] / sign.shape[2])))
    sign = F.interpolate(sign, (height, width), mode="bilinear", antialias=True)
    left = (_SIDE - width) // 2
    framed = F.pad(sign, (left, _SIDE - width - left, 4, 4))
    return F.avg_pool2d(framed, _BLUR, stride=1, padding=_BLUR // 2)[0]
