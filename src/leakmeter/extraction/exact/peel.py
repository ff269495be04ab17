"""Reads layers from surveyed lines, one after the other from the input up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.bank import Bank, claims, first_layer
from leakmeter.extraction.exact.beside import beside
from leakmeter.extraction.exact.follow import Followed, facing, follow
from leakmeter.extraction.exact.rows import agree, evidence, merge, signs
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.survey import Survey
from leakmeter.extraction.exact.suspects import Suspects
from leakmeter.extraction.exact.weights import Explore, Precision, Weights

_UNSEEN = 0.05
"""Crossings without a bend that a unit may have, against those with one."""
_FAILURES, _FEW, _MANY_LINES = 48, 12, 9
"""Bends tried in vain as units that no other bend shows; fewer while lines are few: one more shows more."""

_SAME = 1e-4
"""Rows at a smaller angle are one unit's."""


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
        self.suspects = Suspects(explore, precision.tolerance)
        self.tried: set[tuple[float, ...]] = set()
        self.kept: list[Layer] = []
        """Layers with rows that were followed, which took many questions: they are not read again."""
        self.rows: dict[int, list[Followed]] = {}
        """Rows followed to see which way the units below them face, by the number of layers below."""

    def read(self, again: int = 2) -> Reading:
        """Peels layer after layer until no bend is left or none can be explained; from the start if that helps."""
        bank, self.added = Bank(self.surveys()), set[tuple[float, ...]]()
        reading = Reading(Stack([]), bank.clear.clone())
        layer = first_layer(bank, self.precision.tolerance)
        if layer is None:
            return reading
        if self.kept and not self._more(bank, layer):
            layer = self.kept[0]
        else:
            self._forget()
        self._see(layer)
        if not all(self._put(reading, bank, known) for known in self.kept):
            self._forget()
            return self.read(again)
        if not self.kept and self._accept(reading, bank, layer):
            layer = reading.stack.layers[0]
            layer = layer.join(Layer.passing(beside(layer, bank, self.precision.tolerance)))
            reading.stack.layers[0] = layer
            self._see(layer)
        while reading.stack.layers and bool(reading.open.any()) and self._on_top(reading, bank):
            pass
        again = again if self._leftovers(reading, bank, deeper=again > 0) else 0
        self.kept = reading.stack.layers if self.rows else []
        return self.read(again - 1) if again else reading

    def _see(self, layer: Layer) -> None:
        """Looks along the directions that a first layer sees."""
        basis = torch.linalg.svd(layer.weight, full_matrices=False)[2].T
        self.weights = Weights(self.explore, self.precision, basis)

    def _more(self, bank: Bank, layer: Layer) -> bool:
        """Whether lines confirm units of a first layer that the kept one lacks."""
        both, known = self.kept[0].join(layer), len(self.kept[0].bias)
        new = both[known:][~_doubles(both)[known:]]
        self._see(both)
        return len(new.bias) > 0 and bool(self._confirmed(Stack([new]), bank)[0].any())

    def _forget(self) -> None:
        """Drops what was followed above layers that turned out to be others."""
        if self.kept:
            self.tried.clear()
        self.kept, self.rows = [], {}

    def _put(self, reading: Reading, bank: Bank, layer: Layer) -> bool:
        """Puts a kept layer on top as it is; False where lines lack more of a unit's bends than they show.

        From the last one such units are taken away: nothing was built on them.
        """
        stack = reading.stack
        stack.layers.append(layer)
        matched, missing = claims(stack, bank, self.weights.basis, self.precision.tolerance)
        if not bool(layer.known.all()):
            stack.layers[-1] = self.weights.complete(stack, bank, ~layer.known.all(1), matched)[0]
        right = (missing <= matched.sum(0)) | layer.linear
        if layer is self.kept[-1] and bool((right & ~layer.linear).any()):
            stack.layers[-1], matched, right = stack.layers[-1][right], matched[:, right], right[right]
        reading.open &= ~matched.any(1)
        return bool(right.all())

    def _on_top(self, reading: Reading, bank: Bank) -> bool:
        """Orients the last layer and puts another on it; False if none can be read."""
        self._orient(reading, bank)
        for make in (self._grouped, self._followed):
            layer = make(reading, bank) if bool(reading.open.any()) else None
            if layer is not None and self._accept(reading, bank, layer):
                return True
        return False

    def _accept(self, reading: Reading, bank: Bank, layer: Layer) -> bool:
        """Puts the units that the lines confirm on top, their weights completed; False if there are none."""
        stack = reading.stack
        stack.layers.append(layer)
        keep, matched = self._confirmed(stack, bank)
        if not bool(layer.known[keep].all()):
            stack.layers[-1], refuted = self.weights.complete(stack, bank, keep, matched)
            keep, matched = self._confirmed(stack, bank)
            keep &= ~refuted
        if len(stack.layers) == 1:
            keep[keep.clone()] = ~self.suspects.refuted(stack.layers[-1][keep], bank, matched[:, keep])
        keep &= ~_doubles(stack.layers[-1])
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
            suspects = rows[order] if found.wide else rows[order][~found.fits[order]]
            if len(stack.layers) == 1 or not self._accept_single(reading, bank, suspects):
                turned = found.votes < 0
                if found.wide:
                    turned = self._faced(stack, bank, rows[found.fits], turned)
                stack.layers[-1] = stack.layers[-1].turned(turned)
                return

    def _faced(self, stack: Stack, bank: Bank, rows: Tensor, votes: Tensor) -> Tensor:
        """Which units of the last layer to turn, by following surfaces above it; by the votes if that does not tell."""
        level, failures, turned = len(stack.layers), 0, None
        found = [row for row in self.rows.get(level, []) if len(row.weight) == len(votes)]
        if bool(stack.layers[-1].linear.any()):
            return votes
        for i in rows[bank.x[rows].norm(dim=1).argsort()].tolist():
            key = (-float(level), *bank.x[i].tolist())
            turned = facing(stack, found) if found else None
            if turned is not None or failures >= _FAILURES:
                break
            if key not in self.tried:
                self.tried.add(key)
                row = follow(stack, bank.x[i], bank.normals[i], self.explore, self.precision.tolerance, oriented=False)
                found += [] if row is None else [row]
                failures += row is None
        if found:
            self.rows[level] = found
            turned = facing(stack, found)
        return votes if turned is None else turned

    def _followed(self, reading: Reading, bank: Bank) -> Layer | None:
        """The units above the last layer that were followed to see which way it faces; else one by following it now."""
        stack = reading.stack
        found = [row for row in self.rows.get(len(stack.layers), []) if len(row.weight) == len(stack.layers[-1].bias)]
        failures, rows = 0, reading.open.nonzero()[:, 0]
        args = bank.x[rows], bank.normals[rows], bank.error[rows]
        said = evidence(stack, *args, self.weights.basis, self.precision.tolerance)
        for i in rows[said.fits & ~said.known[:, -1]].tolist():  # the others tell their rows themselves
            if found or failures >= _FAILURES:
                break
            row = self._follow(stack, bank, i)
            found += [] if row is None else [row]
            failures += row is None
        if not found:
            return None
        return _layer(stack, _apart(found))

    def _follow(self, stack: Stack, bank: Bank, i: int) -> Followed | None:
        """The row of bend i above the stack, if it can be followed; asked once."""
        key = (0.5 + len(stack.layers), *bank.x[i].tolist())
        if key in self.tried or not bool(bank.clear[i]):
            return None
        self.tried.add(key)
        row = follow(stack, bank.x[i], bank.normals[i], self.explore, self.precision.tolerance, oriented=True)
        if row is not None:
            self.rows.setdefault(len(stack.layers), [])  # what took so many questions is kept
        return row

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
                        more = len(part.stack.layers[-1].bias) - len(layers[height - 1].bias)
                        layers[height - 1], layers[height] = part.stack.layers[-1], layers[height].widened(more)
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
        row = Layer.of(found.row[:, :-1].clone(), found.row[:, -1].clone(), found.known[:, :-1].clone())
        single = Stack([*below.layers, row])
        told = bool(found.fits[0]) and bool(found.known[0, -1])
        outcome = self.weights.ask(single, 0, bank.x[i]) if told else None
        wide = bool(found.fits[0]) and not bool(found.known[0, -1])
        followed = self._follow(below, bank, i) if wide else None
        if followed is not None:
            single, outcome = Stack([*below.layers, _layer(below, [followed])]), True
        if not outcome:
            return outcome
        keep, matched = self._confirmed(single, bank)
        if not bool(keep[0]):
            return False
        more = stack.layers[-1].join(single.layers[-1])
        stack.layers[-1] = more[~_doubles(more)]
        reading.open &= ~matched[:, 0]
        return True


def _layer(below: Stack, rows: list[Followed]) -> Layer:
    """Units from rows that were followed: each is zero at its place."""
    weight = torch.stack([row.weight for row in rows])
    y = below.features(torch.stack([row.x for row in rows]))
    scale = weight.norm(dim=1).clamp(min=1e-300)
    known = torch.stack([row.known for row in rows])
    return Layer.of(weight / scale[:, None], -(weight * y).sum(1) / scale, known)


def _doubles(layer: Layer) -> Tensor:
    """Which units are one that came before, up to scale, [h]: imprecise bends of one unit can look like two."""
    size = layer.weight.norm(dim=1).clamp(min=1e-300)
    rows, bias = layer.weight / size[:, None], layer.bias / size
    cosine = rows @ rows.T
    apart = (bias[:, None] - torch.sign(cosine) * bias).abs()
    same = (cosine.abs() > 1 - _SAME**2 / 2) & (apart <= _SAME * (1 + bias.abs()))
    double: Tensor = torch.triu(same, diagonal=1).any(0) & ~layer.linear
    return double


def _apart(rows: list[Followed]) -> list[Followed]:
    """One row of each unit: bends of one unit lead to the same row."""
    found: list[Followed] = []
    for row in rows:
        alike = (torch.cosine_similarity(row.weight, other.weight, dim=0).abs() for other in found)
        if not any(float(cosine) > 1 - 1e-9 for cosine in alike):
            found.append(row)
    return found


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
