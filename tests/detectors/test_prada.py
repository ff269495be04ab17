"""PRADA against the algorithm written out plainly, and on the streams it is for."""

import numpy as np
import pytest
import torch
from scipy.stats import shapiro
from torch import Tensor

from leakmeter.data.catalogue import load
from leakmeter.detectors import LIMIT, make_detector
from leakmeter.detectors.prada import Prada, normality
from leakmeter.errors import UsageError


def plain(x: np.ndarray, labels: list[int], delta: float) -> int | None:
    """Algorithm 3, one query after the other, as the paper writes it."""
    grown: dict[int, list[np.ndarray]] = {}
    apart: dict[int, list[float]] = {}
    threshold: dict[int, float] = {}
    distances: list[float] = []
    for number, (query, c) in enumerate(zip(x, labels, strict=True), 1):
        if c not in grown:
            grown[c], apart[c], threshold[c] = [query], [0.0], 0.0
        else:
            nearest = min(float(np.linalg.norm(query - other)) for other in grown[c])
            distances.append(nearest)
            if nearest > threshold[c]:
                grown[c].append(query)
                apart[c].append(nearest)
                threshold[c] = max(threshold[c], np.mean(apart[c]) - np.std(apart[c]))
        if len(distances) > 100:
            kept = np.array(distances)
            kept = kept[np.abs(kept - kept.mean()) <= 3 * kept.std()]
            if shapiro(kept).statistic < delta:
                return number
    return None


@pytest.fixture(scope="module")
def digits() -> tuple[Tensor, Tensor]:
    data = load("digits", "train")
    assert data.y is not None
    return data.x, data.y


@pytest.fixture(scope="module")
def jacobian(digits: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Seeds, then copies of all so far moved one step along their class's direction (Papernot et al. 2017)."""
    x, y = digits[0][:60], digits[1][:60]
    means = torch.stack([digits[0][digits[1] == c].mean(0) for c in range(10)])
    for _ in range(3):
        x = torch.cat([x, (x + 0.1 * (means[y] - 0.3).sign()).clamp(0, 1)])
        y = torch.cat([y, y])
    return x, y


def fired(x: Tensor, y: Tensor, delta: float = 0.9) -> int | None:
    detector = Prada(delta)
    detector.observe(x, y)
    assert detector.queries == len(x)
    return detector.fired_at


@pytest.mark.parametrize("delta", [0.9, 0.95, 0.97])
def test_fires_where_the_plain_algorithm_fires(delta: float, digits, jacobian) -> None:
    for x, y in (digits[0][:600], digits[1][:600]), jacobian:
        assert fired(x, y, delta) == plain(x.flatten(1).numpy(), y.tolist(), delta)


def test_honest_data_does_not_set_it_off_and_synthetic_steps_do(digits, jacobian) -> None:
    assert fired(*digits) is None
    at = fired(*jacobian)
    assert at is not None
    assert 100 < at < 300


def test_turning_from_data_to_noise_is_noticed(digits) -> None:
    noise = torch.rand(300, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    x, y = torch.cat([digits[0][:300], noise]), torch.cat([digits[1][:300], digits[1][:300]])
    at = fired(x, y)
    assert at is not None
    assert 300 < at < 450


def test_noise_alone_escapes(digits) -> None:
    """Distances among one kind of noise look normal: what PRADA misses, not what it should."""
    noise = torch.rand(900, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert fired(noise, digits[1][:900]) is None


def test_the_same_question_again_and_again_is_noticed() -> None:
    assert fired(torch.zeros(300, 4), torch.zeros(300, dtype=torch.long)) == 102


def test_how_the_stream_is_cut_does_not_matter(jacobian) -> None:
    x, y = jacobian
    piecewise = Prada(0.93)
    for rows, labels in zip(torch.split(x, 7), torch.split(y, 7), strict=True):
        piecewise.observe(rows, labels)
    assert (piecewise.fired_at, piecewise.queries) == (fired(x, y, 0.93), len(x))


def test_w_is_scipys_after_outliers_are_gone() -> None:
    values = np.random.default_rng(0).normal(5, 1, 400)
    spoilt = np.append(values, 500.0)
    assert normality(spoilt) == pytest.approx(shapiro(values).statistic, rel=1e-12)


def test_looks_at_the_first_5000_only() -> None:
    generator = torch.Generator().manual_seed(0)
    detector = Prada(0.5)
    detector.observe(torch.randn(LIMIT, 2, generator=generator), torch.arange(LIMIT) % 400)
    detector.observe(torch.zeros(3000, 2), torch.zeros(3000, dtype=torch.long))
    assert (detector.fired_at, detector.queries) == (None, LIMIT + 3000)


def test_text() -> None:
    assert isinstance(make_detector("prada:0.95"), Prada)
    with pytest.raises(UsageError, match=r"unknown detector 'parda'; did you mean 'prada'"):
        make_detector("parda")
    for text, sentence in {
        "prada:high": "expected numbers in 'prada:high', got 'high'",
        "prada:2": "between 0 and 1, got 2",
        "prada:": "expected numbers in 'prada:', got ''",
        "prada:1,2": "expected the detector prada:DELTA, got 'prada:1,2'",
    }.items():
        with pytest.raises(UsageError, match=sentence):
            make_detector(text)
