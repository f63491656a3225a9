"""Averages of the weights that an optimiser visits, and the batch-norm statistics that go with them.

Article: "PyTorch 1.6 now includes Stochastic Weight Averaging" (Izmailov, Wilson, Queneneville-Belair, 2020). With
weights w_1, w_2, … handed over one by one,

    equal        a_n = a_(n-1) + (w_n - a_(n-1)) / n          stochastic weight averaging (Izmailov et al. 2018)
    exponential  a_n = a_(n-1) + (1 - decay) (w_n - a_(n-1))  EMA; a_1 = w_1

The averaged network has never seen a batch, so nobody knows the mean and variance of what flows through it. Three ways
to fill in its batch norms: `last` copies those of the last model, `average` averages them like weights (what
`AveragedModel(use_buffers=True)` does), and `recompute_batch_norm` passes over the training data once.

We differ from `torch.optim.swa_utils.AveragedModel` in three ways. Weights of 16 bits are averaged in float32: a step of
1/n of a difference is lost in eight bits of mantissa. All tensors of a device go through one fused call. Weights that
are not finite are refused and leave the average as it was.

An update reads the weights and the average and writes the average: 12 bytes per float32 parameter, plus 4 for the check.
"""

import copy

import torch
from torch import nn

BUFFERS = ("last", "average")
NARROW = (torch.float16, torch.bfloat16)


class WeightAverage:
    """A running average of a model's weights, kept as a model of its own in `.model`.

    >>> average = WeightAverage(model)
    >>> for epoch in range(epochs):
    ...     train_one(model)
    ...     average.update(model)
    >>> recompute_batch_norm(average.model, batches)

    decay None averages equally, a number in (0, 1) exponentially. buffers says what becomes of the batch-norm
    statistics meanwhile, `last` or `average`; counters are always copied. Before the first update `.model` equals the
    model that was passed. Cost: one pass over the weights per update; memory: one more copy of them.

    Raises ValueError for another decay or way with buffers.
    """

    def __init__(self, model, decay=None, buffers="last"):
        if decay is not None and not 0 < decay < 1:
            raise ValueError(f"decay is {decay}; it lies between 0 and 1, or is None for an equal average")
        if buffers not in BUFFERS:
            raise ValueError(f"buffers is {buffers!r}; it is one of {', '.join(BUFFERS)}")
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            if tensor.dtype in NARROW:
                tensor.data = tensor.data.float()
        self.decay, self.buffers, self.count = decay, buffers, 0

    @torch.no_grad()
    def update(self, model):
        """Take the model's present weights into the average; the model stays as it is.

        Raises ValueError where names or shapes differ from the first model's, or a weight is not finite; the average
        is then unchanged.
        """
        averaged, copied = self._pairs(model)
        check_finite([new for _, new in averaged])
        weight = 1 / (self.count + 1) if self.decay is None or not self.count else 1 - self.decay
        for own, new in by_device(averaged):
            torch._foreach_lerp_(own, new, weight)
        for own, new in copied:
            own.copy_(new)
        self.count += 1

    def _pairs(self, model):
        """[(own, new)] of what is averaged and of what is copied, `new` on the average's device and of its dtype."""
        own, new = self.model.state_dict(), model.state_dict()
        if own.keys() != new.keys():
            odd = sorted(own.keys() ^ new.keys())
            raise ValueError(f"the model has other tensors than the first one: {', '.join(odd[:3])}")
        learned = {name for name, _ in model.named_parameters()}
        averaged, copied = [], []
        for name, tensor in own.items():
            if new[name].shape != tensor.shape:
                raise ValueError(f"{name} has shape {tuple(new[name].shape)}; the first model had {tuple(tensor.shape)}")
            blended = name in learned or (self.buffers == "average" and tensor.is_floating_point())
            (averaged if blended else copied).append((tensor, new[name].to(tensor)))
        return averaged, copied


def check_finite(tensors):
    """Raise ValueError if one of the tensors holds a NaN or an infinity; one pass, one wait for the device."""
    floating = [tensor for tensor in tensors if tensor.is_floating_point()]
    if floating and not torch.stack([norm.cpu() for norm in torch._foreach_norm(floating, float("inf"))]).isfinite().all():
        raise ValueError("a weight is NaN or infinite; the average would stay so for good and is left unchanged")


def by_device(pairs):
    """[([own], [new])] with the pairs of each device and dtype together, as the fused calls want them."""
    groups = {}
    for own, new in pairs:
        owns, news = groups.setdefault((own.device, own.dtype), ([], []))
        owns.append(own)
        news.append(new)
    return list(groups.values())


def batch_norms(model):
    """The model's batch-norm layers that keep running statistics."""
    return [layer for layer in model.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.track_running_stats]


@torch.no_grad()
def recompute_batch_norm(model, batches):
    """Fill the batch norms with the statistics of the model's own activations, in one pass over `batches`.

    batches: an iterable of inputs (B, …) on the model's device. A batch of B inputs counts with weight B, so that a
    short last batch does no harm (`torch.optim.swa_utils.update_bn` gives it the weight of a full one). Variances are
    those within batches, averaged. The model comes back in the mode it had. Raises ValueError without a batch, with the old
    statistics kept.
    """
    layers = batch_norms(model)
    if not layers:
        return
    kept = [(layer.momentum, layer.running_mean.clone(), layer.running_var.clone()) for layer in layers]
    training, seen = model.training, 0
    model.train()
    try:
        for batch in batches:
            seen += len(batch)
            for layer in layers:
                layer.momentum = len(batch) / seen
            model(batch)
    finally:
        model.train(training)
        for layer, (momentum, mean, variance) in zip(layers, kept, strict=True):
            layer.momentum = momentum
            if not seen:
                layer.running_mean.copy_(mean), layer.running_var.copy_(variance)
    if not seen:
        raise ValueError("there is no batch to take statistics from; the old ones are kept")
