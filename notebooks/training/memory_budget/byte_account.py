"""Account for every byte that one training step of a network holds, before the step is run.

The article is a person's question: a tutorial's image classifier runs out of memory on a small
card. A step holds weights, gradients, the optimiser's state and what backward needs. The first
three follow from the number of trained weights. The last follows from the shapes, in two ways:

- `by_rule` adds up each layer's derivative: a convolution keeps its input, a ReLU its output, a
  maximum pool its input and one 64-bit index an output; a tensor of two layers counts once.
- `by_layer` runs the network on the meta device, where tensors have shapes and no values, and
  lets autograd note what it would keep. So calls of functions, frozen layers and layers without
  a rule are counted, too. What depends on the kernel that a device takes is refused.

`kept` confirms both with autograd's own saved-tensor hooks on real tensors.

Shapes: B batch, C channels, H height, W width.
"""

import copy
from collections import defaultdict
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

STATES = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}  # tensors of a weight's size
KEEPS_INPUT = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear, nn.GELU, nn.SiLU, nn.AvgPool2d)
KEEPS_OUTPUT = (nn.ReLU, nn.Sigmoid, nn.Tanh, nn.Softmax, nn.LogSoftmax)
# What these keep depends on the kernel that a device takes for them.
BY_KERNEL = {"scaled_dot_product_attention", "multi_head_attention_forward"}
BY_KERNEL |= {"lstm", "gru", "rnn_tanh", "rnn_relu"}


class Layer(NamedTuple):
    """Bytes of one leaf layer in a step: what backward keeps (of these pooling indices), its
    output, the gradients of its output and input that pass in backward, and those of its
    weights. Named "calls": the functions that forward calls between two layers."""

    name: str
    kept: int
    indices: int
    outputs: int
    passing: int
    gradients: int


def bytes_of(tensors):
    """Bytes of the tensors' elements, without what their storages hold beside them."""
    return sum(t.numel() * t.element_size() for t in tensors)


def optimizer_bytes(model, optimizer):
    """Bytes of the optimiser's state tensors of a weight's size, after its first step.

    optimizer: a name of `STATES`, an optimiser whose state has the weights' sizes, as most of
    `torch.optim` have, or one that tells its `planned_bytes` itself. Numbers that stand alone,
    such as step counters, are left out. Raises ValueError for another.
    """
    if isinstance(optimizer, str):
        if optimizer not in STATES:
            raise ValueError(
                f"optimizer is {optimizer!r}: allowed are {', '.join(STATES)} or an optimiser, "
                "since only for these is the state's size known from the weights"
            )
        return STATES[optimizer] * bytes_of(p for p in model.parameters() if p.requires_grad)
    if hasattr(optimizer, "planned_bytes"):
        return optimizer.planned_bytes()
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(_refusal(optimizer))
    return sum(
        _copies(optimizer, group) * bytes_of(p for p in group["params"] if p.requires_grad)
        for group in optimizer.param_groups
    )


def _copies(optimizer, group):
    """Tensors of a weight's size that a step leaves, tried on a weight of six numbers: which
    they are depends on the optimiser's settings. The optimiser itself stays as it is."""
    weight = torch.zeros(2, 3, requires_grad=True)
    weight.grad = torch.ones_like(weight)
    probe = copy.copy(optimizer)
    probe.state, probe.param_groups = defaultdict(dict), [{**group, "params": [weight]}]
    try:
        probe.step()
        made = [t for state in probe.state.values() for t in state.values()]
    except (TypeError, AttributeError, RuntimeError) as failure:
        raise ValueError(_refusal(optimizer)) from failure
    sizes = [t.numel() for t in made if torch.is_tensor(t) and t.numel() > 1]
    if any(size != weight.numel() for size in sizes):
        raise ValueError(_refusal(optimizer))
    return len(sizes)


def _refusal(optimizer):
    return (
        f"optimizer is a {type(optimizer).__name__}: allowed are {', '.join(STATES)} and "
        "optimisers whose state has the weights' sizes after a step without a closure"
    )


def counts_steps(optimizer):
    """Whether the optimiser keeps a counter of 4 bytes for each parameter tensor: Adam does."""
    return isinstance(optimizer, torch.optim.Adam) or optimizer in ("adam", "adamw")


def by_rule(layer, x, y):
    """(tensors that backward keeps of the layer's input and output, further bytes) by the rule
    of one layer whose input and weights are trained; further bytes are what it makes itself:
    indices, masks, statistics. Raises ValueError for a layer without a rule."""
    if isinstance(layer, (nn.Flatten, nn.Identity)):
        return [], 0
    if isinstance(layer, KEEPS_INPUT):
        return [x], 0
    if isinstance(layer, KEEPS_OUTPUT):
        return [y], 0
    if isinstance(layer, nn.MaxPool2d):
        return [x], 8 * y.numel()
    if isinstance(layer, nn.Dropout):  # a CPU multiplies by a mask of floats
        return [], bytes_of([y]) if layer.training and layer.p else 0
    if isinstance(layer, nn.GroupNorm):
        return [x], 2 * x.shape[0] * layer.num_groups * x.element_size()
    if isinstance(layer, nn.BatchNorm2d) and layer.training:
        return [x], 2 * x.shape[1] * x.element_size()
    raise ValueError(
        f"layer {type(layer).__name__} has no rule: allowed are convolutions, linear layers, "
        "ReLU and its kin, pools, dropout and norms; `account` counts others"
    )


def ghost_of(model):
    """A copy of the model on the meta device; its weights' values are never copied."""
    known = {}
    for p in model.parameters():
        empty = torch.empty_like(p, device="meta", requires_grad=False)
        known[id(p)] = nn.Parameter(empty, requires_grad=p.requires_grad)
    known |= {id(b): torch.empty_like(b, device="meta") for b in model.buffers()}
    return copy.deepcopy(model, known)


class _Notes(TorchFunctionMode):
    """What autograd notes of a ghost's forward, layer by layer."""

    def __init__(self, ghost, on_gpu):
        super().__init__()
        self.rows, self.seen, self.alive = [], set(), []
        self.open, self.on_gpu, self.pooling = None, on_gpu, False
        self.own = {t.untyped_storage()._cdata for t in [*ghost.parameters(), *ghost.buffers()]}
        for name, layer in ghost.named_modules():
            if not list(layer.children()):
                layer.register_forward_pre_hook(self.begin(name))
                layer.register_forward_hook(self.end)

    def row(self, name):
        self.rows.append({"name": name} | dict.fromkeys(Layer._fields[1:], 0))
        return self.rows[-1]

    def begin(self, name):
        def hook(layer, inputs):
            self.open = self.row(name)

        return hook

    def end(self, layer, inputs, y):
        trained = [p for p in layer.parameters() if p.requires_grad and id(p) not in self.seen]
        self.seen.update(map(id, trained))
        tensors = [t for t in (*inputs, y) if torch.is_tensor(t) and t.requires_grad]
        size = {"passing": bytes_of(tensors), "gradients": bytes_of(trained)}
        self.open.update(size, outputs=bytes_of([y]) if torch.is_tensor(y) else 0)
        self.open = None

    def pack(self, t):
        row = self.open
        if row is None:
            new = not self.rows or self.rows[-1]["name"] != "calls"
            row = self.row("calls") if new else self.rows[-1]
            row["outputs"] = max(row["outputs"], bytes_of([t]))
            row["passing"] = 2 * row["outputs"]
        storage = t.untyped_storage()
        if storage._cdata not in self.own | self.seen:
            self.seen.add(storage._cdata)
            self.alive.append(t)  # a freed storage's address could come again
            row["kept"] += storage.nbytes()
            row["indices"] += storage.nbytes() * (self.pooling and t.dtype == torch.int64)
        return t

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        if name in BY_KERNEL:
            raise ValueError(
                f"forward calls {name}: what it keeps depends on the device's kernel, so that "
                "no shape tells it; measure it with `kept`"
            )
        if function is functional.dropout and self.on_gpu:  # its mask has a byte a value there
            x, p, training = (*args, *list(kwargs.values())[:-1])[:3]
            return torch.native_dropout(x, p, training)[0]
        self.pooling = "max_pool" in name
        try:
            return function(*args, **kwargs)
        finally:
            self.pooling = False


def by_layer(model, input_shape):
    """A `Layer` for each leaf layer, in forward's order, and for the calls between them.

    Nothing is computed. Raises ValueError for a shape without a batch, for a forward that asks
    for values, and for what depends on a device's kernel.
    """
    shape = tuple(input_shape)
    if len(shape) < 2 or any(not isinstance(n, int) or n < 1 for n in shape):
        raise ValueError(
            f"input_shape is {shape}: allowed are at least two whole numbers of 1 or more, "
            "since the batch comes first"
        )
    first = next(model.parameters(), torch.empty(0))
    ghost = ghost_of(model)
    notes = _Notes(ghost, first.device.type == "cuda")
    x = torch.empty(shape, device="meta", dtype=first.dtype)
    hooks = torch.autograd.graph.saved_tensors_hooks(notes.pack, lambda t: t)
    with torch.enable_grad(), notes, hooks:
        try:
            ghost(x)
        except (NotImplementedError, RuntimeError) as failure:
            raise ValueError(
                f"forward cannot run on shapes alone: {failure}. Allowed is what needs no "
                "tensor's value and no tensor outside of parameters and buffers; measure "
                "others with `kept`"
            ) from failure
    return [Layer(**row) for row in notes.rows]


def account(model, input_shape, optimizer):
    """Bytes of one training step by what holds them: a flat dict with weights, gradients,
    optimizer, activations (all that backward keeps, the input and pooling indices included),
    then buffers, pooling_indices (already a part of activations) and optimizer_steps.

    input_shape: (B, C, H, W), the batch first. optimizer: a name or an optimiser. The
    convolution library's workspace is no part of it, since it depends on the kernel that is
    chosen.

    >>> account(nn.Linear(3, 2), (5, 3), "adam")["activations"]  # the input: 15 floats
    60
    """
    rows = by_layer(model, input_shape)
    total = state(model, optimizer)
    return {
        **{name: total.pop(name) for name in ("weights", "gradients", "optimizer")},
        "activations": sum(row.kept for row in rows),
        **total,
        "pooling_indices": sum(row.indices for row in rows),
    }


def state(model, optimizer):
    """`account` without what depends on the input: weights, gradients, optimizer, buffers,
    optimizer_steps."""
    trained = [p for p in model.parameters() if p.requires_grad]
    return {
        "weights": bytes_of(model.parameters()),
        "gradients": bytes_of(trained),
        "optimizer": optimizer_bytes(model, optimizer),
        "buffers": bytes_of(model.buffers()),
        "optimizer_steps": 4 * len(trained) if counts_steps(optimizer) else 0,
    }


def kept(model, x):
    """Bytes that autograd really keeps for backward of model(x), each storage once, parameters
    and buffers left out: the measurement that `account`'s activations are held against."""
    own = {t.untyped_storage()._cdata for t in [*model.parameters(), *model.buffers()]}
    storages = {}

    def pack(t):
        storage = t.untyped_storage()
        if storage._cdata not in own:
            storages[storage._cdata] = (storage.nbytes(), t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = model(x)
    total = sum(n for n, _ in storages.values())
    del y
    return total
