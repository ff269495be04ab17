"""Reads layers from surveyed lines, one after the other from the input up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leakmeter.extraction.exact.corners import find_corner
from leakmeter.extraction.exact.rows import agree, evidence, merge, pinned, signs
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.survey import Survey

Explore = Callable[[Tensor, Tensor], Survey | None]
"""Surveys the line origin + t along, -1 <= t <= 1; None where that is not possible."""


_FAILURES = 48
"""Bends tried in vain as units that no other bend shows, at most."""
_WIDEST = 0.03
"""No two normals farther apart than this are taken for one, however imprecise they are."""
_FEW, _MANY_LINES = 12, 9
_UNSEEN = 0.05
"""Crossings without a bend that a unit may have, against those with one: what lies above it may all be off there."""


class Bank:
    """All bends of all lines."""

    def __init__(self, surveys: list[Survey]) -> None:
        self.surveys = surveys
        self.x = torch.cat([s.points for s in surveys])
        self.normals = torch.cat([s.normals for s in surveys])
        self.error = torch.cat([s.error for s in surveys])
        self.line = torch.cat([torch.full((len(s.t),), i) for i, s in enumerate(surveys)])
        self.clear = self.error.isfinite()
        self.long = torch.tensor([not s.short for s in surveys])


@dataclass
class Reading:
    """What the lines show."""

    stack: Stack
    open: Tensor
    """Bends that no unit explains, [m]."""
    undecided: int = 0
    """Units whose orientation nothing shows."""


@dataclass(frozen=True)
class Precision:
    tolerance: float
    least: int


class Peeler:
    """Finds layers in the bends of lines; asks for single weights where no line shows them."""

    def __init__(self, explore: Explore, surveys, precision: Precision, clamp, say=lambda *a: None) -> None:
        self.clamp = clamp
        self.explore, self.surveys, self.precision, self.say = explore, surveys, precision, say
        self.tried: set = set()

    def read(self, bank: Bank) -> Reading:
        """Peels layer after layer until no bend is left or none can be explained."""
        reading = Reading(Stack([]), bank.clear.clone())
        layer = first_layer(bank, self.precision.tolerance)
        if layer is None:
            return reading
        layer = layer.join(Layer.passing(self._beside(layer, bank)))
        self.basis = torch.linalg.svd(layer.weight, full_matrices=False)[2].T
        while layer is not None and self._accept(reading, bank, layer):
            if reading.open.any():
                self._orient(reading, bank)
            layer = self._grouped(reading, bank) if reading.open.any() else None
        again = self._leftovers(reading, bank)
        self.say("open bends", int(reading.open.sum()))
        return self.read(again) if again is not None else reading

    def _beside(self, layer: Layer, bank: Bank) -> Tensor:
        """Directions that units above see beside the first layer's normals: of units that are always on, [r, d].

        There are few of them, against the bends that show them; many mean that units are missing.
        """
        basis = torch.linalg.svd(layer.weight, full_matrices=False)[2].T
        rest = bank.normals - bank.normals @ basis @ basis.T
        size = rest.norm(dim=1)
        clear = (bank.error < self.precision.tolerance) & (size > self.precision.tolerance + 30 * bank.error)
        if not clear.any():
            return rest[:0]
        values, rows = torch.linalg.svd(rest[clear], full_matrices=False)[1:]
        strong = values > 30 * self.precision.tolerance * int(clear.sum()) ** 0.5
        return rows[strong] if int(strong.sum()) <= int(clear.sum()) // 4 else rest[:0]

    def _leftovers(self, reading: Reading, bank: Bank) -> Bank | None:
        """Tries bends that nothing explains as units of every layer, from the top; more bends where one was found."""
        layers = reading.stack.layers
        while reading.open.any():
            rows = reading.open.nonzero()[:, 0]
            for height in range(len(layers), 1, -1):
                part = Reading(Stack(layers[:height]), reading.open)
                if self._accept_single(part, bank, rows):
                    if height < len(layers):
                        return Bank(self.surveys())
                    layers[-1] = part.stack.layers[-1]
                    reading.open = part.open
                    break
            else:
                return None
        return None

    def _accept(self, reading: Reading, bank: Bank, layer: Layer) -> bool:
        """Puts the units that the lines confirm on top, their weights completed; False if there are none."""
        stack = reading.stack
        stack.layers.append(layer)
        keep, matched = self._check(stack, bank)
        self.say("layer", len(stack.layers), int(keep.sum()), "of", len(keep), "unknown weights", int((~layer.known[keep]).sum()))
        if keep.any() and not layer.known[keep].all():
            stack.layers[-1], refuted = self._complete(stack, bank, keep, matched)
            keep, matched = self._check(stack, bank)
            keep &= ~refuted
            self.say("completed", int(keep.sum()), "unknown weights", int((~stack.layers[-1].known[keep]).sum()))
        if not (keep & ~stack.layers[-1].linear).any():
            stack.layers.pop()
            return False
        stack.layers[-1] = stack.layers[-1][keep]
        reading.open &= ~matched[:, keep].any(1)
        return True

    def _check(self, stack: Stack, bank: Bank) -> tuple[Tensor, Tensor]:
        """Which units of the last layer the lines confirm, [h], and which bends are theirs, [m, h]."""
        matched, missing = claims(stack, bank, self.basis, self.precision.tolerance)
        met = torch.zeros(len(bank.surveys), matched.shape[1]).index_add(0, bank.line, matched.float()) > 0
        lines = met[bank.long].sum(0)
        several = (lines >= 2) & (missing <= _UNSEEN * matched.sum(0))
        single = matched.any(0) & (missing == 0) & stack.layers[-1].known.all(1)
        return several | (single & (int(bank.long.sum()) >= 3)) | stack.layers[-1].linear, matched & ~stack.layers[-1].linear

    def _orient(self, reading: Reading, bank: Bank) -> None:
        """Turns the last layer's units the way they face; tries bends that cannot be above it as units of it."""
        stack = reading.stack
        while True:
            rows = reading.open.nonzero()[:, 0]
            found = signs(stack, bank.x[rows], bank.normals[rows], bank.error[rows], self.basis, self.precision.tolerance)
            order = found.off.argsort(descending=True)
            suspects = rows[order][~found.fits[order]]
            self.say("votes", int((found.votes == 0).sum()), "undecided; fits", int(found.fits.sum()), "of", len(rows))
            if len(stack.layers) == 1 or not len(suspects) or not self._accept_single(reading, bank, suspects):
                break
            if not reading.open.any():
                return
        reading.undecided = int((found.votes == 0).sum())
        stack.layers[-1] = stack.layers[-1].turned(found.votes < 0)

    def _accept_single(self, reading: Reading, bank: Bank, suspects: Tensor) -> bool:
        """Adds one unit to the last layer that only one bend shows, if all lines agree with it once it is complete."""
        stack, below = reading.stack, Stack(reading.stack.layers[:-1])
        # while lines are few, another one shows more than bends tried one by one
        failures, patience = 0, _FAILURES if int(bank.long.sum()) >= _MANY_LINES else _FEW
        for i in suspects.tolist():
            key = (len(stack.layers), tuple(bank.x[i, :4].tolist()))
            if key in self.tried or failures >= patience:
                continue
            found = evidence(below, bank.x[i : i + 1], bank.normals[i : i + 1], bank.error[i : i + 1], self.basis, self.precision.tolerance)
            if not bool(found.fits[0]) or not bool(found.known[0, -1]):
                continue
            self.tried.add(key)
            single = Stack([*below.layers, Layer.of(found.row[:, :-1].clone(), found.row[:, -1].clone(), found.known[:, :-1].clone())])
            outcome = self._ask_weights(single, 0, bank.x[i])
            if not outcome:
                failures += outcome is False
                continue
            keep, matched = self._check(single, bank)
            self.say("single", keep.tolist(), int((~single.layers[-1].known).sum()), int(matched.sum()))
            if bool(keep[0]):
                stack.layers[-1] = stack.layers[-1].join(single.layers[-1])
                reading.open &= ~matched[:, 0]
                return True
            failures += 1
        return False

    def _grouped(self, reading: Reading, bank: Bank) -> Layer | None:
        """The units above the last layer, as far as bends that agree show them."""
        rows = reading.open.nonzero()[:, 0]
        tolerance, least = self.precision.tolerance, self.precision.least
        found = evidence(reading.stack, bank.x[rows], bank.normals[rows], bank.error[rows], self.basis, tolerance)
        self.say("fits", int(found.fits.sum()), "of", len(rows))
        merged = [merge(found, group) for group in _groups(agree(found, found, tolerance, least))]
        merged = [m for m in merged if bool(m[1][-1])]
        if not merged:
            return None
        row, known = (torch.stack(column) for column in zip(*merged, strict=True))
        return Layer.of(row[:, :-1], row[:, -1], known[:, :-1])

    def _complete(self, stack: Stack, bank: Bank, keep: Tensor, matched: Tensor) -> tuple[Layer, Tensor]:
        """The last layer with unknown weights of kept units asked for; and which units turned out to be none, [h]."""
        full = Stack([*stack.layers[:-1], stack.layers[-1].clone()])
        top, refuted = full.layers[-1], torch.zeros_like(keep)
        for unit in (keep & ~top.known.all(1)).nonzero()[:, 0].tolist():
            starts = bank.x[matched[:, unit]]
            outcomes = set()
            for start in starts[starts.norm(dim=1).argsort()][:4]:
                if not top.known[unit].all():
                    outcomes.add(self._ask_weights(full, unit, start))
            refuted[unit] = False in outcomes and not top.known[unit].all()
        return top, refuted

    def _ask_weights(self, stack: Stack, unit: int, start: Tensor) -> bool | None:
        """More bends of a unit of the last layer, where weights it lacks can be seen; changes its row in place.

        False where a bend was not there that should have been: then it is no unit of this layer. None where no place
        was found to ask at.
        """
        top, below = stack.layers[-1], Stack(stack.layers[:-1])
        wanted = ~top.known[unit]
        while wanted.any():
            corner = find_corner(stack, unit, wanted, start, self.basis)
            if corner is None:
                half = wanted.nonzero()[:, 0][: int(wanted.sum()) // 2]
                wanted = torch.zeros_like(wanted).index_fill(0, half, True)
                continue
            survey = self.explore(corner.origin, corner.along)
            if survey is None:
                return None
            if not len(survey.t):
                return False
            if not any(self._learn(below, top, unit, survey, i) for i in range(len(survey.t))):
                return False
            wanted = ~top.known[unit]
        return True if bool(top.known[unit].all()) else None

    def _learn(self, below: Stack, top: Layer, unit: int, survey: Survey, i: int) -> bool:
        """Weights of a unit from one more of its bends, those already known being given; False if it is not its own."""
        z, gradient = (part[0] for part in below.slopes(survey.points[i : i + 1], self.basis))
        on, known = below.layers[-1].on(z) > 0, top.known[unit]
        new = on & ~known
        left = torch.cat([survey.normals[i : i + 1] @ self.basis, -gradient[new]]).T
        right = (top.weight[unit] * (on & known)) @ gradient
        solution, unique = pinned(left, right, self.precision.tolerance)
        off = float((left @ solution - right).norm()) / float(right.norm())
        if not bool(new.any()) or not bool(unique.all()) or off > self.precision.tolerance + 30 * float(survey.error[i]):
            return False
        top.weight[unit, new], top.known[unit, new] = solution[1:], True
        return True


def claims(stack: Stack, bank: Bank, basis: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """Which bends are on which units' surfaces of the last layer, [m, h]; how many crossings lack a bend, [h]."""
    matched, zs, normals = [], [], bank.normals @ basis
    for rows in torch.arange(len(bank.x)).split(64):
        z, gradient = stack.slopes(bank.x[rows], basis)
        steep = gradient.norm(dim=2).clamp(min=1e-300)
        cosine = torch.einsum("nhd,nd->nh", gradient, normals[rows]) / steep
        near = z.abs() <= tolerance * steep * (1 + bank.x[rows].norm(dim=1, keepdim=True))
        seen = stack.visible(bank.x[rows])
        angle = (tolerance + 10 * bank.error[rows, None]).clamp(max=_WIDEST)
        matched.append(near & seen & (1 - cosine.abs() <= angle.square()))
        zs.append(torch.where(near | ~seen, 0.0, torch.sign(z)))
    sign, missing = torch.cat(zs), torch.zeros(len(stack.layers[-1].bias))
    for i, survey in enumerate(bank.surveys):
        tips = survey.at(survey.origin.new_tensor(survey.ends))
        ends = torch.sign(stack.inputs(tips)[-1]) * stack.visible(tips)
        walk = torch.cat([ends[:1], sign[bank.line == i], ends[1:]])
        missing += _lone((walk[1:] * walk[:-1]) < 0).sum(0)
    return torch.cat(matched), missing


def _lone(changes: Tensor) -> Tensor:
    """Changes without another right before or after: two around one bend can be a dip that a search steps over."""
    padded = torch.nn.functional.pad(changes, (0, 0, 1, 1))
    return changes & ~padded[:-2] & ~padded[2:]


def first_layer(bank: Bank, tolerance: float) -> Layer | None:
    """Units whose bends have the same normal and offset on several lines."""
    V, o = bank.normals, -(bank.normals * bank.x).sum(1)
    cosine = V @ V.T
    far = (o[:, None] - torch.sign(cosine) * o).abs()
    scale = 1 + bank.x.norm(dim=1)
    angle = tolerance + 10 * (bank.error[:, None] + bank.error).clamp(max=_WIDEST)
    same = (1 - cosine.abs() <= angle.square()) & (far <= tolerance * torch.maximum(scale[:, None], scale))
    usable = bank.clear & bank.long[bank.line]
    same &= usable[:, None] & usable
    taken = torch.zeros(len(o), dtype=torch.bool)
    rows: list[tuple[Tensor, Tensor]] = []
    for i in bank.error.argsort().tolist():  # the most precise first
        twins = same[i] & ~taken
        if taken[i] or len(bank.line[twins].unique()) < 2:
            continue
        taken |= twins
        weight = bank.error[twins].clamp(min=1e-16) ** -2
        side = torch.sign(cosine[i, twins])
        n = (V[twins] * (side * weight)[:, None]).sum(0)
        n = n / n.norm()
        weight = weight / scale[twins].square()
        b = -((bank.x[twins] @ n) * weight).sum() / weight.sum()
        x = bank.x[i]
        if not any(float(1 - (n @ m).abs()) < _WIDEST**2 and abs(float(m @ x + c)) < tolerance * float(scale[i]) for m, c in rows):
            rows.append((n, b))
    if not rows:
        return None
    return Layer.of(torch.stack([n for n, _ in rows]), torch.stack([b for _, b in rows]))


def _groups(pairs: Tensor) -> list[Tensor]:
    """Connected components of two or more, each as indices."""
    label = torch.arange(len(pairs))
    while True:
        lowest = torch.where(pairs, label, len(pairs)).amin(1).minimum(label) if len(pairs) else label
        if torch.equal(lowest, label):
            break
        label = lowest
    groups = [(label == g).nonzero()[:, 0] for g in label.unique().tolist()]
    return [group for group in groups if len(group) >= 2]
