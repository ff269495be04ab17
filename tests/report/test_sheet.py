import io

import numpy as np
import torch
from PIL import Image

from leakmeter.report.sheet import sheet_png


def test_images_lie_in_rows_of_sixteen():
    images = torch.zeros(17, 1, 40, 40)
    images[16] = 1.0
    page = np.asarray(Image.open(io.BytesIO(sheet_png(images))))
    assert page.shape == (82, 16 * 42 - 2)
    assert page[:40, :40].max() == 0
    assert page[42:, :40].min() == 255
    assert page[42:, 42:].min() == 255  # paper


def test_small_images_are_enlarged_and_colour_is_kept():
    images = torch.zeros(2, 3, 8, 8)
    images[:, 1] = 1.0
    page = np.asarray(Image.open(io.BytesIO(sheet_png(images))))
    assert page.shape == (32, 72, 3)
    assert page[0, 0].tolist() == [0, 255, 0]
