"""The study: what the rungs of the ladder cost in accuracy, over seeds.

    make study CHAPTERS=training/memory_budget STUDY=rungs

The tutorial's network, at 28 pixels of grey, learns ten kinds of clothes for the same number of
photos. A recipe changes one thing of its neighbour. Batch norm in parts sees the moments of its
part; small batches make more steps, with a rate that falls with the batch.
"""

import functools
import gzip
from dataclasses import dataclass

import numpy as np
import torch
from accumulation import step
from byte_adam import ByteAdam
from helpers import data
from helpers.study import Arm, Job, Metric, Outcome, Part, Study
from memory_ladder import mixed
from torch.nn.functional import cross_entropy, interpolate
from tutorial_network import classifier


@dataclass(frozen=True)
class Recipe:
    """How an arm trains: images a step and in how many parts, the norm, Adam's moments in a
    byte or not, half precision or not, pixels a side, and the rate of a step."""

    batch: int = 32
    parts: int = 1
    norm: str = "none"
    moments: str = "32 bits"
    precision: str = "single"
    side: int = 28
    rate: float = 1e-3


@functools.cache
def clothes(part):
    """(images (N, 1, 28, 28) from 0 to 1, kinds (N)) of `train` or `t10k`."""
    folder = data.fetch("fashion_mnist")
    read = lambda kind: gzip.decompress((folder / f"{part}-{kind}-ubyte.gz").read_bytes())  # noqa: E731
    images = np.frombuffer(read("images-idx3"), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    kinds = np.frombuffer(read("labels-idx1"), np.uint8, offset=8)
    return torch.from_numpy(images / np.float32(255)), torch.from_numpy(kinds.astype(np.int64))


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """{train, test}: drawn by the seed from the set's own two parts."""
    found = {}
    for name, part in (("train", "train"), ("test", "t10k")):
        images, kinds = clothes(part)
        random = torch.Generator().manual_seed(seed)
        chosen = torch.randperm(len(images), generator=random)[: sizes[name]]
        units = [f"{part} {at}" for at in chosen.tolist()]
        found[name] = Part((images[chosen], kinds[chosen]), units)
    return found


def seen(images, recipe):
    """The images at the recipe's resolution."""
    side = recipe.side
    return images if side == 28 else interpolate(images, size=side, mode="area")


def fit(job: Job) -> torch.nn.Module:
    """The network that the arm's recipe trains, ready to be judged."""
    recipe, (images, kinds) = job.arm.loss, job.train
    torch.manual_seed(job.seed)
    model = classifier(recipe.side, channels=1, classes=10, norm=recipe.norm)
    kind = ByteAdam if recipe.moments == "8 bits" else torch.optim.Adam
    optimizer = kind(model.parameters(), lr=recipe.rate)
    random = torch.Generator().manual_seed(job.seed)
    for _ in range(job.sizes["epochs"]):
        order = torch.randperm(len(images), generator=random)
        for chosen in order.split(recipe.batch):
            x, y = seen(images[chosen], recipe), kinds[chosen]
            if recipe.precision == "half":
                model.zero_grad()
                mixed(model, x, y)
            else:
                size = -(-len(x) // recipe.parts)
                step(model, zip(x.split(size), y.split(size), strict=True), cross_entropy)
            optimizer.step()
    return model.eval()


def judge(made: torch.nn.Module, held: tuple, job: Job) -> dict:
    """The share of held-out images whose kind is named right."""
    images, kinds = held
    with torch.no_grad():
        right = made(seen(images, job.arm.loss)).argmax(1) == kinds
    return {"accuracy": right.float().mean().item()}


def arm(**recipe) -> Arm:
    """An arm of this recipe."""
    return Arm(train="train", loss=Recipe(**recipe))


ARMS = {"whole": arm(), "parts": arm(parts=4), "small": arm(batch=8, rate=5e-4)}
ARMS |= {f"{norm}_whole": arm(norm=norm) for norm in ("batch", "group")}
ARMS |= {f"{norm}_parts": arm(norm=norm, parts=16) for norm in ("batch", "group")}
ARMS |= {"bytes": arm(moments="8 bits"), "mixed": arm(precision="half")}
ARMS["half_side"] = arm(side=14)
AGAINST = {
    "parts": ("whole", ["parts"]),
    "small": ("whole", ["batch", "rate"]),
    "batch_parts": ("batch_whole", ["parts"]),
    "group_parts": ("group_whole", ["parts"]),
    "bytes": ("whole", ["moments"]),
    "mixed": ("whole", ["precision"]),
    "half_side": ("whole", ["side"]),
}

STUDY = Study(
    notebook="memory_budget",
    name="rungs",
    arms=ARMS,
    seeds=range(5),
    sizes={"train": 2000, "test": 2000, "epochs": 2},
    trial={"train": 64, "test": 32, "epochs": 1},
    metrics={"accuracy": Metric("%", 100.0)},
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes={
        f"study_{name}_difference": Outcome(
            "accuracy", name, less, [f"loss.{field}" for field in fields]
        )
        for name, (less, fields) in AGAINST.items()
    },
    over="draws of images",
)
