"""`train`: a network fitted by one of the techniques this package compares."""

from __future__ import annotations

from torch import Tensor, nn

from leakmeter.checkpoint import Checkpoint
from leakmeter.errors import UsageError
from leakmeter.progress import SILENT, Progress
from leakmeter.registry import Registry
from leakmeter.settings import checked
from leakmeter.training.loop import Recipe, fit
from leakmeter.training.technique import Technique

TECHNIQUES: Registry[type[Technique]] = Registry(
    "training technique",
    {
        "plain": "leakmeter.training.plain:Plain",
        "gaussian": "leakmeter.training.gaussian:Gaussian",
        "stability": "leakmeter.training.stability:Stability",
        "madry": "leakmeter.training.madry:Madry",
        "trades": "leakmeter.training.trades:Trades",
    },
)


def train(
    name: str,
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    *,
    epochs: int | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
    checkpoint: Checkpoint | None = None,
    **options: object,
) -> nn.Module:
    """Trains `model` in place and returns it in evaluation mode; the same seed gives the same weights.

    Args:
        name: plain, gaussian, stability, madry or trades.
        model: from inputs to logits.
        data: inputs and labels.
        epochs: how often each input is seen, with Adam and a cosine schedule; 10 unless said.
        recipe: everything about the optimisation, instead of `epochs`.
        seed: of the order, the noise and dropout.
        progress: where to show how far it is.
        checkpoint: where to leave the state, so that a killed training goes on.
        options: the technique's own settings, such as `sigma` and `gamma` (see its class).
    """
    if epochs is not None and recipe is not None:
        raise UsageError("expected epochs or a recipe, got both; put the epochs into the recipe")
    technique = checked(TECHNIQUES[name], options, f"{name} training")
    recipe = recipe or Recipe(epochs=10 if epochs is None else epochs, batch=128, schedule="cosine")
    return fit(model, data, technique, recipe, seed=seed, progress=progress, title=name, checkpoint=checkpoint)
