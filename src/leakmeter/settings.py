"""Options and short texts checked into frozen settings; the first mistake is said in one sentence."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from leakmeter.errors import UsageError
from leakmeter.registry import Registry, did_you_mean

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
_MOST = 10**18
_FLOAT = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


class Settings(BaseModel):
    """Frozen, and nothing unknown: the base of whatever a plan, a flag or a keyword can set."""

    # As text, infinity survives JSON: null would read as "not given".
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, ser_json_inf_nan="strings")


def checked(model: type[M], options: Mapping[str, Any], what: str, noun: str = "option") -> M:
    """`model` made from `options`, or a UsageError about the first that is wrong.

    Args:
        model: the pydantic model to make.
        options: its fields by name.
        what: begins the sentence: "the attack 'dfme'", "the plan".
        noun: what the sentence calls a field.
    """
    try:
        if (name := _huge(options)) is not None:
            raise UsageError(f"{what}: '{name}': expected a number of at most {_MOST:,}")
        return model.model_validate(dict(options))
    except ValidationError as error:
        raise UsageError(explain(error, model, what, noun)) from None
    except RecursionError as error:
        raise UsageError(f"{what} is nested too deep") from error


def _huge(value: Any, name: str = "") -> str | None:
    """Where a whole number is that no record, clock or memory can hold."""
    if isinstance(value, int) and abs(value) > _MOST:
        return name
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    found = (_huge(item, f"{name}.{key}" if name else str(key)) for key, item in items)
    return next((each for each in found if each is not None), None)


def explain(error: ValidationError, model: type[BaseModel], what: str, noun: str = "option") -> str:
    """The sentence for the first mistake that pydantic found."""
    first = _likeliest(error.errors())
    place = [str(part) for part in first["loc"]]
    name = ".".join(place)
    if first["type"] == "extra_forbidden":
        known = _fields(model, place[:-1])
        names = f" (known: {', '.join(known)})" if known else " (it takes none)"
        return f"{what} has no {noun} '{name}'{did_you_mean(place[-1], known)}{names}"
    if first["type"] == "missing":
        return f"{what} lacks '{name}'"
    if first["type"] in ("model_type", "model_attributes_type") and (known := _fields(model, place)):
        keys = f"the keys {', '.join(known)}, such as {name} = {{{', '.join(f'{key} = ...' for key in known)}}}"
        return f"{what}: '{name}': expected a section with {keys}, got {first['input']!r}"
    message = first["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if not place:
        return f"{what}: {message}"
    given = first["input"]
    shown = "" if isinstance(given, BaseModel | dict) else f", got {given!r}"
    return f"{what}: '{name}': {message}{shown}"


def _likeliest(mistakes: list[Any]) -> Any:
    """The first; where it is a key that lacks, one beside it that nobody knows is rather what was meant by it."""
    first, beside = mistakes[0], mistakes[0]["loc"][:-1]
    unknown = [each for each in mistakes if each["type"] == "extra_forbidden" and each["loc"][:-1] == beside]
    return unknown[0] if unknown and first["type"] == "missing" else first


def _fields(model: Any, place: list[str]) -> list[str]:
    """The names that the section of `model` at `place` knows."""
    for part in place:
        field = model.model_fields.get(part) if isinstance(model, type) and issubclass(model, BaseModel) else None
        kinds = [] if field is None else [field.annotation, *getattr(field.annotation, "__args__", ())]
        model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        if model is None:
            return []
    return list(model.model_fields)


def from_text(registry: Registry[Callable[..., T]] | Registry[type[T]], text: str) -> T:
    """What `"NAME:ARG,ARG"` means: whatever has that name, called with the numbers behind the colon.

    Whether a number is whole is told by the type of the parameter; parameters with a default may be left out.
    """
    name, colon, numbers = text.partition(":")
    kind, given = registry[name], numbers.split(",") if colon else []
    wanted = list(inspect.signature(kind, eval_str=True).parameters.values())
    least = sum(parameter.default is parameter.empty for parameter in wanted)
    if not least <= len(given) <= len(wanted):
        names = ",".join(parameter.name.upper() for parameter in wanted)
        raise UsageError(f"expected the {registry.kind} {name}{':' if names else ''}{names}, got '{text}'")
    return kind(*(_number(number, each.annotation, text) for number, each in zip(given, wanted, strict=False)))


def _number(text: str, annotation: Any, whole: str) -> float:
    kind = next((each for each in get_args(annotation) if each is not type(None)), annotation)  # of `float | None`
    if kind is int and re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    if kind is float and re.fullmatch(_FLOAT, text) and math.isfinite(float(text)):
        return float(text)
    raise UsageError(f"expected {'whole numbers' if kind is int else 'numbers'} in '{whole}', got '{text}'")
