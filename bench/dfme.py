"""One DFME iteration against a plain port: one forward per direction, channels first, modes toggled at every call.

    python bench/dfme.py [--shape 1,28,28] [--batch 256] [--directions 1] [--iterations 5]

Both sides do the same work on the same networks: one generator step, five student steps, victim and student as given.
Prints seconds an iteration and their ratio, writes results/bench/dfme.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from leakmeter.extraction.base import Job
from leakmeter.extraction.dfme import Dfme, _Duel
from leakmeter.models import make_generator, make_model
from leakmeter.models.generators.dfme import DfmeGenerator
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim


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
        self.student_optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
        self.generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-4)

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
        """One generator step and five student steps."""
        attack = self.attack
        self.generator.train()
        image = self.generator(torch.randn(attack.batch, self.generator.latent))
        gradient = torch.zeros_like(image)
        for _ in range(attack.directions):
            u = F.normalize(torch.randn_like(image).flatten(1), dim=1).view_as(image)
            slope = (self.loss(image.detach() + attack.epsilon * u) - self.loss(image.detach())) / attack.epsilon
            gradient += slope.view(-1, 1, 1, 1) * u * image[0].numel() / attack.directions
        self.generator_optimizer.zero_grad()
        image.backward(-gradient / attack.batch)
        self.generator_optimizer.step()
        for _ in range(attack.student_steps):
            x = self.generator.to_box(self.generator(torch.randn(attack.batch, self.generator.latent))).detach()
            self.student.train()
            self.student_optimizer.zero_grad()
            (self.student(x) - self.answers(x)).abs().mean().backward()
            self.student_optimizer.step()


def seconds(step: object, iterations: int) -> float:
    step()  # type: ignore[operator]
    start = time.perf_counter()
    for _ in range(iterations):
        step()  # type: ignore[operator]
    return (time.perf_counter() - start) / iterations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="1,28,28")
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--directions", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=5)
    options = parser.parse_args()
    shape = tuple(int(side) for side in options.shape.split(","))
    attack = Dfme(batch=options.batch, directions=options.directions, student=options.model)
    networks = [make_model(options.model, shape, 10, seed=seed) for seed in range(3)]
    plain = PlainPort(attack, networks[0], networks[1], PlainGenerator(shape, width=options.width))
    oracle = Oracle(load_victim(networks[0], input_shape=shape, low=0.0, high=1.0, classes=10, outputs="logits"))
    job = Job(0, torch.device("cpu"), stops=(10**9,))
    ours = _Duel(attack, networks[2].train(), make_generator("dfme", shape, width=options.width), oracle, job)
    rates = {"plain_port": seconds(plain.iteration, options.iterations)}
    rates["leakmeter"] = seconds(lambda: ours._turn(0.0), options.iterations)
    ratio = rates["plain_port"] / rates["leakmeter"]
    print(f"plain port {rates['plain_port']:.3f} s, leakmeter {rates['leakmeter']:.3f} s an iteration: {ratio:.2f} x")
    command = " ".join(f"--{name} {value}" for name, value in vars(options).items())
    record = {"command": f"python bench/dfme.py {command}", "seconds": rates, "ratio": ratio, "target": 2.0}
    record["threads"] = torch.get_num_threads()
    place = Path("results/bench/dfme.json")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
