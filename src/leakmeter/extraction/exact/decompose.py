"""Singular values, also where the fast algorithm does not converge."""

from __future__ import annotations

import torch
from torch import Tensor


def svd(matrix: Tensor, *, full: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """As `torch.linalg.svd`; of many equal singular values its algorithm may not converge, and a slower one does."""
    try:
        u, size, v = torch.linalg.svd(matrix, full_matrices=full)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        if matrix.dim() != 2 or not bool(matrix.isfinite().all()):
            raise
        import scipy.linalg

        found = scipy.linalg.svd(matrix.numpy(), full_matrices=full, lapack_driver="gesvd", check_finite=False)
        u, size, v = (torch.from_numpy(part) for part in found)
    return u, size, v
