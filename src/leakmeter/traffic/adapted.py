"""A thief who knows the two-sample test (`mmd`): few natural pictures, distorted so that together they look natural.

It asks the natural ones first. Of many distorted ones of a class it then asks the one after which its queries of that
class lie, in the mean, nearest to its own pictures in a space of random waves (kernel herding; Chen, Welling and Smola
2010). The waves are its own: it does not know the owner's.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from leakmeter.detectors.likeness import Waves
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive, stream
from leakmeter.traffic.client import START, Client, spread
from leakmeter.victims.victim import Victim

_CHOICES = 50  # distorted pictures, of which one is asked
_BENT = 0.1  # how far a corner is moved, in half pictures


def adapted_thief(
    victim: Victim,
    own: Tensor,
    budget: int,
    *,
    name: str = "adapted",
    view: str = "probs",
    days: float = 5.0,
    seed: int = 0,
    start: float = START,
) -> Client:
    """Asks its own pictures first, then distorted ones.

    Args:
        victim: whom it copies.
        own: natural pictures, at least one.
        budget: how many queries.
        name: of the client.
        view: what it is shown.
        days: over which it asks.
        seed: of all that is drawn.
        start: of the first day.
    """
    own = own[:budget]
    labels = Oracle(victim, "labels", len(own)).query(own).labels
    x = torch.cat([own, herded(own, labels, budget - len(own), seed)])
    times = spread(len(x), days, stream(seed, "times", name), start)
    return Client(name, x, Oracle(victim, view, budget).query(x), times, attack="adapted")


def herded(own: Tensor, labels: Tensor, n: int, seed: int) -> Tensor:
    """So many distorted pictures, of classes as its own have them."""
    waves, draws = Waves.fitted(own, derive(seed, "waves")), stream(seed, "bent")
    seen = waves(own)
    places = {label: (labels == label).nonzero()[:, 0] for label in labels.bincount().nonzero()[:, 0].tolist()}
    sums = {label: seen[mine].sum(0) for label, mine in places.items()}
    counts = {label: len(mine) for label, mine in places.items()}
    asked = []
    for label in labels[torch.randint(len(own), (n,), generator=draws)].tolist():
        mine = places[label]
        made = _bent(own[mine[torch.randint(len(mine), (_CHOICES,), generator=draws)]], draws)
        reached, counts[label] = sums[label] + waves(made), counts[label] + 1
        best = int((reached / counts[label] - seen[mine].mean(0)).square().sum(1).argmin())
        sums[label] = reached[best]
        asked.append(made[best])
    return torch.stack(asked) if asked else own[:0]


def _bent(x: Tensor, draws: torch.Generator) -> Tensor:
    """Each picture turned, stretched and moved a little, within the range its own values have."""
    maps = torch.eye(2, 3) + _BENT * torch.randn(len(x), 2, 3, generator=draws)
    grid = F.affine_grid(maps, list(x.shape), align_corners=False)
    return F.grid_sample(x.float(), grid, align_corners=False).clamp(x.min(), x.max())
