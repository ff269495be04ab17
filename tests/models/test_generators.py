from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from leakmeter.errors import UsageError
from leakmeter.models import GENERATORS, make_generator
from leakmeter.models.generators.base import Generator, centre_crop
from leakmeter.models.generators.dast import DastGenerator
from leakmeter.seeds import stream

NAMES = tuple(GENERATORS)
SHAPES = [(1, 28, 28), (3, 32, 32), (1, 8, 8), (2, 30, 21), (1, 1, 5)]


def draw(generator: Generator, n: int = 20, seed: int = 0) -> Tensor:
    z = generator.noise(n, stream(seed, "noise"))
    if isinstance(generator, DastGenerator):
        return generator(z, torch.arange(n) % len(generator.branches))
    return generator(z)


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_channels_and_size(name: str, shape: tuple[int, ...]) -> None:
    image = draw(make_generator(name, shape, seed=0, width=4))
    assert image.shape == (20, *shape)
    assert image.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_weights_follow_from_the_seed_and_leave_the_global_state_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, again, other = (draw(make_generator(name, (1, 8, 8), seed=seed, width=4)) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_parameter(name: str) -> None:
    generator = make_generator(name, (1, 12, 12), seed=0, width=4)
    (generator.to_box(draw(generator)) * torch.rand(20, 1, 12, 12)).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in generator.parameters())
    assert all(m.weight.grad.abs().sum() > 0 for m in generator.modules() if isinstance(m, nn.Conv2d | nn.Linear))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=50)
@given(low=st.floats(-1e3, 1e3, width=32), gap=st.floats(2**-7, 1e3, width=32), seed=st.integers(0, 99))
def test_no_rounding_leaves_the_box(name: str, low: float, gap: float, seed: int) -> None:
    generator = make_generator(name, (1, 4, 4), width=1, low=low, high=low + gap)
    scale = torch.tensor([0.0, 1.0, 10.0, 1e4]).view(4, 1, 1, 1)
    x = generator.to_box(scale * torch.randn(4, 1, 4, 4, generator=stream(seed)))
    assert (x >= generator.low).all()
    assert (x <= generator.high).all()


def test_box_per_feature_and_squashing() -> None:
    low, high = torch.tensor([-1.0, 0.0]).view(2, 1, 1), torch.tensor([1.0, 5.0]).view(2, 1, 1)
    generator = make_generator("dfme", (2, 4, 4), width=4, low=low, high=high)
    image = draw(generator)
    x = generator.to_box(image)
    torch.testing.assert_close(x[:, 0], image[:, 0].tanh())  # in [-1, 1] the box is DFME's plain tanh
    torch.testing.assert_close(x[:, 1], 2.5 * (image[:, 1].tanh() + 1))
    dast = make_generator("dast", (2, 4, 4), width=4)
    torch.testing.assert_close(dast.to_box(image), image.sigmoid())


def test_dfme_follows_the_papers_layers() -> None:
    """256 numbers, 128 maps of 8×8, three 3×3 convolutions, each with a batch norm, the last without parameters."""
    expected = (256 * 8192 + 8192) + 256 + (128 * 128 * 9 + 128) + 256 + (128 * 64 * 9 + 64) + 128 + (64 * 3 * 9 + 3)
    generator = make_generator("dfme", (3, 32, 32))
    assert count(generator) == expected
    image = draw(generator, n=64)
    torch.testing.assert_close(image.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(image.var((0, 2, 3), correction=0), torch.ones(3), atol=1e-3, rtol=0)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_dfme_equals_the_papers_network_written_down_in_values_and_gradients(layout: torch.memory_format) -> None:
    generator = make_generator("dfme", (3, 12, 12), seed=1, width=4).double().to(memory_format=layout)
    z = torch.randn(6, generator.latent, generator=stream(0), dtype=torch.float64)

    def written_down() -> Tensor:
        x = F.interpolate(generator.start(z), scale_factor=2)
        x = F.leaky_relu(generator.middle[0](generator.halved(x)), 0.2)
        x = generator.whole(F.interpolate(x, scale_factor=2))
        bn, _, conv, last = generator.end
        return last(conv(F.leaky_relu(bn(x), 0.2)))

    weights = torch.randn(6, 3, 12, 12, generator=stream(1), dtype=torch.float64)
    plain, ours = written_down(), generator(z)
    torch.testing.assert_close(ours, plain)
    gradients = [torch.autograd.grad((image * weights).sum(), generator.parameters()) for image in (ours, plain)]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=1e-8, rtol=1e-6)


def test_dast_follows_the_papers_layers() -> None:
    generator = make_generator("dast", (1, 28, 28))
    branch = 128 * 128 * 9 + 256 + 5 * (128 * 128 * 16 + 256)
    filters = [128, 256, 512, 256, 128, 64, 1]
    shared = sum(9 * a * b + 2 * b for a, b in pairwise(filters)) + 9
    assert count(generator) == 10 * branch + shared


def test_dast_uses_the_branch_of_each_label_whatever_the_order() -> None:
    generator = make_generator("dast", (1, 8, 8), width=4, classes=3).eval()
    z, labels = generator.noise(7, stream(0)), torch.tensor([2, 0, 1, 1, 0, 2, 2])
    together = generator(z, labels)
    alone = torch.cat([generator(z[i : i + 1], labels[i : i + 1]) for i in range(7)])
    torch.testing.assert_close(together, alone)
    assert not torch.allclose(together, generator(z, (labels + 1) % 3), rtol=1e-2, atol=0)


def test_dast_refuses_labels_it_cannot_serve() -> None:
    generator = make_generator("dast", (1, 8, 8), width=4, classes=3)
    z = generator.noise(3, stream(0))
    with pytest.raises(UsageError, match="labels below 3, got 5"):
        generator(z, torch.tensor([0, 0, 5]))
    with pytest.raises(UsageError, match="2 images or more of each class asked for, got 1 of 2"):
        generator(z, torch.tensor([0, 0, 2]))


def test_centre_crop_keeps_the_middle() -> None:
    x = torch.arange(25.0).view(1, 5, 5)
    assert torch.equal(centre_crop(x, 3, 1), torch.tensor([[[7.0], [12.0], [17.0]]]))


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (0.0, float("inf")), (float("nan"), 1.0)])
def test_a_box_that_is_none(low: float, high: float) -> None:
    with pytest.raises(UsageError, match="finite box"):
        make_generator("dfme", (1, 8, 8), low=low, high=high)


def test_bad_names_options_and_shapes() -> None:
    with pytest.raises(UsageError, match="did you mean 'dfme'"):
        make_generator("dfmee", (1, 8, 8))
    with pytest.raises(UsageError, match=r"no option \['classes'\]"):
        make_generator("codfe", (1, 8, 8), classes=10)
    with pytest.raises(UsageError, match="works on images"):
        make_generator("dfme", (64,))
