"""The two optimisers of Wide & Deep: FTRL-proximal for the wide part, RMSprop for the deep.

FTRL-proximal (McMahan et al. 2013, algorithm 1), weight by weight, in the parameterisation of
TensorFlow's `Ftrl`, whose learning-rate power is -1/2:

    n' = n + g²,   σ = (√n' - √n) / lr,   z' = z + g - σ w
    w' = 0 if |z'| ≤ λ1, else (sign(z') λ1 - z') / ((β + √n') / lr + 2 λ2)

Against the paper, λ2 counts twice, β is 0 by default (1 there) and n starts at 0.1 (0 there).

RMSprop (Hinton, lecture 6e, 2012):

    v' = ρ v + (1 - ρ) g²,   w' = w - lr g / (√v' + ε)

This is torch's formula and that of TensorFlow 2's `RMSprop` at the article's time, with other
defaults. torch's refuses sparse gradients; TensorFlow decays all of v at every step and moves
only the rows that have a gradient. Ours moves the same rows and lets the others' decay wait:
ρ^(steps missed) when a row is next touched. That is the same v without a pass over the table.

Shapes: every tensor follows its weight's; a sparse gradient holds rows of axis 0.
"""

import torch


def rows_of(grad, wait=None):
    """(rows, their gradients) of a sparse gradient, which may name a row more than once.

    wait: sum them into one entry per row, as `coalesce` does. How many rows differ a GPU alone
    knows, so a host that asks waits for it, in the middle of a step. None therefore waits on a
    CPU only. Without waiting as many entries come back as went in, sorted; those of one row all
    have its sum, and what a step writes for them is equal.
    """
    if not grad.is_cuda if wait is None else wait:
        grad = grad.coalesce()
        return grad.indices()[0], grad.values()
    rows, order = grad._indices()[0].sort()
    values = grad._values()[order]
    group = (rows.diff(prepend=rows[:1]) != 0).cumsum(0)
    return rows, torch.zeros_like(values).index_add_(0, group, values)[group]


class Ftrl(torch.optim.Optimizer):
    """FTRL-proximal with TensorFlow's names: `Ftrl(model.wide.parameters(), lr=0.02)`.

    Gradients may be dense or sparse. A row without a gradient keeps n and z, hence w, so both
    ways take equal steps as long as lr stays; when lr changes, a dense gradient of 0 computes w
    anew, and a row that a sparse one lacks waits for its next. Weights should start at 0, as z
    does: a weight that starts elsewhere jumps to 0 at its first dense gradient of 0 (in
    TensorFlow too). Raises ValueError for a negative option and for a start at 0/0.
    """

    def __init__(self, params, lr=0.02, l1=0.0, l2=0.0, beta=0.0, initial_accumulator=0.1):
        given = {"lr": lr, "l1": l1, "l2": l2, "beta": beta}
        given["initial_accumulator"] = initial_accumulator
        if lr <= 0 or min(given.values()) < 0:
            raise ValueError(f"{given}: lr has to be positive, the others 0 or more")
        if not (l2 or beta or initial_accumulator):
            raise ValueError(f"{given}: l2, beta or the accumulator must be positive, or 0/0")
        super().__init__(params, given)

    @torch.no_grad()
    def step(self):
        """None; every parameter with a gradient has moved."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._step(weight, weight.grad, group)

    def _step(self, weight, grad, group):
        state = self.state[weight]
        if not state:
            state["n"] = torch.full_like(weight, group["initial_accumulator"])
            state["z"] = torch.zeros_like(weight)
        n, z, w = state["n"], state["z"], weight
        if grad.is_sparse:
            rows, grad = rows_of(grad)
            n, z, w = n[rows], z[rows], weight[rows]
        before = n.sqrt()
        after = n.addcmul_(grad, grad).sqrt()
        z.add_(grad).addcmul_(after - before, w, value=-1 / group["lr"])
        scale = after.add_(group["beta"]).div_(group["lr"]).add_(2 * group["l2"])
        shrunk = z - z.clamp(-group["l1"], group["l1"]) if group["l1"] else z
        if weight.grad.is_sparse:
            state["n"][rows], state["z"][rows], weight[rows] = n, z, -shrunk / scale
        else:
            torch.div(shrunk, scale, out=weight).neg_()


class RmsProp(torch.optim.Optimizer):
    """RMSprop whose gradients may be dense or sparse, with equal steps.

    >>> RmsProp(model.deep.parameters(), lr=1.2e-4, rho=0.5)

    A weight has to keep its kind of gradient. Raises ValueError for lr or eps that are not
    positive, rho outside 0 to below 1, and a gradient of another kind than before.
    """

    def __init__(self, params, lr=1.2e-4, rho=0.5, eps=1e-7):
        if lr <= 0 or eps <= 0 or not 0 <= rho < 1:
            raise ValueError(
                f"lr={lr}, eps={eps}, rho={rho}: lr and eps above 0, rho from 0 to below 1"
            )
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps})

    @torch.no_grad()
    def step(self):
        """None; every parameter with a gradient has moved."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            for weight in weights:
                self._prepare(weight)
                if weight.grad.is_sparse:
                    self._sparse_step(weight, group)
            if dense := [weight for weight in weights if not weight.grad.is_sparse]:
                self._dense_step(dense, group)

    def _prepare(self, weight):
        state, sparse = self.state[weight], weight.grad.is_sparse
        if not state:
            state["v"] = torch.zeros_like(weight)
            if sparse:
                state["step"] = 0
                state["seen"] = torch.zeros(
                    len(weight), dtype=torch.int32, device=weight.device
                )
        if sparse != ("seen" in state):
            raise ValueError("a gradient turned from sparse to dense or back; keep one kind")

    def _dense_step(self, weights, group):
        grads = [weight.grad for weight in weights]
        v = [self.state[weight]["v"] for weight in weights]
        torch._foreach_mul_(v, group["rho"])
        torch._foreach_addcmul_(v, grads, grads, value=1 - group["rho"])
        roots = torch._foreach_sqrt(v)
        torch._foreach_add_(roots, group["eps"])
        torch._foreach_addcdiv_(weights, grads, roots, value=-group["lr"])

    def _sparse_step(self, weight, group):
        state, rho = self.state[weight], group["rho"]
        state["step"] += 1
        rows, grad = rows_of(weight.grad)
        missed = state["step"] - state["seen"][rows]
        decay = torch.pow(rho, missed.to(weight.dtype))
        decay = decay.reshape(-1, *[1] * (weight.dim() - 1))
        v = (state["v"][rows] * decay).addcmul_(grad, grad, value=1 - rho)
        state["v"][rows] = v
        state["seen"][rows] = state["step"]
        roots = v.sqrt_().add_(group["eps"])
        weight[rows] = weight[rows].addcdiv_(grad, roots, value=-group["lr"])
