"""The default everyone has: the 1,797 handwritten 8×8 digits inside scikit-learn."""

from __future__ import annotations

import torch

from leakmeter.data.dataset import Dataset, Split

SIZES: dict[Split, int] = {"train": 1438, "test": 359}


def load(split: Split) -> Dataset:
    """The fixed train or test part (four to one), scaled from 0..16 to [0, 1]."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = torch.from_numpy(digits.images).float().div_(16).unsqueeze(1)
    return Dataset("digits", x, torch.from_numpy(digits.target).long(), classes=10).holdout(split)
