"""The copy: the linear piece around one point, plus every hidden unit that switches on somewhere away from it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class OneHidden(nn.Module):
    """f(x) = weights relu(normals x - offsets) + skip x + shift, with normals of length one.

    Seen from a start point all units are off. A unit that the victim has on there is found with its normal turned
    round; that adds a linear term, which is part of the piece at the start, so nothing needs to be known about it.
    """

    skip: Tensor
    shift: Tensor
    normals: Tensor
    offsets: Tensor
    weights: Tensor

    def __init__(self, start: Tensor, value: Tensor, gradient: Tensor) -> None:
        super().__init__()
        self.register_buffer("skip", gradient.clone())
        self.register_buffer("shift", value - gradient @ start)
        self.register_buffer("normals", gradient.new_zeros(0, len(start)))
        self.register_buffer("offsets", gradient.new_zeros(0))
        self.register_buffer("weights", gradient.new_zeros(len(value), 0))

    @property
    def units(self) -> int:
        """How many hidden units are known."""
        return len(self.offsets)

    def hidden(self, x: Tensor) -> Tensor:
        """What the units compare with zero, [n, h]."""
        return torch.addmm(-self.offsets, x, self.normals.T)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs, [n, C]."""
        return torch.addmm(torch.addmm(self.shift, x, self.skip.T), torch.relu(self.hidden(x)), self.weights.T)

    def pieces(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs [n, C] and their gradients [n, C, d]."""
        on = (self.hidden(x) > 0).to(x)
        gradients = torch.stack([(on * row) @ self.normals for row in self.weights], dim=1)
        return self(x), gradients + self.skip

    def add(self, normals: Tensor, offsets: Tensor, weights: Tensor, *, jump_noise: float, bias_noise: Tensor) -> int:
        """Adds units; one on a known unit's hyperplane, as far as can be told, changes that unit's weights instead.

        Units without weight left are dropped: that is how a bend disappears which was taken for one unit and turns
        out to be two. `jump_noise` is how far off weight times normal may be, `bias_noise` [n] weight times offset.
        Returns how many of the units were known.
        """
        twin, known = self._twins(normals, offsets, weights, jump_noise, bias_noise)
        self.weights = self.weights.index_add(1, twin[known], weights[:, known])
        self.append(normals[~known], offsets[~known], weights[:, ~known])
        self.keep(self.weights.norm(dim=0) > jump_noise)
        return int(known.sum())

    def append(self, normals: Tensor, offsets: Tensor, weights: Tensor) -> None:
        """Adds units as they are."""
        self.normals = torch.cat([self.normals, normals])
        self.offsets = torch.cat([self.offsets, offsets])
        self.weights = torch.cat([self.weights, weights], dim=1)

    def keep(self, which: Tensor) -> None:
        """Drops all other units."""
        self.normals, self.offsets, self.weights = self.normals[which], self.offsets[which], self.weights[:, which]

    def restore(self, parts: list[Tensor]) -> None:
        """Takes over all numbers, in the order of the buffers."""
        self.skip, self.shift, self.normals, self.offsets, self.weights = (part.clone() for part in parts)

    def _twins(
        self, normals: Tensor, offsets: Tensor, weights: Tensor, jump_noise: float, bias_noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The nearest known unit of each new one, [n], and whether noise alone can keep them apart, [n]."""
        if self.units == 0:
            nothing = torch.zeros(len(offsets), dtype=torch.long)
            return nothing, nothing.bool()
        shift = (self.offsets[:, None] - offsets).abs()
        twin = (self.normals @ normals.T - shift / (1 + offsets.abs())).argmax(0)
        size = torch.minimum(self.weights.norm(dim=0)[twin], weights.norm(dim=0))
        turn = (self.normals[twin] - normals).norm(dim=1)
        near = (turn * size <= 8 * jump_noise) & ((self.offsets[twin] - offsets).abs() * size <= 8 * bias_noise)
        return twin, near


def factor(jumps: Tensor, ahead: Tensor, noise: float) -> tuple[Tensor, Tensor, Tensor]:
    """Splits gradient jumps [m, C, d] into unit normals [n, d] that point `ahead` [m, d], and weights [C, n].

    A jump of one unit has rank one; where bends were not told apart, every singular value above the noise becomes a
    unit. Returns the row of the jump each unit came from as well, [n].
    """
    basis = torch.linalg.eigh(jumps @ jumps.mT)[1]
    parts = basis.mT @ jumps
    size = parts.norm(dim=2)  # not the roots of the eigenvalues, which are good to half the digits only
    large = size > noise
    large[:, -1] = True
    rows, which = large.nonzero(as_tuple=True)
    normals, length = parts[rows, which], size[rows, which]
    length = length * torch.where((normals * ahead[rows]).sum(1) >= 0, 1.0, -1.0)
    return normals / length[:, None], (basis[rows, :, which] * length[:, None]).T, rows
