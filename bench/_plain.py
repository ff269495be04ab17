"""Plain attacks for `bench/thieves.py`: what anybody writes first, on queries that another attack paid for."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from _zoo import Case
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from torch import Tensor, nn

from leakmeter.evaluation.score import Reference
from leakmeter.extraction.base import AttackJob, extract
from leakmeter.extraction.students import STUDENTS, Lesson
from leakmeter.extraction.targets import answered_probs
from leakmeter.models import make_model
from leakmeter.oracle.oracle import Oracle

STEPS, BATCH, TEMPERATURE, SHIFT = 3000, 128, 4.0, 4  # of `distilled`


def logistic(case: Case, x: Tensor, truth: Reference) -> float:
    """Logistic regression on the labels."""
    answer, job = Oracle(case.victim, "labels").query(x), AttackJob(0, torch.device("cpu"))
    lesson = Lesson(x.float(), answer, "labels", "none", case.victim.spec, job, 0, "plain", 1.0)
    return truth.score(STUDENTS["linear"].fit(lesson)).fidelity


def trees(case: Case, view: str, x: Tensor, truth: Reference) -> float:
    """Scikit-learn's boosted trees as they come: of labels a classifier, of each log-probability a regressor."""
    answer = Oracle(case.victim, view).query(x)
    rows, test = x.flatten(1).numpy(), truth.x.flatten(1).numpy()
    if view == "labels":
        named = HistGradientBoostingClassifier(random_state=0).fit(rows, answer.labels.numpy()).predict(test)
    else:
        logs = answered_probs(answer).clamp_min(1e-3).log().double().numpy()
        fitted = [HistGradientBoostingRegressor(random_state=0).fit(rows, column) for column in logs.T]
        named = np.stack([model.predict(test) for model in fitted], 1).argmax(1)
    return float((torch.as_tensor(named) == truth.answer.labels).double().mean())


def network(case: Case, view: str, x: Tensor, truth: Reference, seed: int, student: str | None = None) -> float:
    """One network of 1,500 steps: the named one, else LeNet for pictures and two layers for tables."""
    oracle = Oracle(case.victim, view, len(x))
    recipe = {"steps": 1500, "batch": 128, "lr": 2e-3, "schedule": "cyclic"}
    copy = extract("surrogate", oracle, seed=seed, test=truth, pool=x.float(), recipe=recipe, student=student)
    score = copy.curve[-1].score
    assert score is not None
    return score.fidelity


def distilled(case: Case, view: str, x: Tensor, truth: Reference, seed: int) -> float:
    """Colour pictures: four convolutions, KL at temperature 4 (of labels at 1), flips and shifts, one cycle of Adam."""
    probs = answered_probs(Oracle(case.victim, view, len(x)).query(x))
    warm = 1.0 if view == "labels" else TEMPERATURE
    target = (probs.clamp_min(1e-30).log() / warm).softmax(1)
    model, draws = make_model("small-conv", case.victim.spec.input_shape, 10, seed=seed), torch.Generator()
    draws.manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)
    x = x.float() * 2 - 1
    model.to(memory_format=torch.channels_last).train()
    for _ in range(STEPS):
        rows = torch.randint(len(x), (BATCH,), generator=draws)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu._is_avx512_bf16_supported()):
            learned = model(_moved(x[rows], draws).contiguous(memory_format=torch.channels_last))
        F.kl_div((learned.float() / warm).log_softmax(1), target[rows], reduction="batchmean").mul(warm**2).backward()
        optimizer.step()
        schedule.step()
    return truth.score(nn.Sequential(_Centred(), model).eval()).fidelity


def _moved(x: Tensor, draws: torch.Generator) -> Tensor:
    """One shift for the whole batch, half of it mirrored."""
    down, across = torch.randint(2 * SHIFT + 1, (2,), generator=draws).tolist()
    height, width = x.shape[2:]
    x = F.pad(x, (SHIFT,) * 4)[:, :, down : down + height, across : across + width]
    return torch.where(torch.rand(len(x), 1, 1, 1, generator=draws) < 0.5, x.flip(3), x)


class _Centred(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 - 1
