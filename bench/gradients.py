"""Matching gradients by random projections against matching the whole Jacobian, one backward pass a class.

    python bench/gradients.py [--model lenet] [--queries 100] [--steps 600] [--seeds 3]

Both train the same student on the same answers for the same number of steps; the time of a step is then the time of a
unit of progress, as far as the final accuracies agree. Needs MNIST. Prints ratios, writes results/bench/gradients.json.
"""

from __future__ import annotations

import argparse
import time
from statistics import fmean

import torch
import torch.nn.functional as F  # noqa: N812
from _keep import keep
from torch import Tensor, nn

import leakmeter as lm
from leakmeter.data.catalogue import load
from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.gradients import Gradients
from leakmeter.extraction.matching import Explanations
from leakmeter.extraction.targets import kl_loss
from leakmeter.models import make_model
from leakmeter.oracle.answer import Answer
from leakmeter.seeds import stream
from leakmeter.training.loop import Batch, Recipe, fit


class Naive(Gradients):
    """The same loss with the full Jacobian: as many double backward passes as classes."""

    @staticmethod
    def _loss(
        shown: Explanations, softness: float, lam: float, model: nn.Module, batch: Batch, _: torch.Generator
    ) -> Tensor:
        x, answers, rows = batch
        logits = model(x.requires_grad_())
        columns = [torch.autograd.grad(column.sum(), x, create_graph=True)[0] for column in logits.unbind(1)]
        error = torch.stack(columns, 1) - shown.gradients[rows]
        error = error - error.mean(1, keepdim=True)
        gradients = error.flatten(1).square().sum(1).mean() / shown.power
        return gradients + lam * kl_loss(logits, answers, softness) / softness**2


def saved_bytes(attack: Gradients, classes: int) -> int:
    """What autograd keeps for the backward pass of one step over 16 rows of 784 features."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    student = make_model("lenet", (1, 28, 28), classes)
    victim = lm.load_victim(make_model("linear", (1, 28, 28), classes), input_shape=(1, 28, 28), low=0.0, high=1.0)
    x = torch.rand(16, 1, 28, 28)
    shown = Explanations(lm.Oracle(victim, "logits+gradient").query(x))
    batch = (x, torch.zeros(16, classes), torch.arange(16))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = attack._loss(shown, 1.0, 0.1, student, batch, stream(0, "a"))
    del loss
    return sum(kept.values())


def run(attack: Gradients, model: str, x: Tensor, answer: Answer, victim: lm.Oracle, test: object, seed: int) -> dict:
    student = make_model(model, (1, 28, 28), 10, seed=seed)
    start = time.process_time()
    attack.learn(student, x, answer, AttackJob(seed, torch.device("cpu")), victim.spec)
    seconds = time.process_time() - start
    score = lm.score(student, victim, test)
    return {"seconds": seconds, "accuracy": score.accuracy, "fidelity": score.fidelity}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    train, test = load("mnist", "train"), load("mnist", "test")
    pool, own = train.split(10_000, stream(0, "split"))
    network = make_model(given.model, (1, 28, 28), 10, seed=0)
    recipe = Recipe(steps=600, batch=100, lr=2e-3, schedule="cyclic")
    fit(network, own.labelled(), lambda model, batch, _: F.cross_entropy(model(batch[0]), batch[1]), recipe, seed=0)
    victim = lm.load_victim(network, input_shape=(1, 28, 28), low=0.0, high=1.0)
    options = {"joint": True, "recipe": Gradients().recipe.model_copy(update={"steps": given.steps})}
    attacks = {"naive": Naive(**options), "projections": Gradients(**options)}
    runs: dict[str, list[dict]] = {name: [] for name in attacks}
    for seed in range(given.seeds):
        x = pool.take(given.queries, stream(seed, "queries")).x
        answer = lm.Oracle(victim, "logits+gradient", given.queries).query(x)
        for name, attack in attacks.items():
            runs[name].append(run(attack, given.model, x, answer, victim, test, seed))
    mean = {name: {key: fmean(r[key] for r in rows) for key in rows[0]} for name, rows in runs.items()}
    faster = mean["naive"]["seconds"] / mean["projections"]["seconds"]
    points = 100 * (mean["projections"]["accuracy"] - mean["naive"]["accuracy"])
    memory = {name: {c: saved_bytes(attack, c) for c in (10, 100)} for name, attack in attacks.items()}
    for name, row in mean.items():
        kept = " -> ".join(f"{memory[name][c] / 2**20:.1f} MiB at {c} classes" for c in (10, 100))
        print(f"{name:12s} {row['seconds']:8.1f} s   accuracy {row['accuracy']:.4f}   kept for backward {kept}")
    print(f"projections: {faster:.1f} x faster for the same steps, accuracy {points:+.2f} points")
    record = {
        "command": f"python bench/gradients.py --model {given.model} --queries {given.queries} "
        f"--steps {given.steps} --seeds {given.seeds}",
        "threads": torch.get_num_threads(),
        "runs": runs,
        "times_faster": faster,
        "accuracy_points": points,
        "bytes_kept_for_backward": memory,
        "targets": {"times_faster": 3, "accuracy_points": 0.5},
    }
    keep("gradients", record)


if __name__ == "__main__":
    main()
