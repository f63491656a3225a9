"""Averages of the weights that an optimiser visits, the rates that keep it moving, and the
batch-norm statistics that an average needs. With weights w_1, w_2, … handed over one by one,

    equal        a_n = a_(n-1) + (w_n - a_(n-1)) / n              SWA (Izmailov et al. 2018)
    exponential  a_n = a_(n-1) + (1 - decay) (w_n - a_(n-1))      EMA, a_1 = w_1

Nobody knows the mean and variance of what flows through the averaged network. Three ways to
fill in its batch norms: `last` copies those of the last model, `average` averages them as
weights are (`AveragedModel(use_buffers=True)`), `recompute_batch_norm` makes a pass over data.

Where we differ from `torch.optim.swa_utils.AveragedModel`: numbers of 16 bits are averaged in
32, since a step of 1/n of a difference is lost in eight bits of mantissa; batch norms' counters
are copied also where statistics are averaged; weights that are not finite are refused. An
update moves 12 bytes per float32 parameter, and 4 more for the check.
"""

import copy

import torch
from torch import nn

BUFFERS = ("last", "average")
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
WIDER |= {torch.complex32: torch.complex64}


class WeightAverage:
    """A running average of a model's weights, kept as a model of its own in `.model`.

    >>> average = WeightAverage(model)
    >>> for epoch in range(epochs):
    ...     train_one(model)
    ...     average.update(model)
    >>> recompute_batch_norm(average.model, batches)

    decay None averages equally, a number in (0, 1) exponentially. buffers: batch norms have the
    statistics of the `last` model meanwhile, or their `average`. check: whether an update looks
    for NaN and infinities first, for which the host waits. The first update leaves nothing of
    the model passed here. Raises ValueError for another decay or another way with buffers.
    """

    def __init__(self, model, decay=None, buffers="last", check=True):
        if decay is not None and not 0 < decay < 1:
            raise ValueError(f"decay is {decay}; it lies between 0 and 1, or is None")
        if buffers not in BUFFERS:
            raise ValueError(f"buffers is {buffers!r}; it is one of {', '.join(BUFFERS)}")
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            tensor.data = tensor.data.to(WIDER.get(tensor.dtype, tensor.dtype))
        self.decay, self.buffers, self.check, self.count = decay, buffers, check, 0

    @torch.no_grad()
    def update(self, model):
        """Take the model's weights into the average. ValueError where names or shapes differ
        from the first model's, or a weight is not finite; the average is then unchanged."""
        averaged, copied = self._pairs(model)
        groups = by_device(averaged)
        largest = [torch._foreach_norm(new, float("inf")) for _, new in groups if self.check]
        if not all(torch.stack(group).isfinite().all() for group in largest):
            words = "a weight is NaN or infinite; it would stay in the average for good"
            raise ValueError(f"{words}, which is left unchanged")
        equal = self.decay is None or not self.count
        weight = 1 / (self.count + 1) if equal else 1 - self.decay
        for own, new in groups:
            torch._foreach_lerp_(own, new, weight)
        for own, new in copied:
            own.copy_(new)
        self.count += 1

    def _pairs(self, model):
        """[(own, new)] of what is averaged, a tensor that two layers share once and a complex
        one as pairs of real numbers, and of what is copied; `new` lies beside `own`."""
        averaged, copied = [], []
        for kind in ("named_parameters", "named_buffers"):
            own, new = dict(getattr(self.model, kind)()), dict(getattr(model, kind)())
            if own.keys() != new.keys():
                odd = ", ".join(sorted(own.keys() ^ new.keys())[:3])
                raise ValueError(f"the model has other tensors than the first one: {odd}")
            for name, tensor in own.items():
                if new[name].shape != tensor.shape:
                    got, first = tuple(new[name].shape), tuple(tensor.shape)
                    raise ValueError(f"{name} has shape {got}; the first model had {first}")
                blended = kind == "named_parameters" or self.buffers == "average"
                pair = tensor, new[name].detach().to(tensor)
                if tensor.is_complex():
                    pair = tuple(torch.view_as_real(one) for one in pair)
                (averaged if blended and pair[0].is_floating_point() else copied).append(pair)
        return averaged, copied


def updates(*averages):
    """A function of (count, model) that updates all of them; for `at_step` and `at_epoch`."""
    return lambda _count, model: [average.update(model) for average in averages]


def by_device(rows):
    """The columns of rows (tuples of tensors), for each device and dtype: for fused calls."""
    groups = {}
    for row in (row for row in rows if row[0].numel()):
        groups.setdefault((row[0].device, row[0].dtype), []).append(row)
    return [tuple(map(list, zip(*group, strict=True))) for group in groups.values()]


def batch_norms(model):
    """The model's batch-norm layers that keep running statistics."""
    found = [one for one in model.modules() if isinstance(one, nn.modules.batchnorm._BatchNorm)]
    return [layer for layer in found if layer.track_running_stats]


@torch.no_grad()
def recompute_batch_norm(model, batches):
    """Fill the batch norms with the statistics of the model's own activations, in one pass.

    batches: of inputs (B, …), or tuples that begin with them, mixed as in training: variances
    are those within batches, averaged, so that batches sorted by class give wrong ones. A batch
    of B inputs counts with weight B (`torch.optim.swa_utils.update_bn` gives a short last one
    the weight of a full one). All other layers predict meanwhile, dropout too.

    Raises ValueError without a batch, and where statistics came out NaN or infinite; after any
    error the old ones are there again.
    """
    layers = batch_norms(model)
    if not layers:
        return
    modes = {layer: layer.training for layer in model.modules()}
    old = [(layer.momentum, copy.deepcopy(layer.state_dict())) for layer in layers]
    seen = 0
    model.eval()
    try:
        for layer in layers:
            layer.train()
        for batch in batches:
            batch = batch[0] if isinstance(batch, tuple | list) else batch
            seen += len(batch)
            for layer in layers:
                layer.momentum = len(batch) / seen
            model(batch)
        if not seen:
            raise ValueError("there is no batch to take statistics from; the old ones are kept")
        finite = [one.isfinite().all() for layer in layers for one in layer.buffers()]
        if not torch.stack(finite).all():
            raise ValueError("a statistic came out NaN or infinite; the old ones are kept")
    except BaseException:
        for layer, (_, statistics) in zip(layers, old, strict=True):
            layer.load_state_dict(statistics)
        raise
    finally:
        for layer, (momentum, _) in zip(layers, old, strict=True):
            layer.momentum = momentum
        for layer, mode in modes.items():
            layer.training = mode


def then_constant(rate, start, high, anneal=0):
    """A learning rate as a function of the epochs done: `rate` (such a function, or a number)
    before the epoch `start`, then `high`, reached in a line over `anneal` epochs, as
    `torch.optim.swa_utils.SWALR` does."""

    def after(epoch, first):
        share = 1.0 if anneal <= 0 else min((epoch - start) / anneal, 1.0)
        return first * (1 - share) + high * share

    return _then(rate, start, after)


def then_cyclical(rate, start, high, low, cycle):
    """The same, but from `start` on the rate falls in a line from `high` to `low` within every
    `cycle` epochs, and jumps back: the saw of fast geometric ensembling (Garipov et al. 2018),
    which takes a network at the end of each cycle. ValueError unless the cycle has a length."""
    if cycle <= 0:
        raise ValueError(f"cycle is {cycle}; it is a number of epochs above 0")
    saw = lambda epoch, _: high + (low - high) * ((epoch - start) % cycle / cycle)  # noqa: E731
    return _then(rate, start, saw)


def _then(rate, start, after):
    """`rate` before `start`, then `after` of the epoch and of the rate at `start`."""
    before = rate if callable(rate) else lambda epoch: rate
    return lambda epoch: before(epoch) if epoch < start else after(epoch, before(start))
