"""STN's ImageNet appendix (figure 5): what certifying one picture of that size costs here, and all of them would.

There is no ImageNet here. `--victim FILE.onnx` is any network for 224x224 pictures; it is asked noise, since the cost
does not depend on what the picture shows.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from leakmeter.certificates import certify
from leakmeter.errors import UsageError
from leakmeter.seeds import stream
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Question, Victim

SIGMA, VOTES, IMAGES = 0.25, 200, 500
"""The cost is measured at 200 votes, and grows with their number; 500 pictures are what later work certifies."""


class Asked(torch.nn.Module):
    """A victim that is no module, asked for its outputs."""

    def __init__(self, victim: Victim) -> None:
        super().__init__()
        self._victim = victim

    def forward(self, x: Tensor) -> Tensor:
        """The victim's outputs, in as many rows at once as it takes."""
        parts = torch.split(x, self._victim.batch)
        return torch.cat([self._victim.respond(part, Question(stream(0, "imagenet"))) for part in parts])


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-imagenet.json` into `out`."""
    if settings.victim is None:
        raise UsageError("the study 'stn-imagenet' needs --victim FILE.onnx, a network for 224x224 pictures")
    votes, images = (50, 1) if settings.quick else (VOTES, 2)
    record = settings.record("stn-imagenet", sigma=SIGMA, n=votes)
    victim = load_victim(settings.victim, low=0.0, high=1.0)
    cell = record.cell(f"{images} images", lambda: _certified(victim, images, votes, settings.seed))
    a_picture = cell["cpu_seconds"] / images
    hours = a_picture * IMAGES / 3600
    return record.write(
        network=f"{victim.spec.name}, {'x'.join(map(str, victim.spec.input_shape))}",
        seconds_an_image=a_picture,
        total=f"{hours:.1f} core hours for {IMAGES} pictures, {hours * 100_000 / votes:,.0f} at 100,000 votes",
    )


def _certified(victim: Victim, images: int, votes: int, seed: int) -> dict[str, Any]:
    x = torch.rand(images, *victim.spec.input_shape, generator=stream(seed, "pictures"))
    start = time.process_time()
    found = certify(Asked(victim), x, sigma=SIGMA, n=votes, alpha=0.001, seed=seed)
    return {"cpu_seconds": time.process_time() - start, "abstained": int((found.labels < 0).sum())}


def rows(found: dict[str, Any]) -> list[Row]:
    """What one picture costs."""
    budget = f"{found['network']}, {found['n']} votes; {found['total']}"
    return [Row("seconds an image", f"{found['seconds_an_image']:.1f}", budget)]
