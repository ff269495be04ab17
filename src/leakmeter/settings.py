"""Options checked into frozen settings; the first mistake is told in one sentence, with the nearest known name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from leakmeter.errors import UsageError
from leakmeter.registry import did_you_mean

M = TypeVar("M", bound=BaseModel)


class Settings(BaseModel):
    """Frozen, and nothing unknown: the base of whatever a plan, a flag or a keyword can set."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def checked(model: type[M], options: Mapping[str, Any], what: str, noun: str = "option") -> M:
    """`model` made from `options`, or a UsageError about the first that is wrong.

    Args:
        model: the pydantic model to make.
        options: its fields by name.
        what: begins the sentence: "the attack 'dfme'", "the plan".
        noun: what the sentence calls a field.
    """
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        raise UsageError(explain(error, model, what, noun)) from None


def explain(error: ValidationError, model: type[BaseModel], what: str, noun: str = "option") -> str:
    """The sentence for the first mistake that pydantic found."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    name = ".".join(place)
    if first["type"] == "extra_forbidden":
        known = _fields(model, place[:-1])
        names = f" (known: {', '.join(known)})" if known else " (it takes none)"
        return f"{what} has no {noun} '{name}'{did_you_mean(place[-1], known)}{names}"
    if first["type"] == "missing":
        return f"{what} lacks '{name}'"
    message = first["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if not place:
        return f"{what}: {message}"
    given = first["input"]
    shown = "" if isinstance(given, BaseModel | dict) else f", got {given!r}"
    return f"{what}: '{name}': {message}{shown}"


def _fields(model: Any, place: list[str]) -> list[str]:
    """The names that the section of `model` at `place` knows."""
    for part in place:
        field = model.model_fields.get(part) if isinstance(model, type) and issubclass(model, BaseModel) else None
        kinds = [] if field is None else [field.annotation, *getattr(field.annotation, "__args__", ())]
        model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        if model is None:
            return []
    return list(model.model_fields)
