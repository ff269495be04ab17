"""Following surfaces, where layers are wider than the input."""

import pytest
import torch
from torch import Tensor

from leakmeter.extraction.exact.follow import follow
from leakmeter.extraction.exact.kinks import Trace
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.survey import Survey
from leakmeter.studies.ours.exact_depth import deep_network


def layers(widths: tuple[int, ...], seed: int) -> list[Layer]:
    linear = list(deep_network(widths, seed=seed))[::2]
    return [Layer.of(module.weight.detach(), module.bias.detach()) for module in linear]


class Surface:
    """Answers for one unit of the top layer as short lines across it would, and counts how often it was asked."""

    def __init__(self, stack: Stack, unit: int) -> None:
        self.stack, self.unit, self.asked = stack, unit, 0

    def slope(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, gradient = self.stack.slopes(x[None], torch.eye(len(x)).double())
        return z[0, self.unit], gradient[0, self.unit]

    def place(self, x: Tensor) -> Tensor:
        for _ in range(100):
            z, gradient = self.slope(x)
            x = x - z * gradient / gradient.square().sum()
        return x

    def across(self, origin: Tensor, along: Tensor, careful: bool) -> Survey:
        self.asked += 1
        t = torch.linspace(-1, 1, 4001).double()
        z = self.stack.inputs(origin + t[:, None] * along)[-1][:, self.unit]
        found = (z[1:] * z[:-1] < 0).nonzero()[:, 0]
        at = t[found] - z[found] * (t[found + 1] - t[found]) / (z[found + 1] - z[found])
        normals = [self.slope(origin + position * along)[1] for position in at]
        normals = torch.stack([-n / n.norm() for n in normals]) if normals else torch.zeros(0, len(origin)).double()
        nothing = Trace(*(torch.zeros(0) for _ in range(5)))
        return Survey(origin, along, (-1.0, 1.0), at, normals, torch.full_like(at, 1e-13), nothing, True)


@pytest.mark.parametrize("widths", [(6, 14, 9, 1), (5, 9, 9, 7, 1)], ids=["first layer", "second layer"])
def test_a_surface_followed_tells_every_weight(widths: tuple[int, ...]) -> None:
    parts, found = layers(widths, seed=3), 0
    depth = len(widths) - 3
    truth, below = Stack(parts[: depth + 1]), Stack([layer.clone() for layer in parts[:depth]])
    for unit in range(5):
        surface = Surface(truth, unit)
        x = surface.place(torch.randn(widths[0]).double())
        z, normal = surface.slope(x)
        if not abs(float(z)) < 1e-9 or not bool(normal.isfinite().all()):
            continue  # Newton's steps ended elsewhere
        row = follow(below, x, normal / normal.norm(), surface.across, 1e-6)
        if row is not None:
            found += 1
            truth_row = parts[depth].weight[unit] * row.known
            cosine = torch.cosine_similarity(row.weight, truth_row, dim=0)
            assert abs(float(cosine)) == pytest.approx(1.0, abs=1e-9)
            assert surface.asked <= 4 * widths[depth]
    assert found >= 1
