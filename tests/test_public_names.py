"""The public names are a contract: each resolves, to the same thing, whatever was imported before."""

import subprocess
import sys

import pytest

import leakmeter as lm


@pytest.mark.parametrize("name", [name for name in lm.__all__ if name != "__version__"])
def test_names_are_callables_or_classes(name: str) -> None:
    assert callable(getattr(lm, name))
    assert getattr(lm, name) is getattr(lm, name)


def test_unknown_names_are_ordinary_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'autid'"):
        lm.autid  # noqa: B018


def test_importing_the_package_does_not_load_torch() -> None:
    probe = "import sys, leakmeter; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
