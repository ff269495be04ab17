"""What comes back: exactly what the view shows. Asking for more is an error."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.oracle.view import View
from leakmeter.victims.spec import to_labels as to_labels


@dataclass(frozen=True, eq=False)
class Answer:
    """Rows of answers under one view, as the columns that were really shown."""

    view: View
    classes: int
    columns: dict[str, Tensor]

    @classmethod
    def join(cls, parts: list[Answer]) -> Answer:
        """Answers to one question asked in several pieces."""
        first = parts[0]
        if len(parts) == 1:
            return first
        columns = {name: torch.cat([part.columns[name] for part in parts]) for name in first.columns}
        return cls(first.view, first.classes, columns)

    def rows(self, which: Tensor) -> Answer:
        """Some of its rows."""
        return replace(self, columns={name: column[which] for name, column in self.columns.items()})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def labels(self) -> Tensor:
        """The top class shown, [n]."""
        if "labels" in self.columns:
            return self.columns["labels"]
        if "top" in self.columns:
            return self.columns["top"][:, 0]
        return to_labels(self.columns["logits"] if "logits" in self.columns else self.columns["probs"])

    @property
    def probs(self) -> Tensor:
        """Probabilities, [n, classes]; under `top:K` the hidden ones are 0 and `shown` tells which they are."""
        if "probs" in self.columns:
            return self.columns["probs"]
        if "top" in self.columns:
            values = self.columns["values"]
            return values.new_zeros(len(self), self.classes).scatter_(1, self.columns["top"], values)
        if "logits" in self.columns and self.classes > 1:
            return self.columns["logits"].softmax(1)
        raise self._hidden("probabilities", "probs")

    @property
    def logits(self) -> Tensor:
        """Logits, [n, classes]."""
        if "logits" in self.columns:
            return self.columns["logits"]
        raise self._hidden("logits", "logits")

    @property
    def gradients(self) -> Tensor:
        """Input gradients of the class outputs shown, [n, classes, *input_shape]; zero where `shown` is False."""
        if "gradients" not in self.columns:
            raise self._hidden("gradients", f"{self.view.base}+gradient")
        return self._of_classes(self.columns["gradients"])

    @property
    def explanation(self) -> Tensor:
        """Whatever the view explains: maps as [n, classes, ...], zero where `shown` is False; an input as [n, ...]."""
        explanation = self.view.explanation
        if explanation is None:
            raise self._hidden("explanations", f"{self.view}+gradient")
        shown = self.columns[explanation.column]
        return self._of_classes(shown) if explanation.a_map else shown

    def _of_classes(self, maps: Tensor) -> Tensor:
        classes = self._classes()
        if classes is None:
            return maps
        full = maps.new_zeros(len(self), self.classes, *maps.shape[2:])
        full[torch.arange(len(self))[:, None], classes] = maps
        return full

    @property
    def shown(self) -> Tensor:
        """Which class outputs the view shows, [n, classes] of booleans."""
        mask, classes = torch.zeros(len(self), self.classes, dtype=torch.bool), self._classes()
        return ~mask if classes is None else mask.scatter_(1, classes, True)

    def _classes(self) -> Tensor | None:
        return None if self.classes == 1 else shown_classes(self.view, self.columns)

    def _hidden(self, what: str, view: str) -> UsageError:
        return UsageError(f"the view '{self.view}' does not show {what}; ask through an oracle with view='{view}'")


def shown_classes(view: View, columns: dict[str, Tensor]) -> Tensor | None:
    """Which class each output shown belongs to, [n, shown]; None: all of them."""
    if view.kind == "top":
        return columns["top"]
    return columns["labels"][:, None] if view.kind == "labels" else None


def present(view: View, outputs: Tensor, kind: str) -> dict[str, Tensor]:
    """The columns `view` shows of the victim's `outputs`, which are logits, probs or labels as `kind` says."""
    if view.kind == "labels":
        return {"labels": outputs.long() if kind == "labels" else to_labels(outputs)}
    if view.kind == "logits":
        return {"logits": outputs}
    probs = outputs.softmax(1) if kind == "logits" else outputs
    if view.kind == "probs":
        return {"probs": probs if view.decimals is None else torch.round(probs, decimals=view.decimals)}
    assert view.k is not None
    values, top = probs.topk(view.k, dim=1)
    return {"top": top, "values": values}
