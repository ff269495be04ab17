"""Votes under noise: one queue of examples keeps every batch full, and memory does not grow with the samples.

Each example draws from its own generator in chunks of a fixed size, so its votes are the same whatever the batch size
and whichever examples share its batches (but for ties at the last digit of a forward pass). Examples share batches only
within a block of them, so that whole blocks can be sampled anywhere, and then not even a tie can differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from leakmeter.certificates.counts_file import CountsFile, Tally
from leakmeter.certificates.sequential import StoppingRule
from leakmeter.compute import evaluating, prefer_channels_last
from leakmeter.errors import UsageError, VictimError
from leakmeter.progress import SILENT, Progress
from leakmeter.seeds import stream

CHUNK = 50
Classifier = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Sampling:
    """How many votes each example gets: `n0` to choose a class, then up to `n` others, fewer where `stop` says so."""

    sigma: float
    n: int
    n0: int = 0
    stop: StoppingRule | None = None
    seed: int = 0
    batch: int = 250

    @property
    def block(self) -> int:
        """How many examples share batches: few, to be shared out, but enough to fill batches when some stop early."""
        return 10 if self.stop is None else 50

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            raise UsageError(f"expected sigma above 0, got {self.sigma}")
        if self.n < 1 or self.n0 < 0:
            raise UsageError(f"expected n >= 1 and n0 >= 0, got n={self.n} and n0={self.n0}")
        if self.batch < CHUNK:
            raise UsageError(f"expected a batch of at least {CHUNK}, got {self.batch}")


def collect(
    model: Classifier,
    x: Tensor,
    sampling: Sampling,
    *,
    first: int = 0,
    file: CountsFile | None = None,
    progress: Progress = SILENT,
    title: str = "certifying",
) -> Tally:
    """The votes of every row of `x`, which begins with example `first`; what `file` holds is not drawn again."""
    if len(x) == 0:
        raise UsageError("expected at least one input, got none")
    with evaluating(model), progress.task(title, len(x)) as task:
        noisy = _NoisyBatch(model, x.detach(), sampling, first)
        tally = (file.load() if file else None) or Tally.empty(len(x), noisy.classes)
        task.advance(int(tally.done.sum()))
        for start in range(0, len(x), sampling.block):
            waiting = [i for i in range(start, min(start + sampling.block, len(x))) if not tally.done[i]]
            queue = _Queue(noisy, waiting, sampling)
            while chunks := queue.fill():
                for (example, _), votes in zip(chunks, noisy.votes(chunks), strict=True):
                    example.add(votes)
                for example in queue.finished():
                    tally.put(example.index, example.selection, example.counts)
                    task.advance()
                if file:
                    file.save_if_due(tally)
    if file:
        file.save(tally)
    return tally


@dataclass(eq=False)
class _Example:
    """One input on its way: its generator, and the votes so far."""

    index: int
    input: Tensor
    sampling: Sampling
    generator: torch.Generator
    classes: int
    drawn: int = 0
    pending: int = 0
    """Chunks drawn whose votes are not known yet."""
    done: bool = False
    selection: Tensor = field(init=False)
    counts: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.selection, self.counts = torch.zeros(2, self.classes, dtype=torch.int64)

    @property
    def left(self) -> int:
        """How many samples may still be drawn."""
        return self.sampling.n0 + self.sampling.n - self.drawn

    def take(self) -> int:
        """How many samples to draw next: votes for choosing and votes for counting never share a chunk."""
        rows = min(CHUNK, self.sampling.n0 - self.drawn if self.drawn < self.sampling.n0 else self.left)
        self.drawn, self.pending = self.drawn + rows, self.pending + 1
        return rows

    def add(self, votes: Tensor) -> None:
        """Counts a chunk's votes, unless an earlier chunk of the same batch settled the question."""
        self.pending -= 1
        if self.done:
            return
        if int(self.selection.sum()) < self.sampling.n0:
            self.selection += votes
            return
        self.counts += votes
        seen, stop = int(self.counts.sum()), self.sampling.stop
        settled = stop is not None and stop.decided(int(self.counts[self.selection.argmax()]), seen)
        self.done = settled or seen == self.sampling.n


class _Queue:
    """Who draws next, so that every batch is full."""

    def __init__(self, noisy: _NoisyBatch, waiting: list[int], sampling: Sampling) -> None:
        self.noisy, self.waiting, self.sampling = noisy, iter(waiting), sampling
        self.flying: list[_Example] = []

    def fill(self) -> list[tuple[_Example, int]]:
        """The chunks of the next batch, as many as fit; none when all is drawn."""
        room, chunks = self.sampling.batch, list[tuple[_Example, int]]()
        while room >= CHUNK and (example := self._next()) is not None:
            chunks.append((example, example.take()))
            room -= chunks[-1][1]
        return chunks

    def finished(self) -> list[_Example]:
        """The examples that need no more votes; they leave the queue."""
        done = [example for example in self.flying if example.done]
        self.flying = [example for example in self.flying if not example.done]
        return done

    def _next(self) -> _Example | None:
        """One after the other where all get n votes, else all in turn, since each chunk may be the last needed."""
        able = [example for example in self.flying if example.left]
        ready = [example for example in able if not (self.sampling.stop and example.pending)]
        if ready:
            return ready[0]
        if (index := next(self.waiting, None)) is not None:
            self.flying.append(self.noisy.start(index))
            return self.flying[-1]
        return min(able, key=lambda example: example.pending, default=None)


class _NoisyBatch:
    """One buffer that every batch is drawn into."""

    def __init__(self, model: Classifier, x: Tensor, sampling: Sampling, first: int) -> None:
        parameter = next(model.parameters(), None) if isinstance(model, nn.Module) else None
        self.model, self.sampling, self.first = model, sampling, first
        self.device = x.device if parameter is None else parameter.device
        dtype = torch.get_default_dtype() if parameter is None else parameter.dtype
        # Where it can be, images and weights lie in memory with their channels last: half as fast again on a CPU.
        first_row = x[:1].to(self.device, dtype)
        last = x.dim() == 4 and isinstance(model, nn.Module) and prefer_channels_last(model, first_row)
        self.x = x.movedim(1, -1) if last else x
        self.buffer = torch.empty(sampling.batch, *self.x.shape[1:], device=self.device, dtype=dtype)
        self.view = self.buffer.movedim(-1, 1) if last else self.buffer
        with torch.inference_mode():
            self.classes = self._forward(first_row).shape[1]

    def start(self, index: int) -> _Example:
        row = self.x[index].to(self.buffer)
        generator = stream(self.sampling.seed, "noise", self.first + index, device=self.device)
        return _Example(index, row, self.sampling, generator, self.classes)

    @torch.inference_mode()
    def votes(self, chunks: list[tuple[_Example, int]]) -> Tensor:
        """One row of votes for each chunk."""
        at = 0
        for example, rows in chunks:
            noise = self.buffer[at : at + rows].normal_(0, self.sampling.sigma, generator=example.generator)
            noise.add_(example.input)
            at += rows
        labels = self._forward(self.view[:at]).argmax(1)
        sizes = torch.tensor([rows for _, rows in chunks], device=self.device)
        offsets = torch.arange(len(chunks), device=self.device).mul_(self.classes).repeat_interleave(sizes)
        votes = torch.bincount(labels.add_(offsets), minlength=len(chunks) * self.classes)
        return votes.view(len(chunks), self.classes).cpu()

    def _forward(self, batch: Tensor) -> Tensor:
        logits = self.model(batch)
        if logits.dim() != 2 or len(logits) != len(batch):
            raise VictimError(
                f"expected one row of scores an input, got shape {tuple(logits.shape)} for {len(batch)} inputs; "
                "pass a model that returns [inputs, classes]"
            )
        if bool(logits.isnan().any()):
            raise VictimError("the model answers with NaN; check its weights and the range of the inputs")
        return logits
