"""What the studies of STN share: networks trained with noise, their votes, and accuracy against radius."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from statistics import NormalDist, fmean
from typing import Any

import torch
from torch import Tensor, nn

from leakmeter.certificates import Certificate, certify
from leakmeter.certificates.counts_file import fingerprint
from leakmeter.certificates.smoothing import BOUNDS
from leakmeter.data.catalogue import load
from leakmeter.data.places import cache
from leakmeter.evaluation.intervals import exact
from leakmeter.seeds import stream
from leakmeter.studies import provenance
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import NONE, Row, share
from leakmeter.studies.strangers import resnet20, settle
from leakmeter.studies.victims import trained
from leakmeter.training.loop import Recipe

ALPHA = 0.001
SIGMAS = (0.5, 0.7, 1.0)
MODELS = {"mnist": "lenet", "cifar10": "resnet20"}
NOISY = ("gaussian", "stability")
RECIPE = Recipe(epochs=20, batch=128, lr=3e-3, schedule="cosine")
ADVERSARIAL = Recipe(epochs=5, batch=128, lr=2e-3, schedule="cyclic")
"""For Madry and TRADES, whose every step costs eleven."""
TUNING = Recipe(steps=100, batch=128, lr=1e-3, schedule="cosine")
"""For a network that others trained, and that learns to bear noise."""
_REHEARSAL = Recipe(steps=100, batch=128, lr=2e-3, schedule="cyclic")


def smoothed(
    settings: StudyOptions,
    technique: str,
    sigma: float = 0.0,
    *,
    seed: int = 0,
    data: str = "mnist",
    model: str | None = None,
    recipe: Recipe | None = None,
    first: int | None = None,
) -> nn.Module:
    """A small network trained for noise `sigma` where the technique knows noise; kept in the user's cache.

    On CIFAR-10 it is a stranger's ResNet-20, which is tuned for noise and otherwise left as it is. Stability training
    shows it clean and noisy images by turns; what answers sees noisy ones, so its norms are settled on these.
    """
    model = model or MODELS[data]
    if model == "resnet20" and technique not in NOISY:
        return resnet20().to(settings.device)
    options: dict[str, Any] = {"sigma": sigma} if technique in NOISY else {}
    usual = ADVERSARIAL if technique in ("madry", "trades") else TUNING if model == "resnet20" else RECIPE
    recipe = _REHEARSAL if settings.quick else recipe or usual
    where, progress = settings.data_dir, settings.progress
    options |= {"recipe": recipe, "data_dir": where, "progress": progress, "first": first}
    network = trained(data, model, seed=seed, technique=technique, **options)
    if model == "resnet20":
        x, draws = load(data, "train", where).x[:2000], stream(seed, "settle")
        settle(network, (part + sigma * torch.randn(part.shape, generator=draws) for part in torch.split(x, 200)))
    return network.to(settings.device)


class Bfloat16(nn.Module):
    """A network computed in bfloat16: faster to sample, and what is certified is this network, rounding and all."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.bfloat16()

    def forward(self, x: Tensor) -> Tensor:
        """The logits in float32."""
        out: Tensor = self.network(x.bfloat16())
        return out.float()


def images(settings: StudyOptions, count: int, data: str = "mnist") -> tuple[Tensor, Tensor]:
    """Every so-manieth image of the test split, and its class."""
    x, y = load(data, "test", settings.data_dir).labelled()
    step = len(x) // count
    return x[::step][:count], y[::step][:count]


def votes(settings: StudyOptions, network: nn.Module, x: Tensor, sigma: float, n: int, *, seed: int = 0) -> Certificate:
    """The certificate under the tight bound; its votes are kept in the user's cache, for every study that asks."""
    path = cache() / "votes" / f"{provenance.fingerprint()}-{fingerprint(network, x)[:16]}-{sigma:g}-{n}-{seed}.npz"
    return certify(fused(network), x, sigma=sigma, n=n, alpha=ALPHA, seed=seed, path=path, progress=settings.progress)


def fused(network: nn.Module) -> nn.Module:
    """The same network with its layers fused where there is a compiler: twice as fast, equal but for rounding."""
    return torch.compile(network) if shutil.which("g++") else network  # type: ignore[return-value]


def describe(certificate: Certificate, y: Tensor, radii: Sequence[float]) -> dict[str, Any]:
    """Certified accuracy at each radius under every bound, all from the same votes."""
    return {
        "images": len(y),
        "n": int(certificate.counts[0].sum()),
        "alpha": certificate.alpha,
        "sigma": certificate.sigma,
        "abstained": (certificate.labels < 0).double().mean().item(),
        "p_a": certificate.p_a(y),
        "bounds": {bound: _under(certificate.recompute(bound=bound), y, radii) for bound in BOUNDS},
    }


def _under(certificate: Certificate, y: Tensor, radii: Sequence[float]) -> dict[str, Any]:
    return {
        "average_radius": certificate.average_radius(y),
        "certified": [
            {
                "radius": radius,
                "accuracy": certificate.accuracy(y, radius),
                "interval": exact(int(certificate.holds(y, radius).sum()), len(y)).model_dump(),
                "sure": certificate.sure_accuracy(y, radius),
            }
            for radius in radii
        ],
    }


def certified_row(
    name: str, cells: list[dict[str, Any]], radius: float, bound: str, *, paper: float | None = None
) -> Row:
    """Certified accuracy at a radius over seeds, beside the accuracy of the smoothed classifier."""
    points = [_at(cell, radius, bound)["accuracy"] for cell in cells]
    natural = fmean(cell["natural_smoothed"] for cell in cells)
    budget = f"{cells[0]['n']:,} votes, {cells[0]['images']:,} images, {natural:.1%} without attack"
    return share(f"{name}: certified at {radius:g}, {bound}", points, cells[0]["images"], budget, paper=paper)


def radius_row(name: str, cells: list[dict[str, Any]], goal: float | None = None) -> Row:
    """The average radius, and how p_A is spread: an average alone tells little of it.

    The tight radius is σ Φ⁻¹(p_A), so that a radius reached is a p_A reached, at the confidence of the certificate.
    """
    mean = fmean(cell["bounds"]["tight"]["average_radius"] for cell in cells)
    points = cells[0]["bounds"]["tight"]["certified"]
    radii = [point["radius"] for point in points][:: max(1, len(points) // 5)]
    reached = [fmean(_at(cell, radius, "tight")["accuracy"] for cell in cells) for radius in radii]
    chances = [NormalDist().cdf(radius / cells[0]["sigma"]) for radius in radii]
    spread = ", ".join(f"{p:.4f} in {part:.1%}" for p, part in zip(chances, reached, strict=True))
    budget = f"{cells[0]['n']:,} votes, {cells[0]['images']:,} images; p_A over {spread}"
    met = None if goal is None else mean >= goal
    return Row(
        f"{name}: average radius", f"{mean:.3f}", budget, len(cells), NONE if goal is None else f"goal {goal}", met
    )


def _at(cell: dict[str, Any], radius: float, bound: str) -> dict[str, Any]:
    (point,) = (each for each in cell["bounds"][bound]["certified"] if each["radius"] == radius)
    return dict(point)


def measured(
    settings: StudyOptions,
    technique: str,
    sigma: float,
    *,
    count: int,
    n: int,
    radii: Sequence[float],
    seed: int,
    data: str = "mnist",
    bfloat16: bool = False,
    **training: Any,
) -> dict[str, Any]:
    """A network trained and certified: accuracy against radius, and what it answers without an attack."""
    network = smoothed(settings, technique, sigma, seed=seed, data=data, **training)
    if bfloat16:
        network = Bfloat16(network).eval()
    x, y = images(settings, count, data)
    certificate = votes(settings, network, x, sigma, n, seed=seed)
    return {
        **describe(certificate, y, radii),
        "natural_base": clean_accuracy(settings, network, data),
        "natural_smoothed": majority_accuracy(certificate, y),
    }


def clean_accuracy(settings: StudyOptions, network: nn.Module, data: str = "mnist") -> float:
    """The accuracy of the network itself, without noise, on the whole test split."""
    x, y = load(data, "test", settings.data_dir).labelled()
    with torch.inference_mode():
        labels = [network(x[at : at + 500]).argmax(1) for at in range(0, len(x), 500)]
    return float((torch.cat(labels) == y).double().mean())


def majority_accuracy(certificate: Certificate, y: Tensor) -> float:
    """The accuracy of algorithm 1 without abstaining: the class with most votes."""
    return float((certificate.counts.argmax(1) == y).double().mean())
