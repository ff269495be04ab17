"""A decomposition that does not converge is made in another way: it had ended the whole search."""

import pytest
import torch

from leakmeter.extraction.exact.decompose import svd


def test_where_the_fast_algorithm_fails_another_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = torch.randn(5, 8).double()

    def failing(*_: object, **__: object) -> None:
        raise torch.linalg.LinAlgError("too many repeated singular values")

    monkeypatch.setattr(torch.linalg, "svd", failing)
    u, size, v = svd(matrix)
    assert torch.allclose(u * size @ v, matrix)
    assert svd(matrix, full=True)[2].shape == (8, 8)
    with pytest.raises(torch.linalg.LinAlgError):
        svd(matrix * torch.nan)
