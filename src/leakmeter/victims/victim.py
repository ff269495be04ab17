"""The one face of a victim, whatever computes its answers, and the kinds that live in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from leakmeter.errors import LeakmeterError, UsageError, VictimError, first_line
from leakmeter.victims.spec import VictimSpec, from_array


class Responder(Protocol):
    """Anything that answers: a victim, or a defense around one."""

    spec: VictimSpec
    remote: bool
    """Whether an answer may be given without our hearing of it (then a repeated question is a second query)."""
    differentiable: bool
    """Whether `respond` builds an autograd graph when its input asks for one."""
    batch: int
    """The most rows to ask at once."""

    def respond(self, x: Tensor, noise: torch.Generator) -> Tensor:
        """The outputs `spec` promises, one row per input; whatever is random draws from `noise`."""


class Victim:
    """A model under audit. The owner holds this handle; an attack gets only an `Oracle` in front of it."""

    remote = False
    differentiable = False
    batch = 256
    authorized_by: str | None = None
    """Who allowed the audit of a victim that is not on this machine."""

    def __init__(self, spec: VictimSpec) -> None:
        self.spec = spec

    def respond(self, x: Tensor, noise: torch.Generator) -> Tensor:  # noqa: ARG002
        """The model's own outputs; a failure is told as the victim's."""
        try:
            return self.compute(x)
        except LeakmeterError:
            raise
        except Exception as error:
            raise VictimError(
                f"the victim {self.spec.name} raised {type(error).__name__}: {first_line(error)}"
            ) from error

    def compute(self, x: Tensor) -> Tensor:
        """Outputs for inputs already checked against the spec."""
        raise NotImplementedError

    @property
    def white_box(self) -> nn.Module:
        """The network itself, for white-box work only: never handed to a black-box attack."""
        raise UsageError(f"white-box work needs an nn.Module, and the victim {self.spec.name} is not one")


class ModuleVictim(Victim):
    """An `nn.Module`, or an exported program, which behaves like one."""

    differentiable = True

    def __init__(self, module: nn.Module, spec: VictimSpec, device: torch.device | str = "cpu") -> None:
        super().__init__(spec)
        self._module = module.to(device)
        self._device = torch.device(device)

    def compute(self, x: Tensor) -> Tensor:
        """One forward pass."""
        outputs: Tensor = self._module(x.to(self._device))
        return outputs

    @property
    def white_box(self) -> nn.Module:
        """The module."""
        return self._module


class FunctionVictim(Victim):
    """Any function from a float array to an array: a scikit-learn method, an ONNX session, user code."""

    batch = 4096

    def __init__(self, function: Callable[[np.ndarray], Any], spec: VictimSpec) -> None:
        super().__init__(spec)
        self._function = function

    def compute(self, x: Tensor) -> Tensor:
        """Calls the function on a numpy array."""
        outputs = np.asarray(self._function(x.detach().cpu().numpy()))
        if not np.issubdtype(outputs.dtype, np.number):
            raise TypeError(f"expected it to return numbers, got {outputs.dtype}")
        return from_array(outputs)
