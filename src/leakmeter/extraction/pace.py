"""How fast this machine learns, beside the one by which attacks reckon their seconds.

How many steps a student takes must not depend on the clock, so seconds are reckoned from multiplications. What an audit
says it will take must: a few real steps tell how far the two are apart.
"""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from functools import lru_cache
from statistics import median

import torch

from leakmeter.box import Box
from leakmeter.compute import prefer_channels_last
from leakmeter.extraction.pictured import pictured
from leakmeter.extraction.students import STUDENTS, usual_students
from leakmeter.extraction.students.networks import Network, reckoned
from leakmeter.extraction.students.reduced import reduced_spec
from leakmeter.victims.spec import VictimSpec

_ENOUGH = 0.4  # seconds of steps
_FEWEST, _ROWS = 3, 512
_TOGETHER = 2.0  # times as long as alone, with what cells do beside learning
_NOTCHES = 4  # in a doubling: what differs by less is told as the same


def pace(spec: VictimSpec, device: str = "cpu", processes: int = 1) -> float:
    """How many times as long as reckoned the likeliest network for such inputs learns here; measured once a process.

    Args:
        spec: of the victim.
        device: where students learn.
        processes: how many learn at once; those of one processor wait for each other's memory.
    """
    laid = reduced_spec(pictured(spec))
    students = [(name, STUDENTS[name]) for name in usual_students(laid)]
    name = next((name for name, student in students if isinstance(student, Network)), None)
    if name is None:
        return 1.0
    alone = _measured(name, laid.input_shape, laid.classes, device, torch.get_num_threads())
    return alone * (_TOGETHER if processes > 1 and device == "cpu" else 1.0)


@lru_cache(maxsize=64)
def _measured(student: str, shape: tuple[int, ...], classes: int, device: str, threads: int) -> float:
    spec = VictimSpec("pace", shape, Box(torch.tensor(0.0), torch.tensor(1.0)), classes, "logits")
    draws, where = torch.Generator().manual_seed(0), torch.device(device)
    network, x = STUDENTS[student], torch.rand(_ROWS, *shape, generator=draws)
    assert isinstance(network, Network)
    model = network.build(spec, x, 0).to(where)
    batch, half, expected = reckoned(model, x, where, _ENOUGH)
    x = x[:batch].to(where)
    if x.dim() == 4:
        prefer_channels_last(model, x[:1])
    optimizer = torch.optim.Adam(model.train().parameters())
    clock = time.process_time if where.type == "cpu" else time.perf_counter
    took: list[float] = []
    while len(took) <= _FEWEST or sum(took) < _ENOUGH:
        start = clock()
        optimizer.zero_grad()
        with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16) if half else nullcontext():
            model(x).float().square().mean().backward()
        optimizer.step()
        float(next(model.parameters()).detach().flatten()[0])  # a GPU has done it all by then
        took.append(clock() - start)
    ratio = median(took[1:]) / (expected * (1 if where.type != "cpu" else max(1, threads)))
    return float(2 ** (round(_NOTCHES * math.log2(max(ratio, 1e-3))) / _NOTCHES))
