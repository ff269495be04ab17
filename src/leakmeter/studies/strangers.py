"""Networks that others trained, from files in the folder LEAKMETER_VICTIMS."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import safetensors.torch
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from leakmeter.errors import UsageError, missing_extra
from leakmeter.models.inputs import Normalize

RESNET20, WSMK18 = "cifar10-resnet20.safetensors", "cifar10-conv-kw-base.onnx"


class _Block(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.stride, self.more = stride, (out - channels) // 2

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.more, self.more))
        return F.relu(y + shortcut)


class ResNet20(nn.Module):
    """He et al. 2016, section 4.2: three stages of three blocks; shortcuts without weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*(_Block(16, 16, 1) for _ in range(3)))
        self.layer2 = nn.Sequential(_Block(16, 32, 2), _Block(32, 32, 1), _Block(32, 32, 1))
        self.layer3 = nn.Sequential(_Block(32, 64, 2), _Block(64, 64, 1), _Block(64, 64, 1))
        self.linear = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of normalised images."""
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.linear(x.mean((2, 3)))  # type: ignore[no-any-return]


def resnet20() -> nn.Module:
    """ResNet-20 for CIFAR-10 images in [0, 1]."""
    whole = fresh_resnet20()
    whole[1].load_state_dict(safetensors.torch.load(_file(RESNET20).read_bytes()))
    return whole


def fresh_resnet20() -> nn.Sequential:
    """The same network, untrained: a student of the victim's own class."""
    return _for_cifar10(ResNet20(), (0.229, 0.224, 0.225))


@torch.no_grad()
def settle(network: nn.Module, batches: Iterable[Tensor]) -> nn.Module:
    """Its batch norms' statistics taken anew from these inputs: those it will see, whatever it was trained on."""
    norms = [part for part in network.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
    network.train()
    for batch in batches:
        network(batch)
    return network.eval()


def wsmk18() -> nn.Sequential:
    """For CIFAR-10 images in [0, 1], trained for provable robustness by the method of WSMK18."""
    try:
        import onnx
    except ImportError as error:
        raise missing_extra("onnx", "onnx") from error
    network = nn.Sequential(
        *(nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 4, 2, 1), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(1024, 100), nn.ReLU(), nn.Linear(100, 10)),
    )
    parts = onnx.load(_file(WSMK18)).graph.initializer
    network.load_state_dict({part.name: torch.from_numpy(onnx.numpy_helper.to_array(part).copy()) for part in parts})
    return _for_cifar10(network, (0.225, 0.225, 0.225))


def _for_cifar10(network: nn.Module, std: tuple[float, float, float]) -> nn.Sequential:
    """Behind its normalisation, and saying what `load_victim` wants to know."""
    whole = nn.Sequential(Normalize((0.485, 0.456, 0.406), std), network).eval()
    whole.__dict__.update(input_shape=(3, 32, 32), low=0.0, high=1.0)
    return whole


def _file(name: str) -> Path:
    path = Path(os.environ.get("LEAKMETER_VICTIMS", ".")) / name
    if not path.exists():
        raise UsageError(f"there is no {path}; set LEAKMETER_VICTIMS to the folder that holds {name}")
    return path
