import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from leakmeter.models.generators.base import enlarged_conv


@pytest.mark.parametrize("sides", [(12, 18), (11, 18), (6, 9)])
def test_it_equals_enlarging_first_in_values_and_gradients(sides: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    conv = nn.Conv2d(5, 7, 3, padding=1).double()
    x = torch.randn(2, 5, 6, 9, generator=generator, dtype=torch.float64, requires_grad=True)
    plain, ours = conv(F.interpolate(x, size=sides)), enlarged_conv(conv, x, sides)
    assert torch.allclose(plain, ours, atol=1e-12)
    inputs = (x, conv.weight, conv.bias)
    for a, b in zip(
        torch.autograd.grad(plain.square().sum(), inputs), torch.autograd.grad(ours.square().sum(), inputs), strict=True
    ):
        assert torch.allclose(a, b, atol=1e-9)
