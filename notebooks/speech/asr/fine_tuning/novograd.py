"""NovoGrad and the cosine schedule: the optimiser that trained QuartzNet.

NovoGrad (Ginsburg et al. 2019, arXiv 1905.11286) keeps one second moment per *tensor*, where
Adam keeps one per weight. For the gradient g of a tensor w, with beta1 = 0.8, beta2 = 0.5,
decay d = 1e-3:

    v_1 = |g_1|^2       v_t = beta2 v_(t-1) + (1 - beta2) |g_t|^2       one number per tensor
    m_t = beta1 m_(t-1) + g_t / (sqrt(v_t) + 1e-8) + d w_t
    w_(t+1) = w_t - rate m_t

The gradient's length is divided away, so that every layer moves at one rate. `NovoGrad` does
all tensors in a few calls (torch's foreach functions) in place of a dozen for each."""

import math

import torch

EPSILON = 1e-8


class NovoGrad(torch.optim.Optimizer):
    """A torch optimiser with NovoGrad's update, for all tensors of a group at once.
    `weight_decay` acts on every tensor given, as NeMo's. Parameters of one group must share
    device and dtype; those without a gradient are skipped. Raises ValueError for a negative
    rate or decay and for betas outside [0, 1)."""

    def __init__(self, params, lr=0.01, betas=(0.8, 0.5), weight_decay=1e-3):
        if lr < 0 or weight_decay < 0:
            raise ValueError(f"{lr=}, {weight_decay=}: neither may be negative")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas={betas}: shares of the past that is kept, in [0, 1)")
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        """None; moves the weights."""
        for group in self.param_groups:
            if weights := [w for w in group["params"] if w.grad is not None]:
                self._move(weights, *group["betas"], group["lr"], group["weight_decay"])

    def _move(self, weights, beta1, beta2, rate, decay):
        grads = [w.grad for w in weights]
        squares = torch._foreach_pow(torch._foreach_norm(grads), 2)
        for w, square in zip(weights, squares, strict=True):
            if not self.state[w]:
                self.state[w].update(first=torch.zeros_like(w), second=square.clone())
        firsts = [self.state[w]["first"] for w in weights]
        seconds = [self.state[w]["second"] for w in weights]
        torch._foreach_lerp_(seconds, squares, 1 - beta2)  # at first v = square: nothing moves
        lengths = torch._foreach_sqrt(seconds)
        torch._foreach_add_(lengths, EPSILON)
        torch._foreach_mul_(firsts, beta1)
        torch._foreach_add_(firsts, torch._foreach_div(grads, lengths))
        if decay:
            torch._foreach_add_(firsts, weights, alpha=decay)
        torch._foreach_add_(weights, firsts, alpha=-rate)


def novograd_reference(weights, gradients, lr=0.01, betas=(0.8, 0.5), weight_decay=1e-3):
    """One tensor's weights after each of the gradients (a list of arrays of its shape), by the
    equations above in float64: a list of tensors."""
    w = torch.as_tensor(weights, dtype=torch.float64)
    first, second, path = torch.zeros_like(w), None, []
    for g in gradients:
        g = torch.as_tensor(g, dtype=torch.float64)
        square = float((g * g).sum())
        second = square if second is None else betas[1] * second + (1 - betas[1]) * square
        first = betas[0] * first + g / (math.sqrt(second) + EPSILON) + weight_decay * w
        w = w - lr * first
        path.append(w)
    return path


def cosine_rate(step, steps, peak, warmup=0):
    """The learning rate of update `step` (from 0): a linear rise over `warmup` updates, then
    half a cosine to zero; the rise begins at peak / (warmup + 1), as NeMo's.

    >>> [round(cosine_rate(step, 5, 1.0, warmup=1), 3) for step in range(5)]
    [0.5, 1.0, 0.854, 0.5, 0.146]

    Raises ValueError for a step outside 0...steps or a warm-up that fills all steps."""
    if not 0 <= step <= steps or not 0 <= warmup < max(1, steps):
        need = "needed are 0 <= step <= steps and warmup < steps"
        raise ValueError(f"step {step} of {steps} with warmup={warmup}: {need}")
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))
