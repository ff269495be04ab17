"""An `nn.Module`, or an exported program, which behaves like one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from leakmeter.models.trees.ensemble import TreeEnsemble
from leakmeter.victims.answers import OneOutput
from leakmeter.victims.declared import declared
from leakmeter.victims.kind import Request, VictimKind
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Question, Victim


class ModuleVictim(Victim):
    """A network in this process, gradients and all."""

    differentiable = True

    def __init__(
        self,
        module: nn.Module,
        spec: VictimSpec,
        device: torch.device | str = "cpu",
        last: OneOutput | None = None,
    ) -> None:
        super().__init__(spec)
        self._module, self._last = module.to(device), last or OneOutput(None)
        self._device = torch.device(device)
        self.notes = declared(module, "notes", tuple) or ()
        self.trees = module if isinstance(module, TreeEnsemble) else None

    def compute(self, x: Tensor, question: Question) -> Tensor:  # noqa: ARG002
        """One forward pass."""
        outputs: Tensor = self._last(self._module(x.to(self._device)))
        return outputs

    @property
    def white_box(self) -> nn.Module:
        """The module, and where it returns several outputs the one that is read."""
        return nn.Sequential(self._module, self._last) if self._last.needed else self._module


class ModuleKind(VictimKind):
    """Networks."""

    form = "an nn.Module"
    ends = ("output",)

    def takes(self, source: object) -> bool:
        """Whether it is a module."""
        return isinstance(source, nn.Module)

    def open(self, source: Any, request: Request) -> Victim:
        """The module in evaluation mode, probed."""
        with suppress(NotImplementedError):  # an exported program has its mode built in
            source.eval()
        last = OneOutput(request.ends.output)
        return request.facts.about(source).probed(lambda spec: ModuleVictim(source, spec, request.device, last))
