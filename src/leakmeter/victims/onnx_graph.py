"""What an ONNX graph takes and gives: the input that is varied, what its other inputs hold, the output that is read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leakmeter.errors import UsageError, all_at_once
from leakmeter.registry import did_you_mean
from leakmeter.victims.answers import likely
from leakmeter.victims.bounds import UNSAID, Bound
from leakmeter.victims.facts import Facts
from leakmeter.victims.kind import Ends
from leakmeter.victims.numbers import as_type, type_range
from leakmeter.victims.onnx_columns import WORDS, ColumnInput, column_inputs, is_table
from leakmeter.victims.onnx_numbers import NUMBERS
from leakmeter.victims.onnx_tokens import token_range
from leakmeter.victims.probe import LABELS_UNCOUNTED

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
    range: tuple[Bound, Bound]
    """The lowest and the highest number it takes, where the graph says it."""
    said: str | None = None
    """Which of several outputs was chosen by its name."""
    single: bool = False
    """Whether it takes one input without a dimension of rows."""
    columns: tuple[ColumnInput, ...] = ()
    """The inputs of a model that takes each column of a table as one."""

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
        if self.columns:
            return {column.name: column.feed(x[:, place]) for place, column in enumerate(self.columns)} | others
        return {self.input: as_type(x[0] if self.single else x, self.dtype), **others}

    def _sides(self, shape: tuple[int | str | None, ...], rows: int, free: bool) -> tuple[int, ...]:
        def length(place: int, side: int | str | None) -> int:
            same = side == self.shape[0] if not isinstance(side, int) else free and place == 0 and side == self.batch
            return rows if same else side if isinstance(side, int) else 1

        return tuple(length(place, side) for place, side in enumerate(shape))


def read_graph(path: Path, session: Any, facts: Facts, ends: Ends) -> Graph:
    """The ends that are meant, or all that must be chosen or said."""
    low, high, whole, shape = _range(path, session, ends)
    known = facts.or_else(Facts(low=low, high=high, whole=whole, model_shape=shape))
    asked = [
        lambda: _varied(session, facts, ends),
        lambda: _check_countable(session, _output(session, ends.output), facts),
    ]
    try:
        all_at_once(*asked, *(() if known.guesses else (known.check_range,)))
    except UsageError:  # a guess may fail as well: then the range would be asked for in a message of its own
        all_at_once(*asked, *(() if known.likely else (known.check_range,)))
    inputs = {each.name: each for each in session.get_inputs()}
    fixed = {name: (_held(inputs[name], value), tuple(inputs[name].shape)) for name, value in ends.inputs.items()}
    one, output = _varied(session, facts, ends), _output(session, ends.output)
    by_name = ends.output is None and len(session.get_outputs()) > 1
    said = f"Of the outputs {_list(session.get_outputs())} of the model '{output}' was read." if by_name else None
    free = _free(session, ends)
    if is_table(free, NUMBERS):
        columns = column_inputs(free, NUMBERS, facts.columns)
        table = (one.shape[0], len(columns))
        return Graph(one.name, table, np.dtype(np.float64), output, fixed, (low, high), said, columns=columns)
    sides, dtype, single = _sized(one, ends.sizes), np.dtype(NUMBERS[one.type]), _takes_one(session, one, output)
    return Graph(one.name, (1, *sides) if single else sides, dtype, output, fixed, (low, high), said, single)


def table_names(session: Any) -> list[str] | None:
    """The columns of a model that takes each as an input of its own."""
    inputs = session.get_inputs()
    return [each.name for each in inputs] if is_table(inputs, NUMBERS) else None


def _free(session: Any, ends: Ends) -> list[Any]:
    """The inputs that are not held."""
    return [each for each in session.get_inputs() if each.name not in ends.inputs]


def _check_countable(session: Any, output: str, facts: Facts) -> None:
    """Asks for the classes where the output that is read holds labels."""
    answers = next(each for each in session.get_outputs() if each.name == output)
    one = len(answers.shape or ()) == 1 or list(answers.shape or ())[1:] == [1]
    if answers.type == WORDS and facts.class_names is None:
        raise UsageError(
            f"the output '{output}' holds words; pass their names, such as classes=['no', 'yes'], on the command line "
            "--classes no,yes"
        )
    if one and "int" in answers.type and facts.classes is None:
        raise UsageError(LABELS_UNCOUNTED)


def _takes_one(session: Any, varied: Any, output: str) -> bool:
    """Whether the first side of the input is none of rows: the output has another number of them, or none."""
    answers = next(each for each in session.get_outputs() if each.name == output)
    sides, rows = list(answers.shape or ()), varied.shape[0]
    whole = all(isinstance(side, int) for side in (*varied.shape, *sides))
    return whole and rows > 1 and len(varied.shape) > 1 and ((len(sides) == 1 and sides[0] != rows) or sides[:1] == [1])


def _varied(session: Any, facts: Facts, ends: Ends) -> Any:
    """The one input that is not held, of a shape that is known."""
    inputs = {each.name: each for each in session.get_inputs()}
    for name in ends.inputs:
        if name not in inputs:
            raise UsageError(
                f"the model has no input '{name}'{did_you_mean(name, list(inputs))} (known: {_list(inputs.values())})"
            )
    varied = _free(session, ends)
    if is_table(varied, NUMBERS):
        column_inputs(varied, NUMBERS, facts.columns)
        return varied[0]
    main = next((each for each in varied if len(each.shape) > 1), varied[0] if varied else None)
    others = [each.name for each in varied if each is not main]
    sizes = "" if main is None or facts.input_shape is not None else _which_sizes(main, ends.sizes)
    if main is None or others:
        raise UsageError(
            f"expected one input to attack, got {len(varied)} of {_list(inputs.values())}; say what all but one of "
            f"them hold, in a plan [victim.inputs] NAME = 0.0, on the command line "
            f"{' '.join(f'--fix {name}=0' for name in others)}{sizes and '; also, ' + sizes}"
        )
    if main.type not in NUMBERS or len(main.shape) < 2:
        raise UsageError(f"expected an ONNX model of rows of numbers, got {_show(main)} for '{main.name}'")
    if sizes:
        raise UsageError(sizes)
    return main


def _range(path: Path, session: Any, ends: Ends) -> tuple[Bound, Bound, bool, tuple[Any, ...] | None]:
    """Edges that the type of numbers or the graph sets; whether they are whole; the sides of one input."""
    varied = _free(session, ends)
    if len(varied) != 1 or varied[0].type not in NUMBERS:
        return UNSAID, UNSAID, False, None
    dtype, shape = np.dtype(NUMBERS[varied[0].type]), tuple(varied[0].shape[1:])
    with suppress(UsageError):  # which is told with all others
        shape = tuple(varied[0].shape) if _takes_one(session, varied[0], _output(session, ends.output)) else shape
    whole = dtype.kind in "iub"
    found = type_range(dtype)
    return *(found if found[0] is not UNSAID or not whole else token_range(path, varied[0].name)), whole, shape


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
    scores = [name for name, each in outputs.items() if not each.type.startswith(("tensor(int", "tensor(string"))]
    rows = [name for name in scores if len(outputs[name].shape or ()) <= 2]  # others are maps, boxes or states
    named = likely(outputs)
    for names in (list(outputs), [named] if named else [], scores, rows):
        if len(names) == 1:
            return str(names[0])
    first = (rows or scores or list(outputs))[0]
    raise UsageError(
        f"the model has the outputs {_list(outputs.values())}; choose one with output='{first}', on the "
        f"command line --output {first}"
    )


def _list(described: Any) -> str:
    return ", ".join(f"{each.name} ({_show(each)})" for each in described)


def _show(described: Any) -> str:
    sides = "x".join("?" if side is None else str(side) for side in described.shape)
    kind = described.type.removeprefix("tensor(").removesuffix(")") if "tensor" in described.type[:6] else "maps"
    return f"{sides} {kind}".strip()
