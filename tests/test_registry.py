"""Names are looked up lazily, and a wrong one is answered with the nearest."""

from __future__ import annotations

import pytest

from leakmeter.errors import UsageError
from leakmeter.registry import Registry, did_you_mean


@pytest.fixture
def registry() -> Registry[type]:
    return Registry("shape", {"fraction": "fractions:Fraction", "absent": "no_such_module_x:Thing"})


def test_a_name_is_imported_only_when_asked_for(registry: Registry[type]) -> None:
    from fractions import Fraction

    assert list(registry) == ["fraction", "absent"]
    assert registry["fraction"] is Fraction
    assert "absent" in registry
    with pytest.raises(ModuleNotFoundError):
        registry["absent"]


def test_a_wrong_name_is_answered_with_the_nearest_and_all_known(registry: Registry[type]) -> None:
    with pytest.raises(
        UsageError, match=r"unknown shape 'fractoin'; did you mean 'fraction'\? \(known: fraction, absent\)"
    ):
        registry["fractoin"]
    with pytest.raises(UsageError, match=r"unknown shape 'zzz' \(known"):
        registry["zzz"]


def test_names_can_be_added_but_not_taken(registry: Registry[type]) -> None:
    registry.add("decimal", "decimal:Decimal")
    from decimal import Decimal

    assert registry["decimal"] is Decimal
    with pytest.raises(UsageError, match="the shape 'decimal' exists already"):
        registry.add("decimal", "decimal:Context")


def test_every_registered_attack_and_model_can_be_loaded() -> None:
    from leakmeter.extraction.base import ATTACKS, Attack
    from leakmeter.models import MODELS

    for name in ATTACKS:
        assert issubclass(ATTACKS[name], Attack), name
    for name in MODELS:
        assert callable(MODELS[name]), name


def test_nothing_near_says_nothing() -> None:
    assert did_you_mean("qqqq", ["labels"]) == ""


class Entry:
    def __init__(self, name: str, value: str) -> None:
        self.name, self.value = name, value


def installed(monkeypatch: pytest.MonkeyPatch, *entries: Entry) -> Registry[type]:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries if group == "leakmeter.shapes" else ())
    return Registry("shape", {"fraction": "fractions:Fraction"}, group="leakmeter.shapes")


def test_an_installed_package_adds_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from decimal import Decimal

    registry = installed(monkeypatch, Entry("decimal", "decimal:Decimal"))
    assert list(registry) == ["fraction", "decimal"]
    assert registry["decimal"] is Decimal


def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = installed(monkeypatch, Entry("broken", "no_such_module_x:Thing"))
    with pytest.raises(UsageError, match=r"the shape 'broken' cannot be loaded from no_such_module_x:Thing: No module"):
        registry["broken"]


def test_a_package_cannot_take_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = installed(monkeypatch, Entry("fraction", "other:Fraction"))
    with pytest.raises(UsageError, match="the shape 'fraction' exists already, and other:Fraction takes its name"):
        registry["fraction"]
