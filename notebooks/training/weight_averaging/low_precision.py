"""Train with every number in eight bits: weights, activations, their errors, gradients and momentum (SWALP; Yang et al. 2019).

One step of low-precision SGD with Q for block floating point and stochastic rounding, momentum b:

    g = Q(gradient + decay w)        m = Q(b m + g)        w = Q(w - rate m)

Activations pass through Q going forward, and their errors through Q coming back, after every convolution and the last layer.
Averaging then happens in full precision, which is where the bits come back: the rounding errors of many steps cancel.

Weights have one block per filter, everything else one block per tensor. What stays in float32, as in the original's
experiments: the batch norms' arithmetic, the loss, and the average.
"""

import torch
from block_float import quantize, rounded
from torch import nn


def round_activations(model, bits=8):
    """Make every convolution and linear layer of the model round what it puts out, both ways; a list of handles to undo it."""
    layers = [layer for layer in model.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    return [layer.register_forward_hook(lambda _layer, _inputs, output: rounded(output, bits)) for layer in layers]


class LowPrecisionSGD(torch.optim.Optimizer):
    """SGD with momentum whose weights, gradients and momenta are block floating point of `bits` bits after each step.

    rate, momentum, decay as in `torch.optim.SGD`; rounding as in `quantize`. Raises ValueError for values that are not finite.
    """

    def __init__(self, parameters, lr, *, momentum=0.9, weight_decay=0.0, bits=8, rounding="stochastic", generator=None):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.round = lambda values: quantize(
            values, bits, rounding, axis=0 if values.dim() > 1 else None, generator=generator
        )
        with torch.no_grad():
            for parameter in (each for group in self.param_groups for each in group["params"]):
                parameter.copy_(self.round(parameter))

    @torch.no_grad()
    def step(self):
        """One step; parameters without a gradient stay."""
        for group in self.param_groups:
            for parameter in (each for each in group["params"] if each.grad is not None):
                gradient = self.round(parameter.grad + group["weight_decay"] * parameter)
                past = self.state[parameter].get("momentum")
                moved = gradient if past is None else self.round(group["momentum"] * past + gradient)
                self.state[parameter]["momentum"] = moved
                parameter.copy_(self.round(parameter - group["lr"] * moved))
