"""What an explanation costs the server: time of an explained row against a plain answer, LeNet, 784 inputs, batch 256.

    python bench/explanations.py [--repeats 3]

Weights are random: they do not change what is computed. Prints ratios, writes results/bench/explanations.json.
"""

from __future__ import annotations

import argparse
import time

import torch
from _keep import keep

import leakmeter as lm
from leakmeter.models import make_model

BATCH = 256
METHODS = (
    "gradient",
    "smoothgrad:10,0.1",
    "gradxinput",
    "integrated:20",
    "gradcam",
    "occlusion",
    "shap:5",
    "lime:200",
    "reasons:4",
    "counterfactual",
)


def seconds(victim: object, view: str, x: torch.Tensor, repeats: int) -> float:
    """The least processor time of one batch: what others do on the machine only adds to it."""
    times = []
    for _ in range(repeats):
        oracle = lm.Oracle(victim, view)
        start = time.process_time()
        oracle.query(x)
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    victim = lm.load_victim(make_model("lenet", (1, 28, 28), 10), input_shape=(1, 28, 28), low=0.0, high=1.0)
    x = torch.rand(BATCH, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    plain = seconds(victim, "probs", x, given.repeats + 2)
    rows = {}
    for method in METHODS:
        oracle = lm.Oracle(victim, f"probs+{method}")
        work = oracle.view.explanation.work(victim)
        took = seconds(victim, f"probs+{method}", x, given.repeats if work < 50 else 1)
        rows[method] = {"times_plain": took / plain, "work": work}
        print(f"{method:20} {took / plain:8.1f} x a plain answer, {work} gradients or calls")
    command = f"python bench/explanations.py --repeats {given.repeats}"
    keep("explanations", {"command": command, "batch": BATCH, "threads": 1, "classes": 10, "rows": rows})


if __name__ == "__main__":
    main()
