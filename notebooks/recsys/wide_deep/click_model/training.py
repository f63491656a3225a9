"""Training of Wide & Deep: two optimisers, the article's schedule, mixed precision, its metric.

FTRL (lr 0.02) moves the wide part and RMSprop (ρ 0.5, lr 1.2e-4) the deep one, from one
backward pass of the mean binary cross-entropy of σ(wide + deep). With `s` the step, counted
from 1, and `w` the steps of the warm-up epochs (6 of 20 in the article's repository), the rate
of the deep part is

    lr s / w  while s < w,   lr / 4 until half of the remaining epochs,   lr / 8 to the end

FTRL has a fixed rate. Where we differ from the repository: its first step, taken before its
schedule is asked, uses the full rate; ours is the first of the warm-up. Its loss scaling is
float16's; on a card with bfloat16 units ours needs none. After each epoch the validation rows
are scored and MAP@12 is taken over displays.

Shapes: `B` rows of a batch, `N` rows of a data set. A data set is a dict of tensors as
`loader.Loader` gives: categories (N, C) and multi_hot (N, H, K) int64, numbers (N, F) and
clicked (N,) float32, display_id and ad_id (N,).
"""

import contextlib
import time
from dataclasses import dataclass

import torch
from torch.nn import functional

from .optimisers import Ftrl, RmsProp
from .ranking import map_at_k

INPUTS = ("categories", "multi_hot", "numbers")
AMP = (None, "bfloat16", "float16")


@dataclass(frozen=True)
class Options:
    """How to train; the defaults are the article's: `Options(epochs=3, deep_lr=2e-3)`.

    amp: None, "bfloat16" or "float16" (with loss scaling; GPUs only). tf32: matrix products of
    float32 on a GPU's tensor cores. compile: through `torch.compile`, which takes no sparse
    gradients. seed: of dropout.
    """

    epochs: int = 20
    warmup_epochs: float = 6
    deep_lr: float = 1.2e-4
    wide_lr: float = 0.02
    rho: float = 0.5
    amp: str | None = None
    tf32: bool = True
    compile: bool = False
    seed: int = 0

    def __post_init__(self):
        if self.amp not in AMP:
            raise ValueError(f"amp={self.amp!r}; allowed are {AMP}")
        if self.epochs < 1 or not 0 <= self.warmup_epochs <= self.epochs:
            raise ValueError(
                f"{self.warmup_epochs} epochs of warm-up in {self.epochs}: at least one epoch "
                "and no more warm-up than epochs are allowed"
            )


@dataclass(frozen=True)
class Epoch:
    """What one epoch did: mean training loss, MAP@12 after it, seconds of training alone."""

    number: int
    loss: float
    map_at_12: float
    seconds: float
    rows: int
    deep_lr: float


def schedule(step, steps_per_epoch, epochs=20, warmup_epochs=6):
    """The factor on the deep part's rate at a step, the first being 1.

    >>> [round(schedule(s, 457), 3) for s in (1, 1371, 2742, 5941, 5942)]
    [0.0, 0.5, 0.25, 0.25, 0.125]
    """
    warmup = warmup_epochs * steps_per_epoch
    if step < warmup:
        return step / warmup
    return 1 / 4 if step <= (warmup_epochs + epochs) / 2 * steps_per_epoch else 1 / 8


class Rows:
    """Batches of a data set that is held in memory, shuffled anew each epoch.

    >>> for batch in Rows(data, batch=2048, seed=0): ...

    The rows are copied to `device` once. `seed=None` keeps their order. The last batch may be
    shorter. Raises ValueError for a data set without rows or of unequal lengths.
    """

    def __init__(self, data, batch, seed=None, device="cpu"):
        lengths = {name: len(values) for name, values in data.items()}
        if len(set(lengths.values())) != 1 or not min(lengths.values()) or batch < 1:
            raise ValueError(
                f"{lengths} rows in batches of {batch}: as many of each, at least one, and "
                "batches of at least one are needed"
            )
        self.data = {name: values.to(device) for name, values in data.items()}
        self.rows, self.batch, self.seed = next(iter(lengths.values())), batch, seed
        self.generator = torch.Generator().manual_seed(seed or 0)

    def __len__(self):
        return -(-self.rows // self.batch)

    def __iter__(self):
        data = self.data
        if self.seed is not None:
            order = torch.randperm(self.rows, generator=self.generator)
            order = order.to(next(iter(data.values())).device)
            data = {name: values[order] for name, values in data.items()}
        for first in range(0, self.rows, self.batch):
            yield {name: values[first : first + self.batch] for name, values in data.items()}


def whole(batches):
    """All batches as one data set, rows in the order they come."""
    parts = list(batches)
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


class Trainer:
    """One model with its two optimisers: `trainer.step(batch)` takes a step, returns the loss.

    model: a `WideDeep`, which the optimisers change in place. forward: what is called in its
    stead, e.g. the model wrapped for several processes. ranks: of so many processes, which
    share each batch and whose gradients are averaged; a step then asks for `total`.
    """

    def __init__(self, model, options, steps_per_epoch, forward=None, ranks=1):
        self.model, self.options, self.per_epoch = model, options, steps_per_epoch
        self.device = next(model.parameters()).device
        if options.amp == "float16" and self.device.type != "cuda":
            raise ValueError(f'amp="float16" on {self.device}: it needs a GPU; use "bfloat16"')
        if options.compile and model.sparse:
            raise ValueError(
                "compile=True with sparse=True: torch.compile has no sparse gradients"
            )
        self.forward = forward or (torch.compile(model) if options.compile else model)
        self.ranks, self.steps, self.optimisers = ranks, 0, []
        if model.wide is not None:
            self.optimisers.append(Ftrl(model.wide.parameters(), lr=options.wide_lr))
        if model.deep is not None:
            deep = RmsProp(model.deep.parameters(), lr=options.deep_lr, rho=options.rho)
            self.optimisers.append(deep)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=options.amp == "float16")

    @property
    def deep_lr(self):
        """The deep part's rate at the step to come."""
        options = self.options
        factor = schedule(self.steps + 1, self.per_epoch, options.epochs, options.warmup_epochs)
        return options.deep_lr * factor

    def step(self, batch, total=None):
        """The batch's mean loss before the step, a tensor on the device.

        total: the rows of the batch over all processes (a number or a tensor); what comes back
        is then this one's part of the loss, and the parts add up to the mean.
        """
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
            if isinstance(optimiser, RmsProp):
                optimiser.param_groups[0]["lr"] = self.deep_lr
        with autocast(self.options, self.device):
            logits = self.forward(*(batch[name] for name in INPUTS))
        loss = functional.binary_cross_entropy_with_logits(
            logits, batch["clicked"], reduction="sum"
        )
        loss = loss / (len(logits) if total is None else total)
        scaled = loss * self.ranks  # the average over processes is to be their sum
        self.scaler.scale(scaled).backward()
        for optimiser in self.optimisers:
            self.scaler.step(optimiser)
        self.scaler.update()
        self.steps += 1
        return loss.detach()


def autocast(options, device):
    """A context in which matrix products have the precision that `options.amp` says."""
    if options.amp is None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, getattr(torch, options.amp))


@contextlib.contextmanager
def float32_products(options):
    """A context in which `options.tf32` decides on float32 products; then it is as before."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def predict(model, data, batch=65_536, options=None):
    """The logits (N,) float32 of a data set, on the model's device.

    Dropout is off meanwhile. Raises ValueError for buckets that are not the model's.
    """
    options, training = options or Options(), model.training
    device = next(model.parameters()).device
    model.eval()
    try:
        with torch.inference_mode(), autocast(options, device), float32_products(options):
            found = [
                model(*(part[name].to(device, non_blocking=True) for name in INPUTS))
                for part in Rows({name: data[name] for name in INPUTS}, batch)
            ]
    finally:
        model.train(training)
    return torch.cat(found)


def evaluate(model, data, options=None):
    """MAP@12 of the model on a data set with clicked and display_id, a float."""
    logits = predict(model, data, options=options)
    return map_at_k(logits, data["clicked"].to(logits), data["display_id"].to(logits.device))


def fit(model, batches, valid, options=None, report=None):
    """A list of one `Epoch` an epoch, the learning curve; the model has been trained.

    >>> torch.manual_seed(0); model = WideDeep.build(buckets=0.01, dims=1 / 8, hidden=(64,))
    >>> curve = fit(model, Rows(train, 2048, seed=0), valid, Options(epochs=3))

    batches: a `Rows` or a `loader.Loader`, on the model's device. valid: a data set.
    report: a function that is called with each Epoch. The weights are those that the caller
    drew; `options.seed` fixes dropout. Raises FloatingPointError when a loss is not finite.
    """
    options = options or Options()
    trainer = Trainer(model, options, len(batches))
    torch.manual_seed(options.seed)
    curve = []
    for number in range(1, options.epochs + 1):
        model.train()
        start, total, rows, deep_lr = time.perf_counter(), 0.0, 0, trainer.deep_lr
        with float32_products(options):
            for batch in batches:
                count = len(batch["clicked"])
                total, rows = total + trainer.step(batch) * count, rows + count
        loss = float(total) / rows  # waits for the device
        seconds = time.perf_counter() - start
        if not torch.isfinite(torch.tensor(loss)):
            raise FloatingPointError(f"epoch {number}: the loss is {loss}; lower the rates")
        found = evaluate(model, valid, options)
        curve.append(Epoch(number, loss, found, seconds, rows, deep_lr))
        if report is not None:
            report(curve[-1])
    return curve
