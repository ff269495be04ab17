"""Models under audit: whatever computes answers, behind one face. Each kind of source is one file, registered here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakmeter.registry import Registry

if TYPE_CHECKING:
    from leakmeter.victims.kind import VictimKind

# General kinds first: the last that is known is asked first, so that a package can take what these would.
VICTIMS: Registry[type[VictimKind]] = Registry(
    "kind of victim",
    {
        "function": "leakmeter.victims.function:FunctionKind",
        "estimator": "leakmeter.victims.estimator:EstimatorKind",
        "module": "leakmeter.victims.module:ModuleKind",
        "factory": "leakmeter.victims.factory:FactoryKind",
        "exported": "leakmeter.victims.exported:ExportedKind",
        "onnx": "leakmeter.victims.onnx:OnnxKind",
        "trees": "leakmeter.victims.trees:TreesKind",
        "skops": "leakmeter.victims.skops:SkopsKind",
        "safetensors": "leakmeter.victims.safetensors:SafetensorsKind",
        "remote": "leakmeter.victims.remote.victim:RemoteKind",
    },
    group="leakmeter.victims",
)
