import pytest
import torch

from leakmeter.errors import UsageError
from leakmeter.models.inputs import Normalize


def test_each_channel_gets_its_own_mean_and_deviation() -> None:
    x = torch.rand(2, 3, 4, 5)
    y = Normalize([0.1, 0.2, 0.3], [1.0, 2.0, 4.0])(x)
    torch.testing.assert_close(y[:, 2], (x[:, 2] - 0.3) / 4)
    torch.testing.assert_close(y[:, 0], x[:, 0] - 0.1)


def test_features_of_a_table() -> None:
    x = torch.tensor([[1.0, 10.0]])
    torch.testing.assert_close(Normalize([0.0, 5.0], [1.0, 5.0])(x), torch.tensor([[1.0, 1.0]]))


def test_statistics_travel_with_the_weights_and_are_not_trained() -> None:
    module = Normalize([0.5], [0.25])
    assert set(module.state_dict()) == {"mean", "std"}
    assert list(module.parameters()) == []


@pytest.mark.parametrize(("mean", "std"), [([0.0], [0.0]), ([0.0, 0.0], [1.0]), ([], [])])
def test_bad_statistics(mean: list[float], std: list[float]) -> None:
    with pytest.raises(UsageError, match="as many means"):
        Normalize(mean, std)
