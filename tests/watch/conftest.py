"""A small victim on a table of four numbers, its test data, and traffic to it."""

import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from leakmeter.evaluation.score import reference
from leakmeter.plan import make_plan
from leakmeter.victims.load import load_victim

VICTIM = """
import torch
from torch import nn

def make():
    generator = torch.Generator().manual_seed(7)
    model = nn.Linear(4, 3, bias=False)
    with torch.no_grad():
        model.weight.copy_(3 * torch.randn(3, 4, generator=generator))
    return model.eval()
"""
LOG = {"students": ["linear"], "least": 20, "train": 8, "effort": 0.05}


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Path:
    """A folder with the victim's code and test data."""
    folder = tmp_path_factory.mktemp("watched")
    (folder / "victim.py").write_text(textwrap.dedent(VICTIM))
    x = torch.randn(600, 4, generator=torch.Generator().manual_seed(1)).clamp(-3, 3) * 0.2
    namespace: dict = {}
    exec(VICTIM, namespace)
    y = namespace["make"]()(x).argmax(1)
    np.savez(folder / "test.npz", x=x.numpy(), y=y.numpy())
    return folder


@pytest.fixture(scope="session")
def victim(place):
    return load_victim(f"{place}/victim.py:make", input_shape=(4,), low=-1.0, high=1.0, classes=3, outputs="logits")


@pytest.fixture(scope="session")
def natural(place):
    return torch.from_numpy(np.load(place / "test.npz")["x"])


@pytest.fixture(scope="session")
def truth(victim, natural):
    return reference(victim, natural)


@pytest.fixture
def planned(place):
    """Makes a plan; keywords go to [log]."""

    def make(policy=None, **log):
        return make_plan(
            {
                "name": "test",
                "victim": {
                    "source": f"{place}/victim.py:make",
                    "input_shape": [4],
                    "low": -1.0,
                    "high": 1.0,
                    "classes": 3,
                    "outputs": "logits",
                },
                "data": {"name": str(place / "test.npz")},
                "policy": policy or {},
                "log": LOG | log,
            }
        )

    return make
