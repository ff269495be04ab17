"""The mean of a few values between 0 and 1, bounded whatever their distribution.

A copy's fidelity is no normal variable: one seed in five may fail outright, and three seeds that all succeeded have
not seen it. Gaffke's bound ("Three test statistics for a nonparametric one-sided hypothesis on the mean of a
nonnegative variable", 2005; Learned-Miller and Thomas, arXiv 1905.06208) assumes nothing but the range: one more value
is added at the far end of it, and the bound is a quantile of the mean of all of them under random weights that are
uniform on the simplex. For values that are all 0 or 1 it is the bound of Clopper and Pearson. That it never covers too
rarely is a conjecture, supported by every simulation published so far and by `bench/coverage.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from leakmeter.errors import UsageError


def mean_bounds(values: Sequence[float], tail: float) -> tuple[float, float]:
    """Bounds on the mean of a variable in [0, 1] that was seen as `values`; each wrong with probability `tail`."""
    if not values or not all(0 <= value <= 1 for value in values):
        raise UsageError(f"expected at least one value, all between 0 and 1, got {list(values)}")
    return 1 - _upper([1 - value for value in values], tail), _upper(values, tail)


def _upper(values: Sequence[float], tail: float) -> float:
    """The quantile at 1 - tail of the randomly weighted mean of the values and one more, which is 1."""
    from scipy.optimize import brentq

    points = [*values, 1.0]
    if min(points) == 1.0:
        return 1.0
    return float(brentq(lambda at: _below(points, at) - (1 - tail), min(points), 1.0))


def _below(points: Sequence[float], at: float) -> float:
    """The share of the simplex of weights whose mean of the points is less than `at`.

    Varsi's recursion ("The multidimensional content of the frustum of the simplex", 1973): averages only, so it is as
    exact with many equal points as with few different ones.
    """
    over = [point - at for point in points if point >= at]
    under = [point - at for point in points if point < at]
    shares = [1.0] + [0.0] * len(over)
    for low in under:
        for k, high in enumerate(over, 1):
            shares[k] = (high * shares[k] - low * shares[k - 1]) / (high - low)
    return shares[-1]
