"""What an ONNX graph takes and gives: the input that is varied, what its other inputs hold, the output that is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakmeter.errors import UsageError, all_at_once
from leakmeter.registry import did_you_mean
from leakmeter.victims.facts import UNSAID, Facts
from leakmeter.victims.kind import Ends
from leakmeter.victims.numbers import as_type, type_range

NUMBERS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}
_PICTURE_SIDES = {4: {"C": 1, "H": 2, "W": 3}}  # what sides are called where a file has no names for them
_LAST = {4: {"C": 3, "H": 1, "W": 2}}


@dataclass(frozen=True)
class Graph:
    """The ends of a graph that are used."""

    input: str
    shape: tuple[int | str | None, ...]
    """Of the varied input, batch first; a side that is left open is its name, or None."""
    dtype: np.dtype[Any]
    output: str
    fixed: Mapping[str, tuple[np.ndarray, tuple[int | str | None, ...]]]
    """What the other inputs hold, and their shapes."""

    @property
    def batch(self) -> int | None:
        """The only number of rows it takes; None: any."""
        return self.shape[0] if self.shape and isinstance(self.shape[0], int) else None

    def feeds(self, x: np.ndarray, free: bool) -> dict[str, np.ndarray]:
        """All inputs for some rows. `free`: the batch dimension was made free, also where the file has a number."""
        others = {
            name: np.broadcast_to(value, self._sides(shape, len(x), free))
            for name, (value, shape) in self.fixed.items()
        }
        return {self.input: as_type(x, self.dtype), **others}

    def _sides(self, shape: tuple[int | str | None, ...], rows: int, free: bool) -> tuple[int, ...]:
        def length(place: int, side: int | str | None) -> int:
            same = side == self.shape[0] if not isinstance(side, int) else free and place == 0 and side == self.batch
            return rows if same else side if isinstance(side, int) else 1

        return tuple(length(place, side) for place, side in enumerate(shape))


def read_graph(session: Any, facts: Facts, ends: Ends) -> Graph:
    """The ends that are meant, or all that must be chosen or said."""
    all_at_once(
        lambda: _varied(session, facts, ends),
        lambda: _output(session, ends.output),
        facts.or_else(Facts(**_range(session, ends))).check_range,
    )
    inputs = {each.name: each for each in session.get_inputs()}
    fixed = {name: (_held(inputs[name], value), tuple(inputs[name].shape)) for name, value in ends.inputs.items()}
    one = _varied(session, facts, ends)
    return Graph(one.name, _sized(one, ends.sizes), np.dtype(NUMBERS[one.type]), _output(session, ends.output), fixed)


def _varied(session: Any, facts: Facts, ends: Ends) -> Any:
    """The one input that is not held, of a shape that is known."""
    inputs = {each.name: each for each in session.get_inputs()}
    for name in ends.inputs:
        if name not in inputs:
            raise UsageError(
                f"the model has no input '{name}'{did_you_mean(name, list(inputs))} (known: {_list(inputs.values())})"
            )
    varied = [each for name, each in inputs.items() if name not in ends.inputs]
    likely = next((each for each in varied if len(each.shape) > 1), varied[0] if varied else None)
    others = [each.name for each in varied if each is not likely]
    sizes = "" if likely is None or facts.input_shape is not None else _which_sizes(likely, ends.sizes)
    if likely is None or others:
        raise UsageError(
            f"expected one input to attack, got {len(varied)} of {_list(inputs.values())}; say what all but one of "
            f"them hold, in a plan [victim.inputs] NAME = 0.0, on the command line "
            f"{' '.join(f'--fix {name}=0' for name in others)}{sizes and '; also, ' + sizes}"
        )
    if likely.type not in NUMBERS or len(likely.shape) < 2:
        raise UsageError(f"expected an ONNX model of rows of numbers, got {_show(likely)} for '{likely.name}'")
    if sizes:
        raise UsageError(sizes)
    return likely


def _range(session: Any, ends: Ends) -> dict[str, Any]:
    """Edges that the type of numbers sets."""
    kinds = {NUMBERS.get(each.type) for each in session.get_inputs() if each.name not in ends.inputs}
    low, high = type_range(np.dtype(kinds.pop() or np.float32)) if len(kinds) == 1 else (UNSAID, UNSAID)
    return {"low": low, "high": high}


def _which_sizes(described: Any, sizes: Mapping[str, int]) -> str:
    """Asks for sides that are left open; empty where there are none."""
    sides = _sized(described, sizes)[1:]
    if all(isinstance(side, int) for side in sides):
        return ""
    example = ",".join(str(side) if isinstance(side, int) else "224" for side in sides)
    shown = "x".join("?" if side is None else str(side) for side in sides)
    named = [f"{side}=224" for side in sides if isinstance(side, str) and side.isidentifier()]
    hint = f" or --input-shape {','.join(named or ['H=224', 'W=224'])}" if named or len(sides) == 3 else ""
    return (
        f"the model leaves sides of its input open ({shown}); pass input_shape=({example.replace(',', ', ')}) with the "
        f"size it is used with, on the command line --input-shape {example}{hint}"
    )


def _held(described: Any, value: Any) -> np.ndarray:
    try:
        held: np.ndarray = np.asarray(value).astype(NUMBERS[described.type])
        np.broadcast_shapes(held.shape, tuple(s if isinstance(s, int) else 1 for s in described.shape))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"expected numbers of {_show(described)} for the input '{described.name}', got {value!r}"
        ) from error
    return held


def _sized(described: Any, sizes: Mapping[str, int]) -> tuple[int | str | None, ...]:
    """The shape with open sides filled in by name, or by C, H and W in pictures."""
    shape, used = list(described.shape), set()
    last = len(shape) == 4 and shape[3] in (1, 3) and shape[1] not in (1, 3)
    places = (_LAST if last else _PICTURE_SIDES).get(len(shape), {})
    for name, size in sizes.items():
        at = [place for place, side in enumerate(shape) if side == name]
        at = at or [place for key, place in places.items() if key == name.upper() and not isinstance(shape[place], int)]
        for place in at:
            shape[place] = int(size)
            used.add(name)
    unknown = [name for name in sizes if name not in used]
    if unknown:
        raise UsageError(f"expected the name of an open side of {_show(described)}, got '{unknown[0]}' in sizes")
    return tuple(shape)


def _output(session: Any, chosen: str | None) -> str:
    outputs = {each.name: each for each in session.get_outputs()}
    if not outputs:
        raise UsageError("expected a model with an output, got one that names none; export it again")
    if chosen is not None:
        if chosen not in outputs:
            raise UsageError(
                f"the model has no output '{chosen}'{did_you_mean(chosen, list(outputs))} "
                f"(known: {_list(outputs.values())})"
            )
        return chosen
    # scikit-learn's converter puts labels first and probabilities second: the probabilities are wanted.
    likely = [name for name in outputs if "prob" in name.lower()]
    scores = [name for name, each in outputs.items() if not each.type.startswith(("tensor(int", "tensor(string"))]
    for names in (list(outputs), likely, scores):
        if len(names) == 1:
            return str(names[0])
    raise UsageError(
        f"the model has the outputs {_list(outputs.values())}; choose one with output='{next(iter(outputs))}', on the "
        f"command line --output {next(iter(outputs))}"
    )


def _list(described: Any) -> str:
    return ", ".join(f"{each.name} ({_show(each)})" for each in described)


def _show(described: Any) -> str:
    sides = "x".join("?" if side is None else str(side) for side in described.shape)
    kind = described.type.removeprefix("tensor(").removesuffix(")") if "tensor" in described.type[:6] else "maps"
    return f"{sides} {kind}".strip()
