"""The chapter's task on Fashion-MNIST: a balanced part of its files, how a run trains, and runs
that share their beginning: all branches of a seed share 9 of 16 epochs, as in the article's
first figure (125 of the 225 epochs of its authors' commands).

Legend: N images, B batch, C channels, H height, W width, K classes.
"""

import copy
import hashlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from averaging import recompute_batch_norm, then_constant, then_cyclical
from helpers.images import Images, read_idx, train
from small_resnet import SmallResNet

CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat")
CLASSES += ("sandal", "shirt", "sneaker", "bag", "ankle boot")
SGD = partial(torch.optim.SGD, momentum=0.9, weight_decay=3e-4, foreach=True)
ADAM = partial(torch.optim.AdamW, weight_decay=1e-2, foreach=True)


def scaled(pixels_NCHW, labels_N):
    """`Images` read with the moments of their own bytes (deviation 1 of a constant channel);
    ValueError unless pixels are uint8 and labels int64, as many, and some."""
    kinds = pixels_NCHW.dtype, labels_N.dtype
    alike = pixels_NCHW.dim() == 4 and labels_N.shape == pixels_NCHW.shape[:1]
    if kinds != (torch.uint8, torch.int64) or not alike or not len(labels_N):
        got = f"{tuple(pixels_NCHW.shape)} and {tuple(labels_N.shape)} of {kinds}"
        raise ValueError(f"images are {got}; allowed: uint8 (N, C, H, W), int64 (N,), N > 0")
    values = pixels_NCHW.float()
    mean, std = values.mean((0, 2, 3)), values.std((0, 2, 3), correction=0)
    std = torch.where(std > 0, std, 1.0)
    return Images(pixels_NCHW, labels_N, mean[:, None, None], std[:, None, None])


def load(folder, part, device="cpu"):
    """`Images` of the part `train` (60,000) or `t10k` (10,000) of the folder's four files."""
    kinds = ("images-idx3", "labels-idx1")
    files = (read_idx(folder / f"{part}-{kind}-ubyte.gz") for kind in kinds)
    pixels, labels = (torch.from_numpy(one.copy()).to(device) for one in files)
    return scaled(pixels[:, None], labels.long())


def draw(data, count, seed=0, classes=None, like=None):
    """`Images` of `count` of these, equally many of each of the classes (default all), which
    are renumbered from 0; scaled as `like` or by their own moments. ValueError for too few."""
    wanted = sorted(range(len(CLASSES)) if classes is None else classes)
    each, rest = divmod(count, len(wanted))
    if rest or not each:
        raise ValueError(f"count is {count}; it is a multiple of the {len(wanted)} classes")
    drawn, picked = torch.Generator().manual_seed(seed), []
    for name in wanted:
        members = (data.labels_N == name).nonzero().flatten().cpu()
        if len(members) < each:
            have = f"class {name} has {len(members)} images"
            raise ValueError(f"{have}; {each} of each class were asked for")
        picked.append(members[torch.randperm(len(members), generator=drawn)[:each]])
    index = torch.cat(picked).to(data.labels_N.device)
    names = torch.tensor(wanted, device=index.device)
    found = scaled(data.pixels_NCHW[index], torch.searchsorted(names, data.labels_N[index]))
    return found._replace(mean=like.mean, std=like.std) if like else found


def fingerprints(data):
    """A text for each image, the same for the same pixels, wherever they come from."""
    return [hashlib.sha256(one.numpy()).hexdigest()[:16] for one in data.pixels_NCHW.cpu()]


def with_wrong_labels(data, share, seed=0):
    """The same images, of which this share have a label drawn from the other classes."""
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; it lies between 0 and 1")
    drawn = torch.Generator().manual_seed(seed)
    classes = int(data.labels_N.max()) + 1
    chosen = torch.randperm(data.count, generator=drawn)[: round(share * data.count)]
    moved = torch.randint(1, classes, chosen.shape, generator=drawn)
    chosen, moved = chosen.to(data.labels_N.device), moved.to(data.labels_N.device)
    labels = data.labels_N.clone()
    labels[chosen] = (labels[chosen] + moved) % classes
    return data._replace(labels_N=labels)


def annealed(rate, epochs, low=0.01):
    """A learning rate as a function of the epochs done: whole for the first half of `epochs`,
    then down in a line to the share `low` of it at nine tenths, and so to the end.

    >>> [annealed(0.1, 10)(epoch) for epoch in (0, 5, 7, 9, 10)]  # 0.1, 0.1, 0.0505, 0.001, …
    """

    def at(epoch):
        down = min(max((epoch / epochs - 0.5) / 0.4, 0.0), 1.0)
        return rate * (1 - (1 - low) * down)

    return at


class Recipe(NamedTuple):
    """How a run trains: rate is a function of the epochs done (a float), optimiser one of the
    parameters and `lr`."""

    epochs: int
    rate: Callable[[float], float]
    batch: int = 64
    optimiser: Callable = SGD


class Task(NamedTuple):
    """Images to train on, to choose with and to test on; the network's width; the epochs of a
    run, and how many classes there are."""

    train: Images
    held: Images
    test: Images
    width: int
    epochs: int
    classes: int = 10

    @property
    def start(self):
        """The epochs before weights are collected: 9 of 16."""
        return self.epochs * 9 // 16

    def network(self, seed, **more):
        """The network that this seed draws."""
        torch.manual_seed(seed)
        net = SmallResNet(self.width, classes=self.classes, **more)
        return net.to(self.train.labels_N.device)

    def recipes(self, rate=0.1, high=0.05, *, settles=False, **more):
        """The `Recipe` whose rate falls to the end (or, where it `settles`, to the start of the
        collecting), and the one whose rate is `high` from that start on."""
        falls = annealed(rate, self.start if settles else self.epochs)
        stays = then_constant(falls, self.start, high)
        return Recipe(self.epochs, falls, **more), Recipe(self.epochs, stays, **more)

    def begun(self, seed, recipe, model=None):
        """The `Run` until weights are collected, of this network or the one the seed draws."""
        model = self.network(seed) if model is None else model
        optimiser = recipe.optimiser(model.parameters(), lr=recipe.rate(0))
        how = {"batch": recipe.batch, "rate": recipe.rate, "seed": seed}
        return train(model, self.train, optimiser, epochs=self.start, **how)

    def branch(self, seed, run, recipe, **calls):
        """The model of a run that goes on from another with its momenta; that one stays."""
        model, optimiser = copy.deepcopy((run.model, run.optimiser))
        calls |= {"batch": recipe.batch, "rate": recipe.rate, "seed": seed, "first": self.start}
        return train(model, self.train, optimiser, epochs=recipe.epochs, **calls).model

    def cycles(self, seed, run, recipe, members=3, high=0.05, low=0.001):
        """The models at the ends of `members` equal cycles of the rate, which fill the epochs
        from the start of averaging on."""
        steps, length = self.train.count // recipe.batch, (self.epochs - self.start) / members
        ends = {round((self.start + length * (n + 1)) * steps) for n in range(members)}
        saw, found = then_cyclical(recipe.rate, self.start, high, low, length), []

        def at_step(step, model):
            if step in ends:
                found.append(copy.deepcopy(model))

        self.branch(seed, run, recipe._replace(rate=saw), at_step=at_step)
        return found

    def refreshed(self, model):
        """The model with batch-norm statistics of its own, in place."""
        recompute_batch_norm(model, self.train.batches())
        return model


@torch.no_grad()
def logits_of(model, data):
    """The model's logits (N, K) for all images, in the mode that it is in."""
    return torch.cat([model(x_BCHW) for x_BCHW in data.batches()])


def task_of(
    folder, where, count, width, epochs, *, classes=None, wrong=0.0, tested=1000, seed=0
):
    """The `Task` of `count` images for training, and a tenth of that held out beside them.

    folder: of the four files; where: the device. wrong: the share of training labels to spoil.
    tested: test images of each class. seed: of all images drawn and of the training images'
    order, in which classes are mixed.
    """
    names = list(classes or range(len(CLASSES)))
    each = count // 10 // len(names)
    both = draw(load(folder, "train", where), count + each * len(names), seed, classes)
    rows = torch.arange(both.count).view(len(names), -1)  # a row for each class
    mixed = torch.Generator().manual_seed(seed)
    rows_N = rows[:, each:].flatten()  # in order of classes
    rows_N = rows_N[torch.randperm(len(rows_N), generator=mixed)]
    known = with_wrong_labels(both.part(rows_N), wrong, seed)
    test = draw(load(folder, "t10k", where), tested * len(names), seed, classes, like=both)
    held = both.part(rows[:, :each].flatten())
    return Task(known, held, test, width, epochs, len(names))
