"""Adam with both moments in 8 bits: a quarter of the optimiser's memory.

Each moment is cut into blocks of 2,048 values. A block keeps its largest magnitude as one float
and each value as one byte, the place of the nearest entry in a table (Dettmers et al. 2022,
"8-bit Optimizers via Block-wise Quantization"). The table is theirs, dynamic quantisation: a
byte has a decimal exponent, and the fewer of its bits the exponent takes, the more are left for
the fraction. The second moment is never negative, so that its table spends the sign's bit on
the fraction. Tensors of fewer than 4,096 values keep 32 bits, as theirs do.

Ours differs in three things. A second moment above zero is stored as the table's first entry
above zero at least: rounded to zero it would leave epsilon alone to divide by. A tensor is
updated slice by slice, each of 65,536 values, in PyTorch's own calls: one kernel of theirs does
it block by block. There is no stable embedding layer, since there is no embedding.
"""

import functools

import torch

BLOCK = 2048
SMALL = 4096
SLICE = 32 * BLOCK  # values whose moments exist in 32 bits at one time


@functools.cache
def table(signed):
    """The 256 values of dynamic quantisation, float32, ascending, from -0.993 or 0 to 1.

    For e = 0 to 6 the interval from 0.1 to 1 is cut into 2**e equal parts (2**(e + 1) without a
    sign); their middles times 10**(e - 6) are entries. Zero and 1 come beside them.
    """
    found = [torch.zeros(1), torch.ones(1)]
    for exponent in range(7):
        edges = torch.linspace(0.1, 1, 2 ** (exponent + (not signed)) + 1)
        middles = (edges[1:] + edges[:-1]) / 2 * 10.0 ** (exponent - 6)
        found += [middles, -middles] if signed else [middles]
    return torch.cat(found).sort().values


def pack(x, signed):
    """(codes uint8, x's length padded to whole blocks; scales float32, one a block)."""
    flat = torch.nn.functional.pad(x.flatten(), (0, -x.numel() % BLOCK)).view(-1, BLOCK)
    scales = flat.abs().amax(1, keepdim=True)
    share = flat / torch.where(scales > 0, scales, torch.ones_like(scales))
    entries = table(signed).to(x.device)
    codes = torch.bucketize(share, (entries[1:] + entries[:-1]) / 2, out_int32=True)
    if not signed:
        codes = torch.where(share > 0, codes.clamp(min=1), codes)
    return codes.to(torch.uint8).flatten(), scales.flatten()


def unpack(codes, scales, shape, signed):
    """The float32 tensor of `shape` that `pack` kept, each value the nearest of the table."""
    entries = table(signed).to(codes.device)
    flat = entries[codes.view(-1, BLOCK).int()] * scales[:, None]
    return flat.flatten()[: shape.numel()].view(shape)


class ByteAdam(torch.optim.Optimizer):
    """Adam whose moments take one byte a value and 4 bytes a block of 2,048.

    lr above 0, betas in [0, 1), eps above 0. Raises ValueError for others. While a tensor is
    updated the moments of one slice of it exist in 32 bits. Parameters are contiguous and in
    float32, else its step raises ValueError.
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        if not (lr > 0 and eps > 0 and all(0 <= b < 1 for b in betas)):
            raise ValueError(
                f"lr, betas, eps are {lr}, {betas}, {eps}: allowed are lr and eps above 0 and "
                "betas from 0 to below 1, since else the moments are no means"
            )
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        """The closure's loss, or None; each parameter with a gradient makes Adam's step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(
                        p, self.state[p], **{k: group[k] for k in ("lr", "betas", "eps")}
                    )
        return loss

    def load_state_dict(self, state_dict):
        """None; goes on from a saved state. Codes stay bytes: PyTorch's own way would make
        them floats of the weights' type, four times as large."""
        super().load_state_dict(state_dict)
        for state in self.state.values():
            for name in ("mean", "square"):
                if isinstance(state[name], tuple):
                    codes, scales = state[name]
                    state[name] = codes.to(torch.uint8), scales

    def planned_bytes(self):
        """Bytes that the state will have after the first step; frozen weights have none."""
        params = [p for group in self.param_groups for p in group["params"]]
        sizes = [p.numel() for p in params if p.requires_grad]
        blocks = [-(-n // BLOCK) for n in sizes if n >= SMALL]
        return sum(8 * n for n in sizes if n < SMALL) + 2 * (BLOCK + 4) * sum(blocks)

    def update(self, p, state, lr, betas, eps):
        """Make one parameter's step, its moments read from `state` and written there again."""
        if not p.is_contiguous() or p.dtype != torch.float32:
            raise ValueError(
                f"a parameter is {p.dtype} with strides {p.stride()}: allowed are contiguous "
                "ones in float32, since blocks follow the order in memory"
            )
        if not state:
            state["count"] = 0
            for name in ("mean", "square"):
                state[name] = nothing(p)
        state["count"] += 1
        settings = state["count"], lr, betas, eps
        if p.numel() < SMALL:
            advance(p, p.grad, state["mean"], state["square"], *settings)
            return
        flat, grad = p.view(-1), p.grad.reshape(-1)
        for start in range(0, len(flat), SLICE):
            part = flat[start : start + SLICE]
            codes = slice(start, start + SLICE)
            scales = slice(start // BLOCK, (start + SLICE) // BLOCK)
            mean, square = (
                unpack(state[name][0][codes], state[name][1][scales], part.shape, signed)
                for name, signed in (("mean", True), ("square", False))
            )
            advance(part, grad[codes], mean, square, *settings)
            for name, moment in (("mean", mean), ("square", square)):
                packed = pack(moment, signed=name == "mean")
                state[name][0][codes], state[name][1][scales] = packed


def nothing(p):
    """A moment before the first step: zeros, or codes and scales of 0 for a large tensor."""
    if p.numel() < SMALL:
        return torch.zeros_like(p)
    blocks = -(-p.numel() // BLOCK)
    codes = torch.zeros(blocks * BLOCK, dtype=torch.uint8, device=p.device)
    return codes, torch.zeros(blocks, device=p.device)


def advance(p, grad, mean, square, count, lr, betas, eps):
    """Adam's step number `count`, in place in p and in both moments."""
    mean.lerp_(grad, 1 - betas[0])
    square.mul_(betas[1]).addcmul_(grad, grad, value=1 - betas[1])
    deviation = (square / (1 - betas[1] ** count)).sqrt_().add_(eps)
    p.addcdiv_(mean, deviation, value=-lr / (1 - betas[0] ** count))


def state_bytes(optimizer):
    """Bytes of all tensors in an optimiser's state."""
    total = 0
    for state in optimizer.state.values():
        for value in state.values():
            tensors = value if isinstance(value, tuple) else (value,)
            total += sum(t.numel() * t.element_size() for t in tensors if torch.is_tensor(t))
    return total
