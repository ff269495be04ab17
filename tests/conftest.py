"""What holds for every test: none is timed, and none leaves the processor in another state."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine must not fail a test
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _denormals() -> Iterator[None]:
    """A command flushes denormals for its whole process; here other tests share it."""
    yield
    torch.set_flush_denormal(False)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes would be written out in a test's name, which two processes then may not agree on."""
    return argname if isinstance(val, bytes) else None
