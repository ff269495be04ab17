"""Reads layers from surveyed lines, one after the other from the input up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from leakmeter.extraction.exact.bank import Bank, cells_of, claims, first_layer
from leakmeter.extraction.exact.beside import beside, lacking
from leakmeter.extraction.exact.corners import Box
from leakmeter.extraction.exact.decompose import svd
from leakmeter.extraction.exact.follow import Followed, follow
from leakmeter.extraction.exact.grouping import confirmed, few_tell, grouped
from leakmeter.extraction.exact.output import passed_by
from leakmeter.extraction.exact.passing import passing_rows, switched
from leakmeter.extraction.exact.rows import evidence, outside
from leakmeter.extraction.exact.sides import odds
from leakmeter.extraction.exact.sight import seen_from_both_sides
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.survey import Survey, even
from leakmeter.extraction.exact.suspects import Suspects
from leakmeter.extraction.exact.weights import Explore, Precision, Weights

_FAILURES, _FEW, _MANY_LINES = 48, 12, 9
"""Bends tried in vain as units that no other bend shows; fewer while lines are few: one more shows more."""
_STARTS = 4
_LACKING = 0.02
"""The share of bends that may show something no unit of the first layer does, before single weights are asked for."""
_LAST = 0.1
"""The share of bends that nothing explains below which a layer is taken for the last hidden one."""
_SURE = 5.0
"""The least logarithm of the odds that a unit faces the way it is taken to."""


@dataclass
class Reading:
    """What the lines show."""

    stack: Stack
    open: Tensor
    """Bends that no unit explains, [m]."""


class Peeler:
    """Finds layers in the bends of lines; asks for single weights where no line shows them."""

    def __init__(self, explore: Explore, surveys: Callable[[], list[Survey]], precision: Precision, box: Box) -> None:
        self.explore, self.surveys, self.precision, self.box = explore, surveys, precision, box
        self.suspects = Suspects(explore, precision.tolerance)
        self.tried: set[tuple[float, ...]] = set()
        self.kept: list[Layer] = []
        """Layers with rows that were followed, which took many questions: they are not read again."""
        self.followed = False
        self.whole = True
        """Whether the first layer shows all that units above see: else these are elsewhere than they seem to be."""
        self.vain = 0
        """Bends tried in vain since lines were last read."""

    def read(self, again: int = 2) -> Reading:
        """Peels layer after layer until no bend is left or none can be explained; from the start if that helps."""
        self.vain = 0
        return self._read(again)

    def _read(self, again: int) -> Reading:
        bank, self.added = Bank(self.surveys()), set[tuple[float, ...]]()
        reading = Reading(Stack([]), bank.clear.clone())
        layer = first_layer(bank, self.precision.tolerance)
        if layer is None:
            return reading
        layer = layer.join(self.suspects.met_once(layer, bank))
        if self.kept and not self._more(bank, layer):
            layer = self.kept[0]
        else:
            self._forget()
        self._see(layer)
        if not all(self._put(reading, bank, known) for known in self.kept):
            self._forget()
            return self._read(again)
        if not self.kept and self._accept(reading, bank, layer):
            layer = reading.stack.layers[0]
            layer = layer.join(Layer.passing(beside(layer, bank, reading.open, self.precision.tolerance)))
            reading.stack.layers[0] = layer
            self._see(layer)
        self.whole = lacking(layer, bank, reading.open, self.precision.tolerance) <= _LACKING
        while reading.stack.layers and bool(reading.open.any()) and self._on_top(reading, bank):
            pass
        again = again if self._leftovers(reading, bank, deeper=again > 0) else 0
        self.kept = reading.stack.layers if self.followed else []
        return self._read(again - 1) if again else reading

    def _see(self, layer: Layer) -> None:
        """Looks along the directions that a first layer sees."""
        basis = svd(layer.weight)[2].T
        self.weights = Weights(self.explore, self.precision, basis, self.box, lambda: even(self.surveys()))

    def _more(self, bank: Bank, layer: Layer) -> bool:
        """Whether lines confirm units of a first layer that the kept one lacks."""
        both, known = self.kept[0].join(layer), len(self.kept[0].bias)
        new = both[known:][~both.doubles()[known:]]
        self._see(both)
        return len(new.bias) > 0 and bool(self._confirmed(Stack([new]), bank)[0].any())

    def _forget(self) -> None:
        """Drops what was followed above layers that turned out to be others."""
        if self.kept:
            self.tried.clear()
        self.kept, self.followed = [], False

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
        if not self._orient(reading, bank):
            return False
        if len(reading.stack.layers) > 1:
            self._pass_by(reading, bank)
        for make in (self._agreed, self._followed):
            layer = make(reading, bank) if bool(reading.open.any()) else None
            if layer is not None and self._accept(reading, bank, layer):
                return True
        return False

    def _agreed(self, reading: Reading, bank: Bank) -> Layer | None:
        """The units above the last layer, as far as bends that agree show them."""
        return grouped(reading.stack, bank, reading.open.nonzero()[:, 0], self.weights.basis, self.precision)

    def _confirmed(self, stack: Stack, bank: Bank) -> tuple[Tensor, Tensor]:
        return confirmed(stack, bank, self.weights.basis, self.precision.tolerance)

    def _accept(self, reading: Reading, bank: Bank, layer: Layer) -> bool:
        """Puts the units that the lines confirm on top, their weights completed; False if there are none."""
        stack = reading.stack
        stack.layers.append(layer)
        keep, matched = self._confirmed(stack, bank)
        if self.whole and not bool(layer.known[keep].all()):
            stack.layers[-1], refuted = self.weights.complete(stack, bank, keep, matched)
            keep, matched = self._confirmed(stack, bank)
            keep &= ~refuted
            self._walk(stack, bank, keep, matched)
        if len(stack.layers) == 1:
            keep[keep.clone()] = ~seen_from_both_sides(stack.layers[-1][keep], bank, self.precision.tolerance)
            keep[keep.clone()] = ~self.suspects.refuted(stack.layers[-1][keep], bank, matched[:, keep])
        keep &= ~stack.layers[-1].doubles()
        if not bool((keep & ~layer.linear).any()):
            stack.layers.pop()
            return False
        stack.layers[-1] = stack.layers[-1][keep]
        reading.open &= ~matched[:, keep].any(1)
        return True

    def _walk(self, stack: Stack, bank: Bank, keep: Tensor, matched: Tensor) -> None:
        """Follows the surfaces of units of the last layer whose weights no corner told, once lines show no more."""
        below, top = Stack(stack.layers[:-1]), stack.layers[-1]
        for unit in (keep & ~top.known.all(1)).nonzero()[:, 0].tolist():
            for i in matched[:, unit].nonzero()[:, 0].tolist()[:_STARTS]:
                told = int(bank.long.sum()) < _MANY_LINES or self._tired(bank) or bool(top.known[unit].all())
                row = None if told else self._follow(below, bank, i)
                if row is not None and bool(row.known.all()):
                    one = row.layer(below)
                    top.weight[unit], top.bias[unit], top.known[unit] = one.weight[0], one.bias[0], True

    def _orient(self, reading: Reading, bank: Bank) -> bool:
        """Turns the last layer's units the way they face; tries bends that cannot be above it as units of it.

        False where the lines do not tell which way all of them face, and more lines would.
        """
        stack = reading.stack
        while bool(reading.open.any()):
            rows = reading.open.nonzero()[:, 0]
            off = outside(stack, bank.x[rows], bank.normals[rows], self.weights.basis)
            suspects = rows[off > self.precision.tolerance + 30 * bank.error[rows]]
            if len(stack.layers) == 1 or not self._accept_single(reading, bank, suspects):
                break
        return self._face(stack, bank) or int(bank.long.sum()) >= _MANY_LINES

    def _face(self, stack: Stack, bank: Bank) -> bool:
        """Turns the last layer's units the way they face; whether that is sure of all of them."""
        matched = claims(stack, bank, self.weights.basis, self.precision.tolerance)[0]
        found = odds(stack, bank, matched, self.weights.basis, self.precision.tolerance)
        stack.layers[-1] = stack.layers[-1].turned(found < 0)
        return bool(((found.abs() >= _SURE) | stack.layers[-1].linear).all())

    def _pass_by(self, reading: Reading, bank: Bank) -> None:
        """Adds what the last layer lacks: units that one bend each shows it to consist of, and what passes by it."""
        stack, args = reading.stack, (self.weights.basis, self.precision.tolerance)
        everywhere = bool(stack.layers[-1].linear.any())
        if not everywhere:
            stack.layers[-1], rows, everywhere = passing_rows(stack, bank, *args)
            if not len(rows) and float(reading.open.double().mean()) < _LAST:
                rows, everywhere = passed_by(stack, *cells_of(bank.surveys)), True
            stack.layers[-1] = stack.layers[-1].join(Layer.passing(rows))
        units = stack.layers[-1].units
        for i in reading.open.nonzero()[:, 0].tolist():
            layer = switched(stack, bank, i, *args) if bool(reading.open[i]) else None
            if layer is None:
                continue
            unit = Stack([*stack.layers[:-1], layer[layer.units - 1 : layer.units]])
            keep, matched = self._confirmed(unit, bank)
            if bool(keep[0]):
                stack.layers[-1] = layer
                reading.open &= ~matched[:, 0]
        if not everywhere:
            stack.layers[-1] = stack.layers[-1][~stack.layers[-1].linear]
        if stack.layers[-1].units > units:
            self._face(stack, bank)

    def _followed(self, reading: Reading, bank: Bank) -> Layer | None:
        """A unit above the last layer by following its surface, where bends do not tell their rows."""
        stack, rows = reading.stack, reading.open.nonzero()[:, 0]
        if not few_tell(stack, bank, self.weights.basis, self.precision.tolerance):
            return None
        for i in rows.tolist():
            if self._tired(bank):
                return None
            row = self._follow(stack, bank, i)
            if row is not None:
                return row.layer(stack)
        return None

    def _tired(self, bank: Bank) -> bool:
        """Whether so many bends were tried in vain that another line would show more."""
        return self.vain >= (_FAILURES if int(bank.long.sum()) >= _MANY_LINES else _FEW)

    def _follow(self, stack: Stack, bank: Bank, i: int) -> Followed | None:
        """The row of bend i above the stack, if it can be followed; asked once."""
        key = (0.5 + len(stack.layers), *bank.x[i].tolist())
        if key in self.tried or not bool(bank.clear[i]):
            return None
        self.tried.add(key)
        row = follow(stack, bank.x[i], bank.normals[i], self.explore, self.precision.tolerance)
        self.vain += row is None
        self.followed |= row is not None  # what took so many questions is kept
        return row

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
        below = Stack(reading.stack.layers[:-1])
        wide = bool(below.layers) and few_tell(below, bank, self.weights.basis, self.precision.tolerance)
        for i in suspects.tolist():
            if self._tired(bank):
                break
            key = (float(len(reading.stack.layers)), *bank.x[i].tolist())
            if key in self.tried or key in self.added:
                continue
            outcome = self._try(reading, bank, i, wide)
            if outcome:
                self.added.add(key)
                return True
            if outcome is False:
                self.tried.add(key)
                self.vain += 1
        return False

    def _try(self, reading: Reading, bank: Bank, i: int, wide: bool) -> bool | None:
        """Whether bend i is of a unit of the last layer, which is then added; None if it could not be tried."""
        stack, below = reading.stack, Stack(reading.stack.layers[:-1])
        args = bank.x[i : i + 1], bank.normals[i : i + 1], bank.error[i : i + 1]
        found = evidence(below, *args, self.weights.basis, self.precision.tolerance)
        row = Layer.of(found.row[:, :-1].clone(), found.row[:, -1].clone(), found.known[:, :-1].clone())
        single = Stack([*below.layers, row])
        told = self.whole and bool(found.fits[0]) and bool(found.known[0, -1])
        outcome = self.weights.ask(single, 0, bank.x[i]) if told else None
        followed = self._follow(below, bank, i) if wide and not told else None
        if followed is not None:
            single, outcome = Stack([*below.layers, followed.layer(below)]), True
        if not outcome:
            return outcome
        keep, matched = self._confirmed(single, bank)
        if not bool(keep[0]):
            return False
        more = stack.layers[-1].join(single.layers[-1])
        stack.layers[-1] = more[~more.doubles()]
        reading.open &= ~matched[:, 0]
        return True
