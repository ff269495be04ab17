"""Surveys lines and reads layers from them until fresh points hold no surprise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.boundary import find_boundary
from leakmeter.extraction.exact.output import regress
from leakmeter.extraction.exact.peel import Bank, Peeler, Precision, Reading
from leakmeter.extraction.exact.probes import reach, start_points
from leakmeter.extraction.exact.stack import Stack
from leakmeter.extraction.exact.survey import Survey, gradient_survey


@dataclass
class Found:
    stack: Stack
    weight: Tensor
    bias: Tensor
    reading: Reading

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, self.stack.features(x), self.weight.T)

    def pieces(self, x: Tensor) -> tuple[Tensor, Tensor]:
        eye = torch.eye(x.shape[1], dtype=x.dtype)
        z, g = self.stack.slopes(x, eye)
        return self(x), self.weight @ (self.stack.layers[-1].on(z)[:, :, None] * g)


class Deep:
    def __init__(self, asker: Asker, generator: torch.Generator, say=lambda *a: None) -> None:
        self.asker, self.generator, self.say = asker, generator, say
        self.surveys: list[Survey] = []
        self.rounds = 0
        double = asker.eps < 1e-12
        self.precision = Precision(asker.eps**0.4, 3 if double else 6)
        self.peeler = Peeler(self.across, lambda: list(self.surveys), self.precision, say)

    def line(self, through: Tensor | None = None) -> None:
        origin = start_points(self.asker.spec, 1, self.generator)[0] if through is None else through
        along = torch.randn(self.asker.d, dtype=torch.float64, generator=self.generator)
        T = reach(self.asker.spec, exact=True)
        s, r = gradient_survey(self.asker, origin, along, (-T, T))
        self.surveys.append(s)

    def across(self, origin, along, ends) -> Survey | None:
        s, r = gradient_survey(self.asker, origin, along, ends, short=True)
        self.surveys.append(s)
        return s

    def read(self) -> tuple[Found, Tensor, Tensor]:
        reading = self.peeler.read(Bank(list(self.surveys)))
        cells = self.surveys[0].cells
        for s in self.surveys[1:]:
            cells = cells.join(s.cells)
        x = torch.cat([s.at(s.cells.t) for s in self.surveys])
        stack, w, b = regress(reading.stack, x, cells)
        found = Found(stack, w, b, reading)
        off = (found(x) - cells.f).norm(dim=1) / self.allowed(x, cells.f)
        self.say("worst cell", float(off.max()), "explained", float((off <= 1).double().mean()), [len(l.bias) for l in stack.layers], self.asker.oracle.ledger.spent())
        return found, x, off

    def allowed(self, x: Tensor, f: Tensor) -> Tensor:
        return self.asker.eps**0.5 * (f.norm(dim=1) + self.asker.steepest * x.square().mean(1).sqrt())

    def mend(self, found: Found, good: Tensor, bad: Tensor) -> bool:
        place = find_boundary(self.asker, found.pieces, good, bad, self.allowed)
        self.say("boundary", place is not None, self.asker.oracle.ledger.spent())
        if place is not None:
            self.across(*place, (-1.0, 1.0))
        return place is not None

    def run(self, lines: int, patience: int, max_lines: int) -> Found:
        for _ in range(lines):
            self.line()
        while True:
            found, x, off = self.read()
            n = sum(not s.short for s in self.surveys)
            if float(off.max()) <= 1:
                p = start_points(self.asker.spec, patience, self.generator) * 3
                a = self.asker.ask(p)
                miss = (found(self.asker.rounded(p)) - a.values).norm(dim=1) / self.allowed(p, a.values)
                self.say("fresh points off", int((miss > 1).sum()), float(miss.max()))
                if float(miss.max()) <= 1:
                    return found
                x, off = torch.cat([x, p]), torch.cat([off, miss])
            near = x.norm(dim=1)
            if float((off <= 1).double().mean()) > 0.5:
                good = x[torch.where(off <= 1, near, torch.inf).argmin()]
                bad = x[torch.where(off > 1, near, torch.inf).argmin()]
                if self.mend(found, good, bad):
                    continue
            if n >= max_lines:
                return found
            open_ = found.reading.open.nonzero()[:, 0]
            if len(open_) and n % 2:
                self.line(Bank(self.surveys).x[open_[int(torch.randint(len(open_), (1,), generator=self.generator))]])
            else:
                self.line()
