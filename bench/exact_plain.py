"""What a plain thief gets of the victims of `bench/exact.py` that are not recovered, beside the constant copy.

    python bench/exact_plain.py [--seed 0]

The thief asks uniform points, as many as `exact` was given, and learns a dense student from values and gradients: by
squared errors, as anybody would, and by sharp probabilities, as `exact` does with what its search leaves. Writes
results/bench/exact_plain.json.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from _dense import VICTIMS, dense
from _keep import keep
from exact import _ACAS
from torch import Tensor, nn

import leakmeter as lm
from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.choice import constant
from leakmeter.extraction.exact.fresh import Answers, ask_at
from leakmeter.extraction.exact.student import taught
from leakmeter.seeds import private_randomness, stream
from leakmeter.training.loop import Batch, Recipe, fit

_QUERIES = 18_000


def squares(told: Answers, seed: int) -> nn.Module:
    """A dense student by squared errors of values and of gradients, both relative to their size."""
    assert told.gradients is not None
    size, spread = told.x.abs().max(), told.scores.std(0)
    x, scores, slopes = told.x / size, told.scores / spread, told.gradients * (size / spread)[:, None].float()
    slope = float(slopes.flatten(1).square().sum(1).mean())
    with private_randomness(seed):
        layers = [nn.Linear(x.shape[1], 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
        student = nn.Sequential(*layers, nn.Linear(128, scores.shape[1]))

    def loss(model: nn.Module, batch: Batch, draws: torch.Generator) -> Tensor:
        here, wanted, turned = batch
        guess, mixture = model(here.requires_grad_()), torch.randn(wanted.shape, generator=draws)
        (own,) = torch.autograd.grad((guess * mixture).sum(), here, create_graph=True)
        off = own - torch.einsum("nc,ncd->nd", mixture, turned)
        return F.mse_loss(guess, wanted) + 0.1 * off.square().sum(1).mean() / slope

    recipe = Recipe(steps=3000, batch=512, lr=3e-3, schedule="cyclic")
    fit(student, (x.float(), scores.float(), slopes), loss, recipe, seed=seed)

    class Back(nn.Module):
        def forward(self, points: Tensor) -> Tensor:
            """Scores in the victim's unit."""
            return student((points / size).float()) * spread

    return Back()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    low, high = (torch.tensor(side).double() for side in _ACAS)
    net = dense(VICTIMS / "acasxu-1-1.onnx", torch.float64)
    victim = lm.load_victim(net, input_shape=(5,), low=low, high=high, outputs="logits")
    drawn = torch.rand(100_000, 5, generator=stream(seed, "bench", "points"), dtype=torch.float64)
    points = victim.spec.sample(_QUERIES, stream(seed, "bench", "plain")).double()
    told = ask_at(Asker(lm.Oracle(victim, "logits+gradient", _QUERIES)), points)
    copies = {"constant": constant(told), "squares": squares(told, seed), "sharp": taught(told, None, seed)}
    row: dict[str, Any] = {"victim": "acasxu-1-1", "seed": seed, "queries": len(told)}
    row |= {name: lm.score(copy, victim, low + (high - low) * drawn).fidelity for name, copy in copies.items()}
    keep("exact_plain", {"command": f"python bench/exact_plain.py --seed {seed}", "rows": [row]})


if __name__ == "__main__":
    main()
