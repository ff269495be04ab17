"""`load_victim`: from whatever the owner has to a `Victim` with a full spec.

Facts are taken from keywords, then from the object, then from one small probe (never of a remote victim, whose answers
count); what is still unknown is asked for by name. Pickles are never opened: they run code.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leakmeter.errors import UsageError, first_line
from leakmeter.registry import did_you_mean
from leakmeter.victims.remote.settings import RemoteSettings, make_settings
from leakmeter.victims.remote.victim import RemoteVictim, is_remote, open_endpoint
from leakmeter.victims.spec import OUTPUTS, Outputs, VictimSpec
from leakmeter.victims.victim import FunctionVictim, ModuleVictim, Victim

Bound = float | Sequence[float] | np.ndarray | Tensor | None
_ASK: Any = object()  # "not given", where None already means unbounded
_SAFE = "package.module:factory, a torch.export .pt2 file, an .onnx file or a .safetensors file leakmeter wrote"
_PICKLES = {".pt", ".pth", ".pkl", ".pickle", ".joblib", ".bin", ".ckpt"}


def load_victim(
    source: object,
    *,
    input_shape: Sequence[int] | None = None,
    low: Bound = _ASK,
    high: Bound = _ASK,
    classes: int | None = None,
    outputs: str | None = None,
    device: torch.device | str = "cpu",
    name: str | None = None,
    remote: RemoteSettings | Mapping[str, Any] | None = None,
) -> Victim:
    """Loads the model to audit.

    Args:
        source: an `nn.Module`, `"package.module:factory"` or `"file.py:factory"` (runs that code), the path of a `.pt2`
            or `.onnx` file or of a `.safetensors` file that leakmeter wrote, a fitted scikit-learn classifier, a
            function from float arrays to arrays, `"http://127.0.0.1:8000/v2/models/NAME"` (Open Inference Protocol), or
            the path of a `.toml` file that describes another JSON API.
        input_shape: the shape of one input, such as `(1, 28, 28)`.
        low: the lowest value an input may take, one number or one a feature; None: unbounded.
        high: the highest value.
        classes: the number of output columns.
        outputs: what the model returns: `"logits"`, `"probs"` or `"labels"`.
        device: where an `nn.Module` computes.
        name: what reports call it.
        remote: how to ask a victim over HTTP, and who allowed it; see `RemoteSettings`.
    """
    if isinstance(source, str | Path) and is_remote(str(source)):
        endpoint = open_endpoint(str(source), make_settings(remote))
        known = SimpleNamespace(**endpoint.speech.facts)
        facts = _Facts(known, input_shape, low, high, classes, outputs, name or str(source))
        return facts.trust(lambda spec: RemoteVictim(endpoint, spec))
    if remote is not None:
        raise UsageError("expected remote settings only for an http:// address or a .toml description")
    if isinstance(source, str | Path):
        name = name or str(source)
        source = _from_text(str(source))
    if isinstance(source, Victim):
        return source
    facts = _Facts(source, input_shape, low, high, classes, outputs, name)
    if isinstance(source, nn.Module):
        module = source
        with suppress(NotImplementedError):  # an exported program has its mode built in
            module.eval()
        return facts.finish(lambda spec: ModuleVictim(module, spec, device))
    if hasattr(source, "predict") and hasattr(source, "classes_"):
        from leakmeter.victims.estimator import estimator_function

        function, declared = estimator_function(source)
        facts.outputs = facts.outputs or declared
        facts.classes = facts.classes or len(source.classes_)
        facts.dtype = torch.float64
        return facts.finish(lambda spec: FunctionVictim(function, spec))
    if callable(source):
        call: Callable[[np.ndarray], Any] = source
        return facts.finish(lambda spec: FunctionVictim(call, spec))
    raise UsageError(
        f"expected an nn.Module, a fitted classifier, a function or one of {_SAFE} as the victim, "
        f"got {type(source).__name__}"
    )


def _from_text(text: str) -> object:
    path, suffix = Path(text), Path(text).suffix.lower()
    if suffix in _PICKLES:
        raise UsageError(f"{text} may be a pickle, and opening one runs whatever code is in it; give {_SAFE} instead")
    if suffix == ".pt2":
        from leakmeter.victims.exported import load_exported

        return load_exported(path)
    if suffix == ".safetensors":
        from leakmeter.models.saved import load_network

        return load_network(path)
    if suffix == ".onnx":
        from leakmeter.victims.onnx import load_onnx

        return load_onnx(path)
    if ":" in text:
        from leakmeter.victims.factory import call_factory

        return call_factory(text)
    raise UsageError(f"expected {_SAFE} as the victim, got '{text}'")


class _Facts:
    """What is known of the victim so far; `finish` probes for the rest."""

    def __init__(
        self,
        source: object,
        input_shape: Sequence[int] | None,
        low: Bound,
        high: Bound,
        classes: int | None,
        outputs: str | None,
        name: str | None,
    ) -> None:
        self.input_shape = input_shape or getattr(source, "input_shape", None) or _shape_of(source)
        self.low = low if low is not _ASK else getattr(source, "low", _ASK)
        self.high = high if high is not _ASK else getattr(source, "high", _ASK)
        self.classes = classes if classes is not None else _declared(source, "classes", int)
        self.outputs: Any = outputs or _declared(source, "outputs", str)
        self.name = name or _declared(source, "name", str) or type(source).__name__
        self.dtype = _dtype_of(source)
        if self.outputs is not None and self.outputs not in OUTPUTS:
            raise UsageError(
                f"expected outputs to be one of {', '.join(OUTPUTS)}, got '{self.outputs}'"
                f"{did_you_mean(str(self.outputs), OUTPUTS)}"
            )
        if self.classes is not None and self.classes < 1:
            raise UsageError(f"expected classes to be at least 1, got {self.classes}")

    def finish(self, build: Callable[[VictimSpec], Victim]) -> Victim:
        draft = self._draft()
        answer = self._probe(build(draft), draft)
        outputs = self.outputs or _outputs_of(answer)
        return build(replace(draft, classes=self._columns(answer, outputs), outputs=outputs))

    def trust(self, build: Callable[[VictimSpec], Victim]) -> Victim:
        """Without a probe: a remote victim's answers are counted, and before there is a ledger none is asked for."""
        if self.outputs is None or self.classes is None:
            raise UsageError(
                "the server does not say what its model returns; pass outputs ('logits', 'probs' or 'labels') and "
                "classes, such as outputs='probs', classes=10"
            )
        return build(self._draft())

    def _draft(self) -> VictimSpec:
        if self.input_shape is None:
            raise UsageError(
                "the shape of one input cannot be read off this victim; pass input_shape=(1, 28, 28), "
                "on the command line --input-shape 1,28,28"
            )
        try:
            shape = tuple(operator.index(side) for side in self.input_shape)
        except TypeError as error:
            raise UsageError(f"expected input_shape to hold whole numbers, got {self.input_shape!r}") from error
        if not shape or any(side < 1 for side in shape):
            raise UsageError(f"expected input_shape to hold sizes of at least 1, got {shape}")
        missing = [side for side, bound in (("low", self.low), ("high", self.high)) if bound is _ASK]
        if missing:
            raise UsageError(
                f"the range of the inputs cannot be read off this victim; pass {' and '.join(missing)}, "
                f"for example low=0.0, high=1.0 (None: unbounded), on the command line --low 0 --high 1"
            )
        low, high = _bound("low", self.low, shape, self.dtype), _bound("high", self.high, shape, self.dtype)
        if low is not None and high is not None and not bool((low < high).all()):
            raise UsageError("expected low below high for every feature; check the two bounds")
        return VictimSpec(str(self.name), shape, low, high, self.classes or 2, self.outputs or "logits", self.dtype)

    def _probe(self, victim: Victim, draft: VictimSpec) -> Tensor:
        points = draft.sample(4, torch.Generator().manual_seed(0))
        try:
            with torch.no_grad():
                answer = victim.compute(points)
        except Exception as error:
            raise UsageError(
                f"the victim raised {type(error).__name__} on a probe of shape {tuple(points.shape)}: "
                f"{first_line(error)}; check input_shape"
            ) from error
        if not isinstance(answer, Tensor) or answer.dim() not in (1, 2) or len(answer) != len(points):
            got = f"shape {tuple(answer.shape)}" if isinstance(answer, Tensor) else type(answer).__name__
            raise UsageError(f"expected one row of outputs for each of {len(points)} inputs, got {got}")
        if answer.dtype.is_floating_point and not torch.isfinite(answer).all():
            raise UsageError("the victim answered a probe with NaN or infinity; check its weights and the input box")
        return answer

    def _columns(self, answer: Tensor, outputs: str) -> int:
        if outputs == "labels":
            if self.classes is None:
                raise UsageError(
                    "a victim that returns labels does not say how many there are; pass classes=10, --classes 10"
                )
            if answer.dim() != 1:
                raise UsageError(f"expected one label a row, got outputs with {answer.shape[1]} columns")
            return self.classes
        if answer.dim() == 1:
            raise UsageError(f"expected {outputs} of shape (n, classes), got one number a row; pass outputs='labels'")
        if self.classes is not None and answer.shape[1] != self.classes:
            raise UsageError(f"expected {self.classes} classes, got outputs with {answer.shape[1]} columns")
        if answer.shape[1] == 1 and (outputs == "probs" or (self.outputs is None and _in_unit(answer))):
            raise UsageError(
                "expected a column for each class, got one that may be a probability; return both, 1 - p and p, "
                "or pass outputs='logits' if it is a score whose sign decides"
            )
        if outputs == "probs" and not _is_distribution(answer):
            raise UsageError("expected probabilities that are positive and add up to 1; pass outputs='logits'")
        return answer.shape[1]


def _bound(side: str, bound: Bound, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor | None:
    if bound is None:
        return None
    try:
        tensor = torch.as_tensor(bound, dtype=dtype)
        torch.broadcast_to(tensor, shape)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"expected {side} to be a number or one number a feature of shape {shape}") from error
    if not torch.isfinite(tensor).all():
        raise UsageError(f"expected {side} to be finite; use {side}=None for an unbounded side")
    return tensor


def _shape_of(source: object) -> tuple[int, ...] | None:
    if isinstance(source, nn.Sequential) and len(source) and isinstance(source[0], nn.Linear):
        return (source[0].in_features,)
    if isinstance(source, nn.Linear):
        return (source.in_features,)
    features = getattr(source, "n_features_in_", None)
    return None if features is None else (int(features),)


def _dtype_of(source: object) -> torch.dtype:
    declared = getattr(source, "dtype", None)
    if isinstance(declared, torch.dtype):
        return declared
    first = next(source.parameters(), None) if isinstance(source, nn.Module) else None
    return first.dtype if first is not None and first.dtype.is_floating_point else torch.float32


def _outputs_of(answer: Tensor) -> Outputs:
    if answer.dim() == 1 and not answer.dtype.is_floating_point:
        return "labels"
    return "probs" if answer.dim() == 2 and answer.shape[1] > 1 and _is_distribution(answer) else "logits"


def _declared(source: object, name: str, kind: type) -> Any:
    """What the object says of itself, unless its attribute of that name is something else: `classes` may be names."""
    value = getattr(source, name, None)
    return value if isinstance(value, kind) else None


def _in_unit(answer: Tensor) -> bool:
    return bool(((answer >= 0) & (answer <= 1)).all())


def _is_distribution(answer: Tensor) -> bool:
    rows = answer.double()
    return bool((rows >= 0).all()) and bool(((rows.sum(1) - 1).abs() < 1e-3).all())
