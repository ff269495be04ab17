import math

import pytest
import torch
from torch import nn

from leakmeter.errors import UsageError
from leakmeter.models import MODELS, make_model

TABULAR = ("linear", "mlp", "mlp:7")
TINY = (
    *TABULAR,
    "lenet",
    "milli-conv",
    "small-conv:8",
    "stn-cifar",
    "vgg11:8",
    "resnet9:4",
    "resnet18:8",
    "resnet34:4",
)
ALL = (*TINY, "codfe-target", "codfe-substitute", "stn-mnist")


def parameters(name: str, shape: tuple[int, ...], classes: int = 10) -> int:
    return sum(p.numel() for p in make_model(name, shape, classes).parameters())


def conv(channels: int, out: int, side: int, bias: bool = True) -> int:
    return channels * out * side * side + out * bias


def dense(before: int, after: int) -> int:
    return before * after + after


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 29, 35)])
def test_logits_have_one_column_per_class(name: str, shape: tuple[int, ...]) -> None:
    assert make_model(name, shape, 7)(torch.rand(3, *shape)).shape == (3, 7)


@pytest.mark.parametrize("name", TINY)
def test_digits_size_works(name: str) -> None:
    assert make_model(name, (1, 8, 8), 10)(torch.rand(4, 1, 8, 8)).shape == (4, 10)


@pytest.mark.parametrize("name", TABULAR)
def test_flat_inputs_work_where_there_is_no_convolution(name: str) -> None:
    assert make_model(name, (13,), 2)(torch.rand(4, 13)).shape == (4, 2)


def test_every_registered_name_is_covered_here() -> None:
    assert {name.partition(":")[0] for name in ALL} == set(MODELS) - {"trees"}  # which have tests of their own


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("linear", (1, 28, 28), 7_850),
        ("mlp:128", (784,), dense(784, 128) + dense(128, 10)),
        ("lenet", (1, 28, 28), 61_706),  # LeNet-5 as everybody counts it
        ("lenet", (3, 32, 32), 62_006),
        ("milli-conv", (1, 28, 28), conv(1, 32, 5) + conv(32, 64, 5) + dense(64 * 49, 128) + dense(128, 10)),
        ("stn-mnist", (1, 28, 28), conv(1, 64, 5) + conv(64, 64, 5) + dense(64 * 20 * 20, 128) + dense(128, 10)),
        ("vgg11", (3, 32, 32), 9_231_114),  # the CIFAR forms in public use
        ("resnet18", (3, 32, 32), 11_173_962),
        ("resnet34", (3, 32, 32), 21_282_122),
    ],
)
def test_parameter_counts(name: str, shape: tuple[int, ...], expected: int) -> None:
    assert parameters(name, shape) == expected


def test_stn_cifar_weighs_what_the_released_file_weighs() -> None:
    assert round(parameters("stn-cifar", (3, 32, 32)) * 4 / 1e6, 1) == 4.1


@pytest.mark.parametrize(("name", "count"), [("codfe-target", 4), ("codfe-substitute", 3), ("stn-cifar", 7)])
def test_convolutions_the_papers_state(name: str, count: int) -> None:
    assert sum(isinstance(m, nn.Conv2d) for m in make_model(name, (3, 32, 32), 10).modules()) == count


@pytest.mark.parametrize(("name", "layers"), [("resnet9", 9), ("resnet18", 18), ("resnet34", 34), ("vgg11", 9)])
def test_weight_layers_off_the_shortcuts(name: str, layers: int) -> None:
    """The number in the name; VGG11's CIFAR form has one dense layer where the original has three."""
    named = make_model(name + ":4", (3, 32, 32), 10).named_modules()
    assert sum(isinstance(m, nn.Conv2d | nn.Linear) for n, m in named if "shortcut" not in n) == layers


@pytest.mark.parametrize("name", ALL)
def test_weights_follow_from_the_seed_and_leave_the_global_state_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, again, other = (make_model(name, (1, 28, 28), 10, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    pairs = list(zip(first.parameters(), again.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("name", ALL)
def test_gradients_reach_the_input_and_every_parameter(name: str) -> None:
    model = make_model(name, (1, 28, 28), 10)
    x = torch.rand(8, 1, 28, 28, generator=torch.Generator().manual_seed(0), requires_grad=True)
    model(x).square().sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0
    # a bias before a batch norm has no effect, so its gradient may be zero; it must still exist and be finite
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", ALL)
def test_memory_format_does_not_change_the_answer(name: str) -> None:
    model = make_model(name, (3, 32, 32), 10).eval()
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        plain = model(x)
        last = model.to(memory_format=torch.channels_last)(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(plain, last, rtol=1e-4, atol=1e-5)


def test_residual_blocks_add_their_input() -> None:
    from leakmeter.models.resnet import BasicBlock

    block = BasicBlock(4, 4, stride=1)
    for parameter in block.residual.parameters():
        nn.init.zeros_(parameter)
    x = torch.randn(2, 4, 5, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(block(x), x.relu())


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown model 'lenett'; did you mean 'lenet'"):
        make_model("lenett", (1, 28, 28), 10)


@pytest.mark.parametrize(
    ("name", "shape", "least"),
    [
        ("lenet", (1, 3, 3), 4),
        ("milli-conv", (1, 8, 3), 4),
        ("small-conv", (1, 3, 9), 4),
        ("codfe-target", (1, 27, 28), 28),
        ("codfe-substitute", (1, 19, 19), 20),
        ("stn-mnist", (1, 8, 8), 9),
    ],
)
def test_too_small_an_image_gives_one_sentence(name: str, shape: tuple[int, ...], least: int) -> None:
    with pytest.raises(UsageError, match=f"at least {least}x{least} pixels, got {shape[1]}x{shape[2]}") as caught:
        make_model(name, shape, 10)
    assert "\n" not in str(caught.value)
    smallest = (shape[0], least, least)
    assert make_model(name, smallest, 10)(torch.rand(2, *smallest)).shape == (2, 10)


@pytest.mark.parametrize("shape", [(784,), (28, 28), (1, 0, 28)])
def test_convolutions_ask_for_images(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="expected a shape"):
        make_model("lenet", shape, 10)


@pytest.mark.parametrize("name", ["mlp:", "mlp:0", "mlp:-3", "mlp:wide", "mlp:1:2"])
def test_bad_width(name: str) -> None:
    with pytest.raises(UsageError, match="positive whole number"):
        make_model(name, (4,), 2)


def test_width_where_there_is_none() -> None:
    with pytest.raises(UsageError, match="'stn-mnist' has no width"):
        make_model("stn-mnist:64", (1, 28, 28), 10)


def test_a_wide_lenet_grows_in_all_layers() -> None:
    rows = [p.shape[0] for name, p in make_model("lenet:12", (1, 28, 28), 10).named_parameters() if "weight" in name]
    assert rows == [12, 32, 240, 168, 10]


def test_no_classes() -> None:
    with pytest.raises(UsageError, match="at least 1 class"):
        make_model("linear", (4,), 0)


def test_mlp_is_the_formula() -> None:
    model = make_model("mlp:5", (2, 3), 4)
    assert isinstance(model, nn.Sequential)
    A, W = model[1], model[3]
    x = torch.rand(6, 2, 3)
    expected = (x.reshape(6, math.prod((2, 3))) @ A.weight.T + A.bias).clamp(min=0) @ W.weight.T + W.bias
    torch.testing.assert_close(model(x), expected)
