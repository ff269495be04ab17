"""What is handed over: the network found, as an ordinary module and in the victim's own form where that is known."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.output import Known
from leakmeter.extraction.exact.stack import Layer, Stack


class Copy(nn.Module):
    """output(relu(hidden(x))) + skip(x), in float64; without units `output` is the whole model.

    `skip` is None where the victim's own orientation of every unit could be told.
    """

    def __init__(self, hidden: nn.Linear | None, output: nn.Linear, skip: nn.Linear | None) -> None:
        super().__init__()
        self.hidden, self.output, self.skip = hidden, output, skip

    def forward(self, x: Tensor) -> Tensor:
        """The victim's logits (under a probability view up to one number a row), in the precision of `x`."""
        flat = x.flatten(1).to(self.output.weight)
        outputs: Tensor = self.output(flat if self.hidden is None else torch.relu(self.hidden(flat)))
        if self.skip is not None:
            outputs = outputs + self.skip(flat)
        return outputs.to(x.dtype)


class DeepCopy(nn.Module):
    """Linear layers with ReLUs between, in float64; units named by `passing` (one mask a layer) have none."""

    def __init__(self, hidden: list[nn.Linear], passing: list[Tensor], output: nn.Linear) -> None:
        super().__init__()
        self.layers, self.output = nn.ModuleList(hidden), output
        for i, mask in enumerate(passing):
            self.register_buffer(f"passing{i}", mask.clone())

    @property
    def hidden(self) -> nn.Linear:
        """The first layer."""
        first = self.layers[0]
        assert isinstance(first, nn.Linear)
        return first

    def forward(self, x: Tensor) -> Tensor:
        """The victim's logits (under a probability view up to one number a row), in the precision of `x`."""
        y = x.flatten(1).to(self.output.weight)
        for i, layer in enumerate(self.layers):
            z = layer(y)
            y = torch.where(self.get_buffer(f"passing{i}"), z, torch.relu(z))
        outputs: Tensor = self.output(y)
        return outputs.to(x.dtype)


def layers_of(copy: nn.Module) -> Stack:
    """The hidden layers of a copy that was handed over."""
    if isinstance(copy, DeepCopy):
        hidden = [layer for layer in copy.layers if isinstance(layer, nn.Linear)]
        passing = [copy.get_buffer(f"passing{i}").cpu() for i in range(len(hidden))]
    else:
        hidden = [copy.hidden] if isinstance(copy, Copy) and copy.hidden is not None else []
        passing = [torch.zeros(layer.out_features, dtype=torch.bool) for layer in hidden]
    layers = [Layer.of(layer.weight.detach().cpu(), layer.bias.detach().cpu()) for layer in hidden]
    return Stack([replace(layer, linear=linear) for layer, linear in zip(layers, passing, strict=True)])


def hand_over_deep(known: Known, contrasts: Tensor) -> Copy | DeepCopy:
    """Layers as a module, its outputs turned back from contrasts [K, C] into C classes."""
    output = linear(contrasts.T @ known.weight, contrasts.T @ known.bias)
    if not known.stack.layers:
        return Copy(None, output, None)
    hidden = [linear(layer.weight, layer.bias) for layer in known.stack.layers]
    return DeepCopy(hidden, [layer.linear for layer in known.stack.layers], output)


def hand_over(network: OneHidden, contrasts: Tensor) -> Copy:
    """The network as a module, its outputs turned back from contrasts [K, C] into C classes."""
    back = contrasts.T
    if network.units == 0:
        return Copy(None, linear(back @ network.skip, back @ network.shift), None)
    turned = orientations(network)
    if turned is None:
        skip = linear(back @ network.skip, None)
        hidden = linear(network.normals, -network.offsets)
        return Copy(hidden, linear(back @ network.weights, back @ network.shift), skip)
    sign = 1 - 2 * turned
    shift = network.shift - network.weights @ (turned * network.offsets)
    hidden = linear(network.normals * sign[:, None], -network.offsets * sign)
    return Copy(hidden, linear(back @ network.weights, back @ shift), None)


def signed_copy(Z: Tensor, s: Tensor) -> Copy:
    """f(x) = [relu(Zx), relu(-Zx)] s with one of s_i and s_(h+i) zero, as the paper's Algorithm 1 leaves it."""
    ahead, back = s.reshape(2, len(Z))
    hidden = linear(torch.where(ahead != 0, 1.0, -1.0)[:, None] * Z, torch.zeros_like(ahead))
    return Copy(hidden, linear((ahead + back)[None], torch.zeros_like(ahead[:1])), None)


def orientations(network: OneHidden, tolerance: float = 1e-3) -> Tensor | None:
    """Which units the victim has the other way round, as 0 or 1 each; None where that cannot be told.

    Turning unit i round subtracts w_i n_i^T from the gradient everywhere, so a victim without a skip connection has
    skip = -(sum of w_i n_i^T over turned units). This is the paper's step 1b without a query; it has one answer if
    these matrices are linearly independent, and none if units that never switched hide in the skip.
    """
    if network.units > network.skip.numel():
        return None
    gram = (network.weights.T @ network.weights) * (network.normals @ network.normals.T)
    target = -torch.einsum("ci,cd,id->i", network.weights, network.skip, network.normals)
    turned: Tensor = torch.linalg.lstsq(gram, target).solution.round()
    rest = network.skip + (network.weights * turned) @ network.normals
    if bool(((turned < 0) | (turned > 1)).any()) or float(rest.norm()) > tolerance * float(network.skip.norm()):
        return None
    return turned


def linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A layer of these weights."""
    # skip_init: a layer that is filled anyway must not draw from the global generator.
    layer: nn.Linear = nn.utils.skip_init(  # type: ignore[no-untyped-call]
        nn.Linear, weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype, device=weight.device
    )
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer
