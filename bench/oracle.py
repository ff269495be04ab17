"""What honest counting costs: ledger and log against the bare module, answers logged a second, memory of the log.

    python bench/oracle.py [--blocks 60]

The two arms take turns in short blocks, so that whatever else the machine does falls on both. Questions are hashed
beside the victim's work: wall time shows it only where no core is free, CPU time always. Writes
results/bench/oracle.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from _keep import keep
from torch import Tensor

from leakmeter.models import make_model
from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.log import AnswerLog
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim

BATCH, FEATURES, CLASSES = 256, 4, 10


def overhead(folder: Path, blocks: int, rows: int) -> dict[str, float]:
    """LeNet in batches of 256, asked `rows` at a time: the bare module, the door alone, and the door with its books.

    The door checks queries and answers and counts in memory; the books are the ledger and the log on disk.
    """
    module = make_model("lenet", (1, 28, 28), CLASSES, seed=0).eval()
    victim = load_victim(module, input_shape=(1, 28, 28), low=0.0, high=1.0)
    questions = [torch.rand(rows, 1, 28, 28, generator=torch.Generator().manual_seed(i)) for i in range(4)]

    @torch.inference_mode()
    def bare(x: Tensor) -> Tensor:
        return torch.cat([module(piece).softmax(1) for piece in torch.split(x, BATCH)])

    arms: list[Callable[[Tensor], object]] = [bare, Oracle(victim, "probs").query, logged(victim, folder).query]
    wall: list[list[float]] = [[], [], []]
    cpu: list[list[float]] = [[], [], []]
    for block in range(blocks + 2):
        for turn in range(3):
            arm, question = (block + turn) % 3, questions[block % 4]
            start, work = time.perf_counter(), time.process_time()
            arms[arm](question)
            if block >= 2:  # the first blocks warm up
                wall[arm].append(time.perf_counter() - start)
                cpu[arm].append(time.process_time() - work)
    return {
        "bare_ms": statistics.median(wall[0]) * 1e3,
        "door": median_ratio(wall[1], wall[0]) - 1,
        "door_and_books": median_ratio(wall[2], wall[0]) - 1,
        "books": median_ratio(wall[2], wall[0]) - median_ratio(wall[1], wall[0]),
        "door_and_books_cpu": median_ratio(cpu[2], cpu[0]) - 1,
    }


def median_ratio(arm: list[float], bare: list[float]) -> float:
    """One arm against the bare module, each block against its neighbour."""
    return statistics.median(a / b for a, b in zip(arm, bare, strict=True))


def logged_answers(folder: Path, answers: int) -> dict[str, float]:
    """A victim that does nothing: answers logged a second, and what stays in memory."""
    probs = np.full((4096, CLASSES), 1 / CLASSES, dtype=np.float32)
    victim = load_victim(lambda x: probs[: len(x)].copy(), input_shape=(FEATURES,), low=0.0, high=1.0)
    oracle = logged(victim, folder)
    x = torch.rand(BATCH, FEATURES)
    oracle.query(x)
    before, start = resident(), time.perf_counter()
    for _ in range(answers // BATCH + 1):
        oracle.query(x)
    seconds, grown = time.perf_counter() - start, resident() - before
    before, start = resident(), time.perf_counter()
    logged(victim, folder).query(x)
    return {
        "answers": answers,
        "answers_per_second": answers / seconds,
        "resident_mb": grown / 1e6,
        "resident_mb_resumed": (resident() - before) / 1e6,
        "resume_seconds": time.perf_counter() - start,
        "log_mb": (folder / "answers" / "answers.bin").stat().st_size / 1e6,
    }


def logged(victim: object, folder: Path) -> Oracle:
    folder.mkdir(parents=True, exist_ok=True)
    return Oracle(victim, "probs", ledger=Ledger(folder / "ledger.sqlite"), log=AnswerLog(folder / "answers"))  # type: ignore[arg-type]


def resident() -> int:
    """Bytes of this process in main memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=180)
    blocks = parser.parse_args().blocks
    with tempfile.TemporaryDirectory() as folder:
        record = {
            "command": f"python bench/oracle.py --blocks {blocks}",
            "threads": torch.get_num_threads(),
            "cores": os.cpu_count(),
            "load_average_before": os.getloadavg()[0],
            # First: memory that LeNet gave back would hide what the log takes.
            "trivial_batch_256": logged_answers(Path(folder) / "trivial", 1_000_000),
            "asked_256_at_a_time": overhead(Path(folder) / "few", blocks, BATCH),
            "asked_2560_at_a_time": overhead(Path(folder) / "many", max(3, blocks // 6), 10 * BATCH),
            "targets": {"door_and_books": 0.03, "answers_per_second": 100_000, "resident_mb": 200},
        }
    keep("oracle", record)


if __name__ == "__main__":
    main()
