from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakmeter.data.dataset import Dataset, adapt
from leakmeter.errors import UsageError


def images(*shape: int, seed: int = 0) -> Dataset:
    x = torch.rand(shape, generator=torch.Generator().manual_seed(seed))
    return Dataset("images", x, torch.arange(shape[0]) % 4, 4)


def test_grey_is_repeated_over_all_channels():
    source = images(5, 1, 8, 8)
    x = adapt(source, (3, 8, 8)).x
    assert all(torch.equal(x[:, [c]], source.x) for c in range(3))


def test_colour_becomes_grey_by_its_luma():
    x = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]).reshape(3, 3, 1, 1)
    grey = adapt(Dataset("primaries", x, None, None), (1, 1, 1)).x
    assert grey.flatten().tolist() == pytest.approx([0.299, 0.587, 0.114])


def test_halving_averages_smooth_ramps_and_constants_stay():
    ramp = torch.linspace(0, 1, 16).expand(1, 1, 16, 16)
    half = adapt(Dataset("ramp", ramp.contiguous(), None, None), (1, 8, 8)).x[0, 0]
    inner = ramp[0, 0, 0].reshape(8, 2).mean(1)[1:-1]  # at the borders the kernel has only one side
    assert torch.allclose(half[:, 1:-1], inner.expand(8, 6), atol=1e-6)
    flat = adapt(Dataset("flat", torch.full((1, 1, 28, 28), 0.4), None, None), (3, 32, 32)).x
    assert torch.allclose(flat, torch.tensor(0.4))


@settings(max_examples=40)
@given(st.sampled_from([1, 3]), st.sampled_from([1, 3]), st.integers(1, 40), st.integers(1, 40), st.integers(0, 9))
def test_any_images_become_any_images_in_the_box(channels, target, height, width, seed):
    source = images(4, channels, 9, 7, seed=seed)
    adapted = adapt(source, (target, height, width))  # Dataset itself checks the box
    assert adapted.input_shape == (target, height, width)
    assert torch.equal(adapted.y, source.y)


def test_flat_and_image_swap_where_the_values_agree():
    source = images(5, 1, 8, 8)
    flat = adapt(source, (64,))
    assert flat.input_shape == (64,)
    assert torch.equal(adapt(flat, (1, 8, 8)).x, source.x)


def test_the_skew_keeps_the_first_classes():
    assert set(adapt(images(8, 1, 2, 2), (1, 2, 2), first_classes=2).y.tolist()) == {0, 1}


def test_nothing_to_do_returns_the_same():
    source = images(5, 1, 8, 8)
    assert adapt(source, (1, 8, 8)) is source


@pytest.mark.parametrize("shape", [(10,), (4, 8, 8), (2, 3, 8, 8)])
def test_what_cannot_fit_is_refused(shape):
    with pytest.raises(UsageError, match="images"):
        adapt(images(5, 3, 8, 8), shape)
