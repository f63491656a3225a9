"""Training of Wide & Deep: two optimisers, the article's schedule, mixed precision, its metric.

FTRL (lr 0.02) moves the wide part and RMSprop (ρ 0.5, lr 1.2e-4) the deep one, from one
backward pass of the mean binary cross-entropy of σ(wide + deep). With `s` the step, counted
from 1, and `w` the steps of the warm-up epochs (6 of 20 in the article's repository), the rate
of the deep part is

    lr s / w  while s < w,   lr / 4 until half of the remaining epochs,   lr / 8 to the end

Where we differ from the repository: its first step, taken before its schedule is asked, uses
the full rate; ours is the first of the warm-up. Its loss scaling is float16's; on a card with
bfloat16 units ours needs none.

In a group of processes (`ddp`) each takes its part of every batch. Gradients are averaged over
processes, and we want the gradient of the mean over the whole batch, also where the parts
differ in rows: so each process weighs its sum of losses by ranks / rows of the batch.

Shapes: `B` rows of a batch, `N` rows of a data set: a dict of tensors as `loader.Loader` gives,
categories (N, C) and multi_hot (N, H, K) int64, numbers (N, F) and clicked (N,) float32,
display_id and ad_id (N,).
"""

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from click_features import Folder
from torch import distributed
from torch.nn import functional

from . import processes
from .optimisers import Ftrl, RmsProp
from .precision import autocast, float32_products, half
from .ranking import map_at_k

INPUTS = ("categories", "multi_hot", "numbers")


@dataclass(frozen=True)
class Options:
    """How to train; the defaults are the article's: `Options(epochs=3, deep_lr=2e-3)`.

    amp: matrix products in 16 bits, of the kind that `half` says. tf32: matrix products of
    float32 on a GPU's tensor cores. compile: through `torch.compile`, which takes no sparse
    gradients. seed: of dropout.
    """

    epochs: int = 20
    warmup_epochs: float = 6
    deep_lr: float = 1.2e-4
    wide_lr: float = 0.02
    rho: float = 0.5
    amp: bool = False
    tf32: bool = True
    compile: bool = False
    seed: int = 0

    def __post_init__(self):
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

    The rows are copied to `device` once; None leaves them where they lie. `seed=None` keeps
    their order; with one, the order follows from it and from `epoch`, which counts the passes.
    The last batch may be shorter.
    Raises ValueError for a data set without rows or of unequal lengths.
    """

    def __init__(self, data, batch, seed=None, device=None):
        lengths = {name: len(values) for name, values in data.items()}
        if len(set(lengths.values())) != 1 or not min(lengths.values()) or batch < 1:
            raise ValueError(
                f"{lengths} rows in batches of {batch}: as many of each, at least one, and "
                "batches of at least one are needed"
            )
        self.data = {n: x if device is None else x.to(device) for n, x in data.items()}
        self.rows, self.batch = next(iter(lengths.values())), batch
        self.seed, self.epoch = seed, 0

    def __len__(self):
        return -(-self.rows // self.batch)

    def __iter__(self):
        data = self.data
        if self.seed is not None:
            draw = torch.Generator().manual_seed(1_000_003 * self.seed + self.epoch)
            order = torch.randperm(self.rows, generator=draw)
            order = order.to(next(iter(data.values())).device)
            data = {name: values[order] for name, values in data.items()}
        self.epoch += 1
        for first in range(0, self.rows, self.batch):
            yield {name: values[first : first + self.batch] for name, values in data.items()}


def whole(batches):
    """All batches as one data set, rows in the order they come."""
    parts = list(batches)
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


class Trainer:
    """One model with its two optimisers: `trainer.step(batch)` takes a step, returns the loss.

    model: a `WideDeep`, which the optimisers change in place. forward: what is called in its
    stead, e.g. the model wrapped for several processes.
    """

    def __init__(self, model, options, steps_per_epoch, forward=None):
        self.model, self.options, self.per_epoch = model, options, steps_per_epoch
        first = next(model.parameters())
        self.device, self.dtype = first.device, first.dtype
        if options.compile and model.sparse:
            raise ValueError(
                "compile=True with sparse=True: torch.compile has no sparse gradients"
            )
        self.forward = forward or (torch.compile(model) if options.compile else model)
        self.steps, self.rows, self.optimisers = 0, 0, []  # rows of the last batch, over all
        if model.wide is not None:
            self.optimisers.append(Ftrl(model.wide.parameters(), lr=options.wide_lr))
        if model.deep is not None:
            deep = RmsProp(model.deep.parameters(), lr=options.deep_lr, rho=options.rho)
            self.optimisers.append(deep)
        scaled = options.amp and half(self.device) == torch.float16
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=scaled)

    @property
    def deep_lr(self):
        """The deep part's rate at the step to come."""
        options = self.options
        factor = schedule(self.steps + 1, self.per_epoch, options.epochs, options.warmup_epochs)
        return options.deep_lr * factor

    def step(self, batch):
        """The mean loss before the step of the batch of all processes, a tensor on the device:
        this process's part of it, and the parts add up.
        """
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
            if isinstance(optimiser, RmsProp):
                optimiser.param_groups[0]["lr"] = self.deep_lr
        with autocast(self.options, self.device):
            logits = self.forward(*_inputs(batch, self.device, self.dtype))
        loss = functional.binary_cross_entropy_with_logits(
            logits, batch["clicked"].to(logits.dtype), reduction="sum"
        )
        self.rows = rows = len(logits)
        if distributed.is_initialized():
            self.rows = processes.summed(torch.full((), float(rows), device=self.device))
            rows = self.rows / distributed.get_world_size()  # their average is to be a sum
        self.scaler.scale(loss / rows).backward()
        for optimiser in self.optimisers:
            self.scaler.step(optimiser)
        self.scaler.update()
        self.steps += 1
        return loss.detach() / self.rows

    def state(self):
        """All that a step depends on, but for the batch and chance: what `restore` takes."""
        parts = [part.state_dict() for part in (self.scaler, *self.optimisers)]
        return {"steps": self.steps, "weights": self.model.state_dict(), "parts": parts}

    def restore(self, state):
        """None; the trainer goes on from a `state`."""
        self.model.load_state_dict(state["weights"])
        for part, held in zip((self.scaler, *self.optimisers), state["parts"], strict=True):
            part.load_state_dict(held)
        self.steps = state["steps"]


def _inputs(batch, device, dtype):
    """The model's arguments on its device; numbers in its precision."""
    found = (batch[name].to(device, non_blocking=True) for name in INPUTS)
    return [x.to(dtype) if x.is_floating_point() else x for x in found]


def predict(model, data, batch=65_536, options=None):
    """The logits (N,) of a data set, on the model's device and in its precision.

    Dropout is off meanwhile. Raises ValueError for buckets that are not the model's.
    """
    options, training = options or Options(), model.training
    first = next(model.parameters())
    model.eval()
    try:
        with torch.inference_mode(), autocast(options, first.device), float32_products(options):
            found = [
                model(*_inputs(part, first.device, first.dtype))
                for part in Rows({name: data[name] for name in INPUTS}, batch)
            ]
    finally:
        model.train(training)
    return torch.cat(found)


def evaluate(model, data, options=None):
    """MAP@12 of the model on a data set with clicked and display_id, a float.

    In a group each process has its part of the rows; displays may be cut between them.
    """
    own = {"score": predict(model, data, options=options)}
    own |= {name: data[name].to(own["score"].device) for name in ("clicked", "display_id")}
    if distributed.is_initialized():
        own = whole(processes.gathered({name: x.cpu() for name, x in own.items()}))
    return map_at_k(own["score"], own["clicked"], own["display_id"])


def fit(model, batches, valid, options=None, folder=None, forward=None):
    """A list of one `Epoch` per epoch, the learning curve; the model has been trained.

    >>> curve = fit(WideDeep(sizes), Rows(train, 2048, seed=0), valid, Options(epochs=3))

    batches: a `Rows` or a `loader.Loader`, on the model's device. valid: a data set, which goes
    there once.
    folder: where the state is kept after each epoch, whole or not at all, so that the same call
    goes on after a kill and takes the steps that it would have taken. forward: as in `Trainer`.
    The weights are those that the caller drew; `options.seed` fixes dropout. Raises
    FloatingPointError when a loss is not finite, and ValueError for the folder of another
    training.
    """
    options, curve = options or Options(), []
    trainer = Trainer(model, options, len(batches), forward)
    torch.manual_seed(options.seed + 1000 * processes.rank())
    valid, kept = {name: x.to(trainer.device) for name, x in valid.items()}, None
    if folder and not processes.rank():
        kept = Folder(folder, options=asdict(options), steps=len(batches))
    if processes.gathered(bool(kept and kept.has("state.pt")))[0]:
        state = torch.load(Path(folder, "state.pt"), weights_only=True, map_location="cpu")
        trainer.restore(state)
        curve, batches.epoch = [Epoch(**one) for one in state["curve"]], state["epoch"]
        own, *cards = state["chance"][processes.rank()]  # from which dropout is drawn
        torch.set_rng_state(own)
        torch.cuda.set_rng_state_all(cards)
    for number in range(len(curve) + 1, options.epochs + 1):
        one = _epoch(trainer, batches, number)
        if not torch.isfinite(torch.tensor(one.loss)):
            raise FloatingPointError(f"epoch {number}: the loss is {one.loss}; lower the rates")
        curve.append(replace(one, map_at_12=evaluate(model, valid, options)))
        chance = [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]
        state = {"epoch": batches.epoch, "chance": processes.gathered(chance)}
        state["curve"] = [asdict(one) for one in curve]
        if kept:
            with kept.file("state.pt") as path:
                torch.save(trainer.state() | state, path)
    return curve


def _epoch(trainer, batches, number):
    """The Epoch of a pass over the batches, its MAP@12 yet to come."""
    trainer.model.train()
    began, deep_lr = time.perf_counter(), trainer.deep_lr
    total, rows = torch.zeros(2, dtype=torch.float64, device=trainer.device), 0
    with float32_products(trainer.options):
        for batch in batches:
            total[0] += trainer.step(batch) * trainer.rows
            rows += len(batch["clicked"])
    total[1] = rows
    loss, rows = processes.summed(total).tolist()  # waits for the device
    seconds = time.perf_counter() - began
    return Epoch(number, loss / rows, float("nan"), seconds, round(rows), deep_lr)
