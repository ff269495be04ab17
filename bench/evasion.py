"""Strength and speed of the evasion attacks beside foolbox, ART and APGD, on the same networks and images.

    LEAKMETER_DATA=... python bench/evasion.py [--images 256] [--seed 0]

Trains LeNet on MNIST (on the embedded digits where LEAKMETER_DATA is not set), plainly and adversarially, then measures
in this one process, on one thread: robust accuracy under 40-step PGD, success and median l2 of C&W and of Boundary at
5,000 steps, and CPU seconds of each. ART and APGD are measured where `adversarial-robustness-toolbox` and
`pyautoattack` are installed. Writes results/bench/evasion.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from _keep import keep
from torch import Tensor, nn

from leakmeter.data.catalogue import load
from leakmeter.evasion.base import evade
from leakmeter.models import make_model
from leakmeter.training.loop import Recipe
from leakmeter.training.train import train

warnings.filterwarnings("ignore")
import foolbox  # noqa: E402

Data = tuple[Tensor, Tensor]
PGD_STEPS, CW_STEPS, BOUNDARY_STEPS = 40, 200, 5000
ROBUSTNESS = [("plain", "linf", 0.1), ("plain", "l2", 1.5), ("madry", "linf", 0.2), ("madry", "l2", 2.0)]


def networks(dataset: str, seed: int) -> dict[str, nn.Module]:
    x, y = load(dataset, "train").labelled()
    data, shape = (x[:20_000], y[:20_000]), tuple(x.shape[1:])
    made = {}
    for name, options in (("plain", {}), ("madry", {"norm": "linf", "eps": 0.2, "steps": 5})):
        recipe = Recipe(epochs=4 if len(x) > 5000 else 40, batch=128)
        made[name] = train(name, make_model("lenet", shape, 10, seed=seed), data, recipe=recipe, seed=seed, **options)
    return made


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def accuracy(model: nn.Module, examples: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return (model(examples).argmax(1) == y).double().mean().item()


def by_foolbox(model: nn.Module, attack: Any, data: Data, eps: float | None, seed: int) -> Tensor:
    torch.manual_seed(seed)
    peer = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
    _, examples, _ = attack(peer, *data, epsilons=eps)
    return examples


def foolbox_pgd(norm: str) -> Any:
    kind = foolbox.attacks.LinfPGD if norm == "linf" else foolbox.attacks.L2PGD
    return kind(steps=PGD_STEPS, rel_stepsize=2.5 / PGD_STEPS)


def by_art(model: nn.Module, norm: str, data: Data, eps: float, seed: int) -> Tensor:
    import numpy as np
    from art.attacks.evasion import ProjectedGradientDescentPyTorch
    from art.estimators.classification import PyTorchClassifier

    np.random.seed(seed)  # noqa: NPY002
    shape = tuple(data[0].shape[1:])
    peer = PyTorchClassifier(model, nn.CrossEntropyLoss(), shape, 10, clip_values=(0.0, 1.0), device_type="cpu")
    attack = ProjectedGradientDescentPyTorch(
        peer,
        norm=np.inf if norm == "linf" else 2,
        eps=eps,
        eps_step=2.5 * eps / PGD_STEPS,
        max_iter=PGD_STEPS,
        num_random_init=1,
        batch_size=256,
        verbose=False,
    )
    examples = torch.from_numpy(attack.generate(data[0].numpy(), data[1].numpy()))
    model.eval()
    return examples


def by_apgd(model: nn.Module, norm: str, data: Data, eps: float, seed: int, loss: str) -> Tensor:
    from pyautoattack.autopgd_base import APGDAttack

    kind = {"linf": "Linf", "l2": "L2"}[norm]
    attack = APGDAttack(model, n_iter=PGD_STEPS, norm=kind, eps=eps, seed=seed, device="cpu", loss=loss, n_restarts=1)
    return attack.perturb(*data)


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def robustness(model: nn.Module, norm: str, eps: float, data: Data, seed: int) -> dict[str, float]:
    """Robust accuracy under each attack, with the CPU seconds of ours and of foolbox's."""
    x, y = data
    ours, seconds = timed(lambda: evade("pgd", model, x, y, norm=norm, eps=eps, steps=PGD_STEPS, seed=seed))
    full, full_seconds = timed(
        lambda: evade("pgd", model, x, y, norm=norm, eps=eps, steps=PGD_STEPS, seed=seed, early_stop=False)
    )
    theirs, their_seconds = timed(lambda: by_foolbox(model, foolbox_pgd(norm), data, eps, seed))
    row = {
        "clean": accuracy(model, x, y),
        "ours": 1 - ours.rate,
        "ours without early stop": 1 - full.rate,
        "foolbox": accuracy(model, theirs, y),
        "seconds": seconds,
        "seconds without early stop": full_seconds,
        "foolbox seconds": their_seconds,
    }
    if installed("art"):
        row["art"] = accuracy(model, by_art(model, norm, data, eps, seed), y)
    if installed("pyautoattack"):
        for loss in ("ce", "dlr"):
            row[f"apgd {loss}"] = accuracy(model, by_apgd(model, norm, data, eps, seed, loss), y)
    peers = [row[name] for name in ("foolbox", "art") if name in row]
    row["points above the best of foolbox and ART"] = 100 * (row["ours"] - min(peers))
    if "apgd ce" in row:
        row["points above the best APGD"] = 100 * (row["ours"] - min(row["apgd ce"], row["apgd dlr"]))
    row["times foolbox's speed"] = their_seconds / seconds
    row["times foolbox's speed without early stop"] = their_seconds / full_seconds
    return row


def median_distance(distance: Tensor, success: Tensor) -> float:
    """A failure is infinitely far away."""
    return distance.masked_fill(~success, torch.inf).median().item()


def minimal(name: str, model: nn.Module, attack: Any, data: Data, seed: int, **options: int) -> dict[str, float]:
    """Success, median l2 and CPU seconds of an attack that looks for the nearest example."""
    x, y = data
    ours, seconds = timed(lambda: evade(name, model, x, y, seed=seed, **options))
    theirs, their_seconds = timed(lambda: by_foolbox(model, attack, data, None, seed))
    with torch.no_grad():
        broken = model(theirs).argmax(1) != y
    median = median_distance(ours.distance, ours.success)
    their_median = median_distance((theirs.double() - x.double()).flatten(1).norm(dim=1), broken)
    return {
        "success": ours.rate,
        "foolbox success": broken.double().mean().item(),
        "median l2": median,
        "foolbox median l2": their_median,
        "seconds": seconds,
        "foolbox seconds": their_seconds,
        "median l2 over foolbox's": median / their_median,
        "times foolbox's speed": their_seconds / seconds,
    }


def boundary(model: nn.Module, data: Data, seed: int) -> dict[str, float]:
    """Foolbox gives up unless every input has a starting point, so it is given ours."""
    starts = evade("boundary", model, *data, seed=seed, steps=0).examples
    attack = foolbox.attacks.BoundaryAttack(steps=BOUNDARY_STEPS)

    def from_starts(peer: Any, x: Tensor, y: Tensor, epsilons: None) -> Any:
        return attack(peer, x, y, epsilons=epsilons, starting_points=starts)

    return minimal("boundary", model, from_starts, data, seed, steps=BOUNDARY_STEPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dataset = "mnist" if os.environ.get("LEAKMETER_DATA") else "digits"
    models = networks(dataset, arguments.seed)
    x, y = load(dataset, "test").labelled()
    data = x[-arguments.images :], y[-arguments.images :]
    result: dict[str, Any] = {
        "command": f"python bench/evasion.py --images {arguments.images} --seed {arguments.seed}",
        "dataset": dataset,
        "images": len(data[0]),
        "steps": {"pgd": PGD_STEPS, "cw": f"9 rounds of {CW_STEPS}", "boundary": BOUNDARY_STEPS},
    }
    for name, norm, eps in ROBUSTNESS:
        title = f"pgd, {name}, {norm} {eps}"
        result[title] = robustness(models[name], norm, eps, data, arguments.seed)
        print(title, json.dumps(result[title], indent=1), flush=True)
    carlini = foolbox.attacks.L2CarliniWagnerAttack(steps=CW_STEPS)
    right = models["plain"](data[0]).argmax(1) == data[1]
    correct = data[0][right], data[1][right]
    result["cw"] = minimal("cw", models["plain"], carlini, correct, arguments.seed, steps=CW_STEPS)
    print("cw", json.dumps(result["cw"], indent=1), flush=True)
    result["boundary"] = boundary(models["plain"], correct, arguments.seed)
    print("boundary", json.dumps(result["boundary"], indent=1), flush=True)
    keep("evasion", result)


if __name__ == "__main__":
    main()
