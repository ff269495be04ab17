"""Networks as students, sized by the input: two dense layers, LeNet, four convolutions, a residual network.

How many steps one takes follows from the seconds it is given and from its multiplications, so the clock has no say in
the result.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leakmeter.extraction.students import Lesson, Student
from leakmeter.extraction.students.augment import BothWays, augmented
from leakmeter.extraction.students.reading import loss, targets, unit
from leakmeter.extraction.students.scaled import scaled
from leakmeter.models import make_model
from leakmeter.seeds import derive, private_randomness
from leakmeter.training.loop import Batch, Recipe, fit
from leakmeter.victims.spec import VictimSpec

_STEP, _OUTPUT = 2e-3, 1e-8  # seconds of one core: for a step at least, for one output of a layer there and back
_RATE, _HALF_RATE = 7e10, 3e11  # multiplications a second, in 32 and in 16 bits
_HALF_PAYS = 1_000_000  # multiplications an input from which 16-bit arithmetic is faster
_FEWEST, _MOST = 60, 20_000
_BATCHES, _BATCHES_LARGE, _LARGE = (128, 64, 32), (64, 32), 1024  # above so many inputs a step costs much
_STEPS = 10_000  # of small pictures' scores, below which more and smaller steps teach more than fewer and larger ones
_FEWER_STEPS = 1500  # the same of labels, and of larger pictures
_LR = 3e-3


@dataclass(frozen=True)
class Network(Student):
    """A network of `leakmeter.models`, its name made from the victim's spec; None: not for such inputs."""

    model: Callable[[VictimSpec], str | None]
    spatial: bool = True
    differentiable = True
    trained = True

    def suits(self, spec: VictimSpec) -> bool:
        """Whether there is a network of this kind for such inputs."""
        return self.model(spec) is not None

    def build(self, spec: VictimSpec, x: Tensor, seed: int) -> nn.Module:
        """The untrained network, from raw inputs to outputs."""
        name = self.model(spec)
        assert name is not None
        first = scaled(spec, x)
        if name == "dense":
            with private_randomness(derive(seed, "dense")):
                return nn.Sequential(first, *_dense(spec.features, spec.classes))
        return nn.Sequential(first, make_model(name, spec.input_shape, spec.classes, seed=seed))

    def fit(self, lesson: Lesson) -> nn.Module:
        """One cycle of Adam, as many steps as fit into the lesson's seconds."""
        model = self.build(lesson.spec, lesson.x, lesson.seed).to(lesson.job.device)
        labels = lesson.reading == "labels"
        batch, half, step = reckoned(model, lesson.x, lesson.job.device, lesson.seconds, labels=labels)

        wanted = targets(lesson.answer, lesson.reading)
        one = unit(wanted, lesson.reading)

        def learn(model: nn.Module, columns: Batch, draws: torch.Generator) -> Tensor:
            x, *target = columns
            with torch.autocast("cpu", torch.bfloat16) if half else nullcontext():
                predicted = model(augmented(x, lesson.augmentation, draws))
            return loss(predicted.float(), tuple(target), lesson.reading)

        learned = fit(
            model,
            (lesson.x, *(column / one if one < 1 else column for column in wanted)),
            learn,
            Recipe(steps=min(max(int(lesson.seconds / step), _FEWEST), _MOST), batch=batch, lr=_LR, schedule="cyclic"),
            seed=lesson.seed,
            epoch=fairer(lesson.answer.labels) if len(lesson.spec.input_shape) == 3 else None,
            progress=lesson.job.progress,
            title=lesson.name,
            checkpoint=lesson.job.checkpoint(lesson.name),
        )
        copy = BothWays(learned).eval() if lesson.augmentation == "mirrored" else learned
        return nn.Sequential(copy, Times(one)).eval() if one < 1 else copy


def reckoned(
    model: nn.Module, x: Tensor, device: torch.device, seconds: float, *, labels: bool = False
) -> tuple[int, bool, float]:
    """The rows of a batch, whether 16 bits pay, and the seconds that a step takes on the machine that is the measure.

    Of pictures the largest batch of which there is time for enough steps; `labels` alone are soon learned by heart, and
    in smaller batches sooner.
    """
    products, outputs = work(model, x[:1].to(device))
    half = products >= _HALF_PAYS and device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()
    row = outputs * _OUTPUT + 3 * products / (_HALF_RATE if half else _RATE)
    small = x[0].numel() <= _LARGE
    sizes, steps = _BATCHES if small else _BATCHES_LARGE, _STEPS if small and not labels else _FEWER_STEPS
    allowed = sizes[: None if x.dim() == 4 else 1]
    batch = next((rows for rows in allowed if seconds >= steps * (_STEP + rows * row)), allowed[-1])
    batch = min(batch, max(16, len(x) // 4))
    return batch, half, _STEP + batch * row


class Times(nn.Module):
    """Outputs in the unit of the answers again."""

    factor: Tensor

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.register_buffer("factor", torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        """The outputs, multiplied."""
        return x * self.factor


def fairer(labels: Tensor) -> Tensor:
    """Rows of an epoch in which rare classes come up more often: whole times, by the square root of how rare they are.

    What code draws looks like a few of a victim's classes and hardly ever like others; what a copy is meant for does
    not.
    """
    counts = labels.bincount()
    times = (counts.max() / counts.clamp_min(1)).sqrt().round().long()
    return torch.arange(len(labels)).repeat_interleave(times[labels])


def work(model: nn.Module, x: Tensor) -> tuple[int, int]:
    """Multiplications of the dense and convolutional layers for the inputs `x`, and how many outputs these have."""
    products: list[int] = []
    outputs: list[int] = []

    def count(layer: nn.Module, _: object, output: Tensor) -> None:
        weight: Tensor = layer.weight  # type: ignore[assignment]
        products.append(output.numel() // output.shape[1] * weight.numel())
        outputs.append(output.numel())

    layers = [part for part in model.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    with torch.no_grad():
        model.eval()(x)
    for hook in hooks:
        hook.remove()
    return sum(products), sum(outputs)


def _dense(features: int, classes: int) -> list[nn.Module]:
    return [
        nn.Flatten(),
        nn.Linear(features, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, classes),
    ]


def _side(spec: VictimSpec) -> int:
    """The shorter side of a picture; 0 for anything else."""
    return min(spec.input_shape[1:]) if len(spec.input_shape) == 3 else 0


DENSE = Network(lambda spec: "dense" if spec.features <= 1024 else None, spatial=False)
LENET = Network(lambda spec: "lenet:12" if 8 <= _side(spec) < 32 and spec.input_shape[0] == 1 else None)
CONVOLUTIONAL = Network(
    lambda spec: None if _side(spec) < 8 else "small-conv:16" if spec.input_shape[0] == 1 else "small-conv:32"
)
RESIDUAL = Network(lambda spec: "resnet9:16" if _side(spec) >= 24 and spec.input_shape[0] > 1 else None)
