"""Images that fit into a device's memory: IDX files, batches by index, and one short training loop.

The whole set lies on the device as bytes. A batch is an index and a scaling there, so that nothing is copied; losses
stay on the device until the run ends, so that nobody waits. `torch` and `numpy` are imported where they are used.

Legend: N images, B batch, C channels, H height, W width, K classes.
"""

import gzip
import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

IDX = {0x801: 1, 0x803: 3}  # the magic words of unsigned bytes, with one axis and with three


def read_idx(path: Path) -> Any:
    """The array of unsigned bytes in a gzipped IDX file, as MNIST and its kin come: labels (N,) or pixels (N, H, W).

    Raises ValueError for another kind of file, and for a length that its header does not say.
    """
    content = gzip.decompress(path.read_bytes())
    axes = IDX.get(int.from_bytes(content[:4], "big")) if len(content) >= 4 else None
    if axes is None:
        allowed = " or ".join(f"{magic:08x}" for magic in IDX)
        raise ValueError(f"{path.name} starts with {content[:4].hex() or 'nothing'}; IDX of bytes: {allowed}")
    start = 4 + 4 * axes
    if len(content) < start:
        raise ValueError(f"{path.name} ends within its header")
    shape = struct.unpack(f">{axes}I", content[4:start])
    if len(content) - start != math.prod(shape):
        got = len(content) - start
        raise ValueError(f"{path.name} holds {got} bytes; its header promises {math.prod(shape)}")
    import numpy as np

    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


class Images(NamedTuple):
    """Images as bytes with their classes, and the scaling by which a network reads them: (pixel - mean) / std.

    pixels_NCHW uint8, labels_N int64, on one device; mean and std: numbers or (C, 1, 1) float32, by default those
    that bring a byte between 0 and 1. The scaling of every part is the training set's.
    """

    pixels_NCHW: Any
    labels_N: Any
    mean: Any = 0.0
    std: Any = 255.0

    @property
    def count(self) -> int:
        """N."""
        return self.labels_N.shape[0]

    def at(self, index: Any) -> tuple[Any, Any]:
        """The images x_BCHW (float32, scaled) and labels_B of `index` (B,), or of a slice."""
        return (self.pixels_NCHW[index].float() - self.mean) / self.std, self.labels_N[index]

    def part(self, index: Any) -> "Images":
        """The `Images` of `index` (B,), on any device, scaled as these are."""
        index = index.to(self.labels_N.device)
        return self._replace(pixels_NCHW=self.pixels_NCHW[index], labels_N=self.labels_N[index])

    def batches(self, size: int = 500) -> Any:
        """All images in order, scaled, `size` at a time: an iterator of x_BCHW."""
        return (self.at(slice(start, start + size))[0] for start in range(0, self.count, size))


class Run(NamedTuple):
    """What a run leaves: its model, the mean loss of each epoch, its optimiser (to go on with)."""

    model: Any
    losses: list
    optimiser: Any


def train(
    model,
    images,
    optimiser,
    *,
    epochs,
    batch,
    rate=None,
    first=0,
    seed=0,
    at_epoch=None,
    at_step=None,
    change=None,
    penalty=None,
) -> Run:
    """Train `model` in place with the `optimiser` of its parameters, epochs `first` to `epochs`.

    rate(epochs done, a float) gives the learning rate before every step, else the optimiser's stays. The order of the
    images depends on `seed` and the epoch alone, so that a run in two parts, the second with the first one's
    optimiser, is the run in one. at_epoch(epochs done, model), in inference mode, and at_step(steps done, model) are
    called after each; change(model, x_BCHW, labels_B, drawn) gives the batch that is trained on, its targets classes
    or rows of probabilities, and draws from a generator of its own; penalty(model) is added to the loss. What is left
    over by whole batches waits for the next epoch's order.

    Raises ValueError for a batch larger than the set, FloatingPointError for a loss that is not finite.
    """
    import torch

    if not 0 < batch <= images.count:
        raise ValueError(f"batch is {batch}; with {images.count} images it lies between 1 and {images.count}")
    device, steps, losses = images.labels_N.device, images.count // batch, []
    order_drawn, drawn = (torch.Generator(device=device).manual_seed(seed + own) for own in (0, 1))
    for epoch in range(epochs):
        order = torch.randperm(images.count, generator=order_drawn, device=device)
        if epoch < first:
            continue
        batches = order[: steps * batch].split(batch)
        losses.append(_epoch(model, images, optimiser, batches, epoch, drawn, rate, change, penalty, at_step))
        if at_epoch:
            at_epoch(epoch + 1, model.eval())
    losses = torch.stack(losses).tolist() if losses else []
    if not all(map(math.isfinite, losses)):
        raise FloatingPointError(f"the loss of an epoch is not finite: {losses}; lower the rate")
    return Run(model, losses, optimiser)


def _epoch(model, images, optimiser, batches, epoch, drawn, rate, change, penalty, at_step):
    """A step for each of the index `batches`; the mean of their losses, a scalar on the device."""
    from torch.nn.functional import cross_entropy

    losses = 0.0
    for step, index in enumerate(batches):
        for group in optimiser.param_groups if rate else ():
            group["lr"] = rate(epoch + step / len(batches))
        model.train()
        x_BCHW, targets = images.at(index)
        if change:
            x_BCHW, targets = change(model, x_BCHW, targets, drawn)
        loss = cross_entropy(model(x_BCHW), targets)
        loss = loss + penalty(model) if penalty else loss
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        losses = losses + loss.detach()
        if at_step:
            at_step(epoch * len(batches) + step + 1, model)
    return losses / len(batches)
