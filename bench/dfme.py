"""One DFME iteration against a plain port: one forward per direction, channels first, modes toggled at every call.

    python bench/dfme.py [--seconds 12] [--model lenet] [--shape 1,28,28]

Both sides do the same work: networks of the same architecture, batch, directions, queries and updates an iteration.
Three settings: the published one, the one the studies use on LeNet, and that one without its replays. The two sides
take turns, so that a machine that slows down slows both. Prints the median seconds of an iteration and their ratio,
writes results/bench/dfme.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.nn.functional as F  # noqa: N812
from _keep import keep
from torch import nn

from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.dfme import Dfme, _Duel
from leakmeter.extraction.memory import Memory
from leakmeter.models import make_generator, make_model
from leakmeter.models.generators.dfme import DfmeGenerator
from leakmeter.oracle.oracle import Oracle
from leakmeter.studies.ours.procedural import LENET_DFME
from leakmeter.victims.load import load_victim

SETTINGS = {"published": {}, "lenet": LENET_DFME, "lenet without replays": LENET_DFME | {"replays": 0}}


class PlainGenerator(DfmeGenerator):
    """The published network: enlarge, then convolve."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Noise to images before tanh."""
        x = self.middle(self.halved(F.interpolate(self.start(z), size=self.half_sides)))
        return self.end(self.whole(F.interpolate(x, size=self.sides)))


class PlainPort:
    """The published loop, written straight down."""

    def __init__(self, attack: Dfme, victim: nn.Module, student: nn.Module, generator: nn.Module) -> None:
        self.attack, self.victim, self.student, self.generator = attack, victim, student, generator
        adam = attack.student_optimizer == "adam"
        options = {} if adam else {"momentum": attack.momentum, "weight_decay": attack.weight_decay}
        kind = torch.optim.Adam if adam else torch.optim.SGD
        self.student_optimizer = kind(student.parameters(), lr=attack.student_lr, **options)
        self.generator_optimizer = torch.optim.Adam(generator.parameters(), lr=attack.generator_lr)
        self.memory, self.draws = Memory(attack.memory), torch.Generator().manual_seed(0)

    def answers(self, x: torch.Tensor) -> torch.Tensor:
        """Recovered logits."""
        self.victim.eval()
        with torch.no_grad():
            logs = self.victim(x).log_softmax(1)
        return logs - logs.mean(1, keepdim=True)

    def loss(self, image: torch.Tensor) -> torch.Tensor:
        """What student and victim differ by, a row."""
        x = self.generator.to_box(image)
        target = self.answers(x)
        self.student.eval()
        with torch.no_grad():
            value = (self.student(x) - target).abs().mean(1)
        self.student.train()
        return value

    def iteration(self) -> None:
        """The generator's step, then the student's."""
        attack = self.attack
        self.generator.train()
        image = self.generator(torch.randn(attack.batch, self.generator.latent))
        gradient, here = torch.zeros_like(image), self.loss(image.detach())
        for _ in range(attack.directions):
            u = F.normalize(torch.randn_like(image).flatten(1), dim=1).view_as(image)
            slope = (self.loss(image.detach() + attack.epsilon * u) - here) / attack.epsilon
            gradient += slope.view(-1, 1, 1, 1) * u * image[0].numel() / attack.directions
        self.generator_optimizer.zero_grad()
        image.backward(-gradient / attack.batch)
        self.generator_optimizer.step()
        for _ in range(attack.student_steps):
            x = self.generator.to_box(self.generator(torch.randn(attack.batch, self.generator.latent))).detach()
            target = self.answers(x)
            self.imitate(x, target)
            if attack.replays:
                self.memory.add(x, target)
        for _ in range(attack.replays):
            self.imitate(*self.memory.sample(attack.batch, self.draws))

    def imitate(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """One step of the student."""
        self.student.train()
        self.student_optimizer.zero_grad()
        (self.student(x) - target).abs().mean().backward()
        self.student_optimizer.step()


def seconds(step: Callable[[], None]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def measure(attack: Dfme, model: str, shape: tuple[int, ...], least: float) -> dict[str, float]:
    """Median seconds an iteration of both sides, after one that does not count."""
    victim, *students = (make_model(model, shape, 10, seed=seed) for seed in range(3))
    plain = PlainPort(attack, victim, students[0], PlainGenerator(shape, width=attack.width))
    oracle = Oracle(load_victim(victim, input_shape=shape, low=0.0, high=1.0, classes=10, outputs="logits"))
    job = AttackJob(0, torch.device("cpu"), stops=(10**9,))
    ours = _Duel(attack, students[1].train(), make_generator("dfme", shape, width=attack.width), oracle, job)
    pairs: list[tuple[float, float]] = []
    while len(pairs) < 4 or sum(map(sum, pairs)) < least:
        pairs.append((seconds(plain.iteration), seconds(lambda: ours._turn(0.0))))
    port, leakmeter = (median(side) for side in zip(*pairs[1:], strict=True))
    return {
        "rounds": len(pairs) - 1,
        "plain_port_seconds": port,
        "leakmeter_seconds": leakmeter,
        "ratio": port / leakmeter,
        "leakmeter_queries_per_second": attack.turn / leakmeter,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="1,28,28")
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--seconds", type=float, default=12.0, help="least time for a setting, at least three rounds")
    options = parser.parse_args()
    shape = tuple(int(side) for side in options.shape.split(","))
    results = {}
    for name, settings in SETTINGS.items():
        attack = Dfme(student=options.model, **settings)
        results[name] = {"batch": attack.batch, "width": attack.width, "replays": attack.replays}
        results[name] |= measure(attack, options.model, shape, options.seconds)
        port, ours, ratio = (results[name][key] for key in ("plain_port_seconds", "leakmeter_seconds", "ratio"))
        print(f"{name}: plain port {port:.3f} s, leakmeter {ours:.3f} s an iteration: {ratio:.2f} x", flush=True)
    command = " ".join(f"--{name} {value}" for name, value in vars(options).items())
    record = {"command": f"python bench/dfme.py {command}", "settings": results, "target_ratio": 2.0}
    record["threads"] = torch.get_num_threads()
    keep("dfme", record)


if __name__ == "__main__":
    main()
