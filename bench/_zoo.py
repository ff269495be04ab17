"""Victims for `bench/thieves.py`: estimators on tables that users have, strangers' networks where they are at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F  # noqa: N812
from sklearn import datasets
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from torch import Tensor, nn

from leakmeter.data.catalogue import load
from leakmeter.demo import digits_victim
from leakmeter.models.inputs import Normalize
from leakmeter.studies.victims import trained
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim


@dataclass(frozen=True)
class Case:
    """A victim with the inputs on which copies of it are judged, and what a thief pays."""

    victim: Victim
    test: Tensor
    budget: int
    pool: str | None = None
    classes: Tensor | None = None
    """What the test inputs really are."""

    @property
    def colour(self) -> bool:
        """Whether its inputs are colour pictures."""
        return len(self.test.shape) == 4 and self.test.shape[1] == 3

    @property
    def grey(self) -> bool:
        """Whether its inputs are pictures without colours."""
        return len(self.test.shape) == 4 and not self.colour


def estimator(model, data, budget: int) -> Case:
    """A scikit-learn style model behind the box of its training rows."""
    bunch = data(return_X_y=True)
    x, other, y, _ = train_test_split(bunch[0].astype("float32"), bunch[1], test_size=0.4, random_state=0)
    model.fit(x, y)
    low, high = x.min(0), x.max(0)
    high = np.where(high > low, high, low + 1)
    ask = lambda rows: np.asarray(model.predict_proba(rows), dtype="float32")  # noqa: E731
    classes = len(np.unique(y))
    box = {"low": torch.from_numpy(low), "high": torch.from_numpy(high)}
    victim = load_victim(ask, input_shape=(x.shape[1],), classes=classes, outputs="probs", **box)
    return Case(victim, torch.from_numpy(other).clamp(box["low"], box["high"]), budget)


def boosted(kind: str):
    """XGBoost or LightGBM, one thread."""
    if kind == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1)
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=60, n_jobs=1, verbose=-1)


def picture(network: nn.Module, data: str, budget: int, folder: Path | None, pool: str | None = None) -> Case:
    """A network on pictures in [0, 1]."""
    test, classes = (column[:2000] for column in load(data, "test", folder).labelled())
    options = {"input_shape": tuple(test.shape[1:]), "low": 0.0, "high": 1.0, "classes": 10, "outputs": "logits"}
    return Case(load_victim(network.eval(), **options), test, budget, pool, classes)


def own(data: str, budget: int, folder: Path | None, model: str = "lenet") -> Case:
    """A LeNet, or another network, trained here by a seed that no study uses."""
    return picture(trained(data, model, seed=7, data_dir=folder), data, budget, folder)


def onnx(path: Path, data: str, budget: int, folder: Path | None, mean=(0.0,), std=(1.0,)) -> Case:
    """A stranger's ONNX file, exported for batches of one: asked row by row."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0]
    shift, scale = (np.array(numbers, dtype="float32")[:, None, None] for numbers in (mean, std))

    def ask(rows: np.ndarray) -> np.ndarray:
        rows = ((rows - shift) / scale).astype("float32")
        return np.concatenate([session.run(None, {entry.name: row.reshape(entry.shape)})[0] for row in rows[:, None]])

    test = load(data, "test", folder).x[:1000]
    options = {"input_shape": tuple(test.shape[1:]), "low": 0.0, "high": 1.0, "classes": 10, "outputs": "logits"}
    return Case(load_victim(ask, **options), test, budget)


class _Block(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.stride, self.pad = stride, (out - channels) // 2

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.stride > 1 or self.pad:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(x + y)


class ResNet20(nn.Module):
    """He et al. (2016) for CIFAR-10, shortcuts without weights, as in Yerlan Idelbayev's release."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*(_Block(16, 16, 1) for _ in range(3)))
        self.layer2 = nn.Sequential(_Block(16, 32, 2), _Block(32, 32, 1), _Block(32, 32, 1))
        self.layer3 = nn.Sequential(_Block(32, 64, 2), _Block(64, 64, 1), _Block(64, 64, 1))
        self.linear = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        return self.linear(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))


def resnet20(path: Path) -> nn.Module:
    """The stranger's network, from [0, 1] to logits."""
    network = ResNet20()
    network.load_state_dict(safetensors.torch.load_file(path))
    return nn.Sequential(Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), network)


def zoo(data: Path | None, strangers: Path | None) -> dict[str, Callable[[], Case]]:
    """All victims by name; those that cannot be loaded here raise when they are made."""
    where = strangers or Path("no such folder")
    mean = (0.485, 0.456, 0.406)
    cases: dict[str, Callable[[], Case]] = {
        "digits logistic regression": lambda: estimator(LogisticRegression(max_iter=5000), datasets.load_digits, 500),
        "digits LeNet": lambda: picture(digits_victim(), "digits", 2000, None),
        "digits SVM": lambda: estimator(SVC(probability=True, random_state=0), datasets.load_digits, 2000),
        "digits MLP": lambda: estimator(MLPClassifier((64,), max_iter=400, random_state=0), datasets.load_digits, 2000),
        "digits nearest neighbours": lambda: estimator(KNeighborsClassifier(), datasets.load_digits, 2000),
        "digits forest": lambda: estimator(RandomForestClassifier(random_state=0), datasets.load_digits, 2000),
        "cancer forest": lambda: estimator(RandomForestClassifier(random_state=0), datasets.load_breast_cancer, 2000),
        "cancer XGBoost": lambda: estimator(boosted("xgboost"), datasets.load_breast_cancer, 2000),
        "wine boosting": lambda: estimator(GradientBoostingClassifier(random_state=0), datasets.load_wine, 2000),
        "wine LightGBM": lambda: estimator(boosted("lightgbm"), datasets.load_wine, 2000),
        "iris logistic regression": lambda: estimator(LogisticRegression(max_iter=5000), datasets.load_iris, 200),
        "MNIST MLP 256x2 (onnx)": lambda: onnx(where / "mnist-mlp-256x2.onnx", "mnist", 2000, data),
        "MNIST conv-maxpool (onnx)": lambda: onnx(where / "mnist-conv-maxpool.onnx", "mnist", 2000, data),
        "CIFAR-10 robust conv (onnx)": lambda: onnx(
            where / "cifar10-conv-kw-base.onnx", "cifar10", 2000, data, mean, (0.225,) * 3
        ),
        "MNIST LeNet": lambda: own("mnist", 2000, data),
        "MNIST LeNet, few queries": lambda: own("mnist", 500, data),
        "MNIST LeNet, many queries": lambda: own("mnist", 5000, data),
        "MNIST MLP": lambda: own("mnist", 2000, data, "mlp"),
        "Fashion-MNIST MLP": lambda: own("fashion-mnist", 2000, data, "mlp"),
        "Fashion-MNIST LeNet": lambda: own("fashion-mnist", 5000, data),
        "Fashion-MNIST LeNet, many queries": lambda: own("fashion-mnist", 20_000, data),
        "CIFAR-10 ResNet-20": lambda: picture(resnet20(where / "cifar10-resnet20.safetensors"), "cifar10", 5000, data),
        "CIFAR-10 ResNet-20, many queries": lambda: picture(
            resnet20(where / "cifar10-resnet20.safetensors"), "cifar10", 50_000, data
        ),
        "CIFAR-10 small-conv, 50,000": lambda: own("cifar10", 50_000, data, "small-conv"),
        "CIFAR-10 small-conv, 100,000": lambda: own("cifar10", 100_000, data, "small-conv"),
        "CIFAR-10 ResNet-20, CIFAR-100 pool": lambda: picture(
            resnet20(where / "cifar10-resnet20.safetensors"), "cifar10", 5000, data, "cifar100"
        ),
    }
    return cases
