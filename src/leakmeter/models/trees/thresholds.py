"""The box in which an ensemble of trees decides: outside of its thresholds nothing changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leakmeter.models.trees.ensemble import TreeEnsemble

_SHARE = 10  # of the distance between the outermost thresholds that is added on either side, at least


def threshold_box(ensemble: TreeEnsemble, features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lowest and the highest value of every column that reach both sides of each of its thresholds."""
    feature, threshold = ensemble.feature.numpy(), ensemble.threshold.numpy()
    by_number = (feature >= 0) & (ensemble.category.numpy() < 0) & np.isfinite(threshold)
    low, high = np.zeros(features), np.ones(features)
    for column in np.unique(feature[feature >= 0]):
        levels = np.unique(threshold[by_number & (feature == column)])
        if len(levels):
            beyond = (levels[-1] - levels[0]) / min(len(levels), _SHARE) or 1.0
            low[column], high[column] = levels[0] - beyond, levels[-1] + beyond
        else:  # it is looked up in sets of categories
            high[column] = max(1, ensemble.members.shape[1] - 1)
    return low, high
