"""Lemmas 5 and 6 of Milli et al.: used in proofs only, true all the same."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats


@pytest.mark.parametrize("eps", [0.01, 0.1, 0.5, 1.0, 3.0])
def test_lemma_5_a_difference_of_chi_squares_is_seldom_small(eps: float) -> None:
    def within(r: float) -> float:
        return float(stats.chi2.pdf(r, 2) * (stats.chi2.cdf(r + eps, 2) - stats.chi2.cdf(r - eps, 2)))

    share = integrate.quad(within, 0, 60, points=[eps])[0]
    assert share == pytest.approx(1 - np.exp(-eps / 2), abs=1e-6)
    assert share <= eps


def test_lemma_6_a_product_of_gaussians_is_half_a_difference_of_chi_squares() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 20_000))
    q, r = (x + y) ** 2 / 2, (x - y) ** 2 / 2
    assert np.allclose(x * y, (q - r) / 2)
    assert all(stats.kstest(each, stats.chi2(1).cdf).pvalue > 0.01 for each in (q, r))
    assert abs(np.corrcoef(q, r)[0, 1]) < 0.03
