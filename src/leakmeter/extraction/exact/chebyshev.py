"""Appendix B of the paper: points in one cell whose activations are linearly independent.

The program printed there, (z_i^T y + r) sgn(z_i^T v) >= 0, keeps no ball inside the cell: r must push away from every
hyperplane, on either side, and by the length of its normal; and the ball must fit into the box as well. Here it is
sgn(z_i^T v) z_i^T y >= r |z_i| and r <= y <= 1 - r.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import qr
from scipy.optimize import linprog
from torch import Tensor


def chebyshev_center(Z: Tensor, v: Tensor) -> tuple[Tensor, float] | None:
    """Centre and radius of the largest ball in the cell of `v` within [0, 1]^d; None if the solver finds none."""
    h, d = Z.shape
    signed = (torch.sign(Z @ v)[:, None] * Z).numpy()
    eye, one = np.eye(d), np.ones((d, 1))
    away = np.hstack([-signed, np.linalg.norm(signed, axis=1, keepdims=True)])
    box = np.vstack([np.hstack([-eye, one]), np.hstack([eye, one])])
    limits = np.concatenate([np.zeros(h + d), np.ones(d)])
    goal = np.append(np.zeros(d), -1.0)
    found = linprog(goal, np.vstack([away, box]), limits, bounds=[(0, 1)] * d + [(0, None)], method="highs")
    if not found.success or found.x is None or found.x[-1] <= 0:
        return None
    return torch.from_numpy(found.x[:-1]), float(found.x[-1])


def query_points(Z: Tensor, v: Tensor) -> Tensor | None:
    """X [d, h] with all columns in the cell of `v` and rank(ZX) = h; None if there is none to be found."""
    ball = chebyshev_center(Z, v)
    if ball is None:
        return None
    center, radius = ball
    Y = center[:, None] + radius / 2 * torch.eye(len(center), dtype=Z.dtype)
    R, picked = qr(Z @ Y, mode="r", pivoting=True)[-2:]
    pivots = np.abs(np.diagonal(R))
    if len(pivots) < len(Z) or pivots[-1] <= 1e-12 * pivots[0]:
        return None
    return Y[:, torch.from_numpy(picked[: len(Z)].copy())]
