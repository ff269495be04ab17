"""Reads layers from surveyed lines, one after the other from the input up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.bank import Bank, beside, claims, first_layer
from leakmeter.extraction.exact.rows import agree, evidence, merge, signs
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.survey import Survey
from leakmeter.extraction.exact.weights import Explore, Precision, Weights

_UNSEEN = 0.05
"""Crossings without a bend that a unit may have, against those with one."""
_FAILURES, _FEW, _MANY_LINES = 48, 12, 9
"""Bends tried in vain as units that no other bend shows; fewer while lines are few: one more shows more."""


@dataclass
class Reading:
    """What the lines show."""

    stack: Stack
    open: Tensor
    """Bends that no unit explains, [m]."""


class Peeler:
    """Finds layers in the bends of lines; asks for single weights where no line shows them."""

    def __init__(self, explore: Explore, surveys: Callable[[], list[Survey]], precision: Precision) -> None:
        self.explore, self.surveys, self.precision = explore, surveys, precision
        self.tried: set[tuple[float, ...]] = set()

    def read(self, again: int = 2) -> Reading:
        """Peels layer after layer until no bend is left or none can be explained; from the start if that helps."""
        bank, self.added = Bank(self.surveys()), set[tuple[float, ...]]()
        reading = Reading(Stack([]), bank.clear.clone())
        layer = first_layer(bank, self.precision.tolerance)
        if layer is None:
            return reading
        layer = layer.join(Layer.passing(beside(layer, bank, self.precision.tolerance)))
        basis = torch.linalg.svd(layer.weight, full_matrices=False)[2].T
        self.weights = Weights(self.explore, self.precision, basis)
        while layer is not None and self._accept(reading, bank, layer):
            if bool(reading.open.any()):
                self._orient(reading, bank)
            layer = self._grouped(reading, bank) if bool(reading.open.any()) else None
        return self.read(again - 1) if self._leftovers(reading, bank, deeper=again > 0) else reading

    def _accept(self, reading: Reading, bank: Bank, layer: Layer) -> bool:
        """Puts the units that the lines confirm on top, their weights completed; False if there are none."""
        stack = reading.stack
        stack.layers.append(layer)
        keep, matched = self._confirmed(stack, bank)
        if not bool(layer.known[keep].all()):
            stack.layers[-1], refuted = self.weights.complete(stack, bank, keep, matched)
            keep, matched = self._confirmed(stack, bank)
            keep &= ~refuted
        if not bool((keep & ~layer.linear).any()):
            stack.layers.pop()
            return False
        stack.layers[-1] = stack.layers[-1][keep]
        reading.open &= ~matched[:, keep].any(1)
        return True

    def _confirmed(self, stack: Stack, bank: Bank) -> tuple[Tensor, Tensor]:
        """Which units of the last layer the lines confirm, [h], and which bends are theirs, [m, h]."""
        matched, missing = claims(stack, bank, self.weights.basis, self.precision.tolerance)
        top = stack.layers[-1]
        several = (bank.lines_of(matched) >= 2) & (missing <= _UNSEEN * matched.sum(0))
        single = matched.any(0) & (missing == 0) & top.known.all(1) & (int(bank.long.sum()) >= 3)
        return several | single | top.linear, matched

    def _orient(self, reading: Reading, bank: Bank) -> None:
        """Turns the last layer's units the way they face; tries bends that cannot be above it as units of it."""
        stack = reading.stack
        while bool(reading.open.any()):
            rows = reading.open.nonzero()[:, 0]
            args = bank.x[rows], bank.normals[rows], bank.error[rows]
            found = signs(stack, *args, self.weights.basis, self.precision.tolerance)
            order = found.off.argsort(descending=True)
            suspects = rows[order][~found.fits[order]]
            if len(stack.layers) == 1 or not self._accept_single(reading, bank, suspects):
                stack.layers[-1] = stack.layers[-1].turned(found.votes < 0)
                return

    def _grouped(self, reading: Reading, bank: Bank) -> Layer | None:
        """The units above the last layer, as far as bends that agree show them."""
        rows = reading.open.nonzero()[:, 0]
        args = bank.x[rows], bank.normals[rows], bank.error[rows]
        found = evidence(reading.stack, *args, self.weights.basis, self.precision.tolerance)
        pairs = agree(found, self.precision.tolerance, self.precision.least)
        merged = [merge(found, group) for group in components(pairs)]
        merged = [(row, known) for row, known in merged if bool(known[-1])]
        if not merged:
            return None
        row, known = (torch.stack(column) for column in zip(*merged, strict=True))
        return Layer.of(row[:, :-1], row[:, -1], known[:, :-1])

    def _leftovers(self, reading: Reading, bank: Bank, *, deeper: bool) -> bool:
        """Tries bends that nothing explains as units of the last layer or, `deeper`, of others: True if of another."""
        layers = reading.stack.layers
        while bool(reading.open.any()):
            for height in range(len(layers), 1 if deeper else max(1, len(layers) - 1), -1):
                part = Reading(Stack(layers[:height]), reading.open)
                if self._accept_single(part, bank, reading.open.nonzero()[:, 0]):
                    if height < len(layers):
                        return True
                    layers[-1] = part.stack.layers[-1]
                    break
            else:
                return False
        return False

    def _accept_single(self, reading: Reading, bank: Bank, suspects: Tensor) -> bool:
        """Adds one unit to the last layer that only one bend shows, if all lines agree with it once it is complete."""
        failures, patience = 0, _FAILURES if int(bank.long.sum()) >= _MANY_LINES else _FEW
        for i in suspects.tolist():
            key = (float(len(reading.stack.layers)), *bank.x[i].tolist())
            if key in self.tried or key in self.added:
                continue
            outcome = self._try(reading, bank, i)
            if outcome:
                self.added.add(key)
                return True
            if outcome is False:
                self.tried.add(key)
                failures += 1
            if failures >= patience:
                break
        return False

    def _try(self, reading: Reading, bank: Bank, i: int) -> bool | None:
        """Whether bend i is of a unit of the last layer, which is then added; None if it could not be tried."""
        stack, below = reading.stack, Stack(reading.stack.layers[:-1])
        args = bank.x[i : i + 1], bank.normals[i : i + 1], bank.error[i : i + 1]
        found = evidence(below, *args, self.weights.basis, self.precision.tolerance)
        if not bool(found.fits[0]) or not bool(found.known[0, -1]):
            return None
        row = Layer.of(found.row[:, :-1].clone(), found.row[:, -1].clone(), found.known[:, :-1].clone())
        single = Stack([*below.layers, row])
        outcome = self.weights.ask(single, 0, bank.x[i])
        if not outcome:
            return outcome
        keep, matched = self._confirmed(single, bank)
        if not bool(keep[0]):
            return False
        stack.layers[-1] = stack.layers[-1].join(single.layers[-1])
        reading.open &= ~matched[:, 0]
        return True


def components(pairs: Tensor) -> list[Tensor]:
    """Connected components of two or more, each as indices."""
    label = torch.arange(len(pairs))
    while True:
        lowest = torch.where(pairs, label, len(pairs)).amin(1).minimum(label)
        if torch.equal(lowest, label):
            break
        label = lowest
    groups = [(label == g).nonzero()[:, 0] for g in sorted(set(label.tolist()))]
    return [group for group in groups if len(group) >= 2]
