"""How the detector learns, and how it is asked.

Photos come as tensors that were brought to one longer side, `SIDE` pixels, as most pipelines
do: what an object measures there is what the network learns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from . import augment, network

CLASSES = ("RBC", "WBC", "Platelets")
SIDE = 192  # pixels of a photo's longer side, for the network
CROP = 144  # pixels of a side of the random crops that it learns from


@dataclass(frozen=True)
class Settings:
    """Of a training: epochs over the photos, photos a step, the highest rate, what is done
    to a crop.
    """

    epochs: int = 30
    batch: int = 8
    rate: float = 4e-3
    width: int = 16
    colour: float = 0.15  # how far brightness and each colour may go, as a share
    blurred: bool = False  # half of the crops are blurred
    squeezed: bool = False  # half of them went through a hard JPEG
    taught: tuple = ()  # the numbers of the classes of which something is taught; none: of all


@dataclass
class Sample:
    """A photo for the network: pixels (3, H, W) bytes, boxes (N, 4) in them, label numbers,
    and the factor by which it was scaled from its file.
    """

    pixels: torch.Tensor
    boxes: torch.Tensor
    labels: torch.Tensor
    scale: float = 1.0


def sample(
    pixels: np.ndarray, boxes, labels: Sequence[str], side: int = SIDE, classes=CLASSES
) -> Sample:
    """A `Sample` of an (H, W, 3) array of bytes, its longer side brought to `side` (None: left
    as it is).

    Labels that are no class are left out. Reduction is Pillow's BOX: each pixel counts in the
    new one that its middle falls into.
    """
    from PIL import Image

    high, wide = pixels.shape[:2]
    scale = side / max(wide, high) if side else 1.0
    size = (max(1, round(wide * scale)), max(1, round(high * scale)))
    kind = Image.Resampling.BOX if scale < 1 else Image.Resampling.BILINEAR
    small = np.asarray(Image.fromarray(pixels).resize(size, kind))
    known = [at for at, label in enumerate(labels) if label in classes]
    marked = torch.as_tensor(np.asarray(boxes, dtype=np.float32).reshape(-1, 4)[known] * scale)
    numbers = torch.tensor([classes.index(labels[at]) for at in known], dtype=torch.long)
    return Sample(torch.from_numpy(small.copy()).permute(2, 0, 1), marked, numbers, scale)


def train(
    samples: list[Sample],
    settings: Settings,
    seed: int = 0,
    start=None,
    classes=CLASSES,
    told=None,
):
    """A trained `Detector`; `start`: one to go on from; `told(epoch, mean loss)` after each
    epoch.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    net = start or network.Detector(len(classes), settings.width)
    net.train()
    steps = settings.epochs * math.ceil(len(samples) / settings.batch)
    optimiser = torch.optim.AdamW(net.parameters(), settings.rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, settings.rate, total_steps=max(steps, 2)
    )
    for epoch in range(settings.epochs):
        losses = []
        for chosen in torch.randperm(len(samples), generator=generator).split(settings.batch):
            losses.append(
                step(net, [samples[at] for at in chosen], settings, generator, len(classes))
            )
            optimiser.step()
            optimiser.zero_grad()
            schedule.step()
        if told:
            told(epoch, sum(losses) / len(losses))
    return net.eval()


def step(net, samples, settings: Settings, generator, classes: int) -> float:
    """The loss of one batch of random crops; its gradients are in the network."""
    made = [
        augment.drawn(one.pixels.float() / 255, one.boxes, one.labels, CROP, generator)
        for one in samples
    ]
    photos = torch.stack([disturbed(one, settings, generator) for one, _, _ in made])
    heat, sides = net(photos)
    wanted = network.targets(
        [one for _, one, _ in made], [one for *_, one in made], classes, heat.shape[2:]
    )
    if settings.taught:
        kept = list(settings.taught)
        heat, wanted = heat[:, kept], (wanted[0][:, kept], *wanted[1:])
    loss = network.loss_of(heat, sides, wanted)
    loss.backward()
    return float(loss.detach())


def disturbed(photo: torch.Tensor, settings: Settings, generator) -> torch.Tensor:
    """A crop with other colours, and where the settings say so sometimes blurred or
    squeezed.
    """
    draw = torch.rand(8, generator=generator)
    gain = 1 + settings.colour * (2 * draw[:3] - 1) + settings.colour * (2 * draw[3] - 1)
    photo = (photo * gain[:, None, None]).clamp(0, 1)
    if settings.blurred and draw[4] < 0.5:
        photo = blurred(photo, 0.5 + 5.0 * float(draw[5]))
    if settings.squeezed and draw[6] < 0.5:
        photo = squeezed(photo, 2 + 20 * float(draw[7]))
    return photo


def blurred(photo: torch.Tensor, sigma: float) -> torch.Tensor:
    """A (C, H, W) photo under a Gaussian of `sigma` pixels."""
    reach = max(1, math.ceil(2.5 * sigma))
    at = torch.arange(-reach, reach + 1)
    weight = (-(at**2) / (2 * sigma**2)).exp()
    weight = (weight / weight.sum()).to(photo)
    padded = torch.nn.functional.pad(photo[:, None], (reach,) * 4, mode="replicate")
    rows = torch.nn.functional.conv2d(padded, weight[None, None, None])
    return torch.nn.functional.conv2d(rows, weight[None, None, :, None])[:, 0]


def squeezed(photo: torch.Tensor, quality: float) -> torch.Tensor:
    """A (C, H, W) photo through a JPEG of this quality."""
    import io

    from PIL import Image

    array = (photo * 255).round().byte().permute(1, 2, 0).numpy()
    with io.BytesIO() as kept:
        Image.fromarray(array).save(kept, "JPEG", quality=round(quality))
        read = np.asarray(Image.open(kept))
    return torch.from_numpy(read.copy()).permute(2, 0, 1).float() / 255


def padded(photo: torch.Tensor, multiple: int = 16) -> torch.Tensor:
    """A (3, H, W) photo continued to the right and below, so that the network can halve it."""
    high, wide = photo.shape[1:]
    return torch.nn.functional.pad(photo, (0, -wide % multiple, 0, -high % multiple), value=0.8)


@torch.no_grad()
def detect(net, samples: list[Sample], floor: float = 0.05) -> list[network.Found]:
    """What the network finds in each photo, boxes in pixels of the photo's file."""
    found = []
    device = next(net.parameters()).device
    for one in samples:
        photo = padded(one.pixels.float().to(device) / 255)
        boxes, scores, labels = network.decode(*net(photo[None]), floor)[0]
        limit = torch.tensor([one.pixels.shape[2], one.pixels.shape[1]] * 2, device=device)
        found.append(
            network.Found(torch.minimum(boxes.clamp(min=0), limit) / one.scale, scores, labels)
        )
    return found
