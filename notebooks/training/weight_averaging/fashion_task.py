"""The chapter's task on Fashion-MNIST: its files, a balanced part of them, and runs that share
their beginning.

What a method is compared with starts from the same weights: all branches of a seed share the
epochs before averaging starts, as in the article's figures.
"""

import copy
import dataclasses
import gzip
import hashlib
import struct
from typing import NamedTuple

import numpy as np
import torch
from averaging import recompute_batch_norm, then_constant, then_cyclical
from small_resnet import SmallResNet
from small_training import Images, Recipe, annealed, images, logits_of, train

CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat")
CLASSES += ("sandal", "shirt", "sneaker", "bag", "ankle boot")
IMAGES, LABELS = 0x803, 0x801  # IDX files of unsigned bytes with three axes, with one


def read_idx(path):
    """The array of unsigned bytes in a gzipped IDX file.

    Raises ValueError for another kind of file, and for a length that its header does not say.
    """
    data = gzip.decompress(path.read_bytes())
    magic = struct.unpack(">I", data[:4])[0] if len(data) >= 8 else None
    if magic not in (IMAGES, LABELS):
        got = data[:4].hex() or "nothing"
        raise ValueError(f"{path.name} starts with {got}; IDX of bytes: 00000801 or 00000803")
    axes = magic & 0xFF
    start = 4 + 4 * axes
    if len(data) < start:
        raise ValueError(f"{path.name} ends within its header")
    shape = struct.unpack(f">{axes}I", data[4:start])
    found, expected = len(data) - start, int(np.prod(shape))
    if found != expected:
        raise ValueError(f"{path.name} holds {found} bytes; its header promises {expected}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def load(folder, part, device="cpu"):
    """`Images` of the part `train` (60,000) or `t10k` (10,000) of the folder's four files."""
    kinds = ("images-idx3", "labels-idx1")
    pixels, labels = (read_idx(folder / f"{part}-{kind}-ubyte.gz") for kind in kinds)
    pixels = torch.from_numpy(pixels.copy())[:, None].to(device)
    return images(pixels, torch.from_numpy(labels.astype(np.int64)).to(device))


def draw(data, count, seed=0, classes=None):
    """`Images` of `count` of these, equally many of each class, scaled by their own moments.

    classes: those to draw from, renumbered from 0; default all ten. Raises ValueError where a
    class has too few, or count is no multiple.
    """
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
    return images(data.pixels_NCHW[index], torch.searchsorted(names, data.labels_N[index]))


def fingerprints(data):
    """A text for each image, the same for the same pixels, wherever they come from."""
    pixels = data.pixels_NCHW.cpu().numpy()
    return [hashlib.sha256(one.tobytes()).hexdigest()[:16] for one in pixels]


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
        """The epochs before weights are collected: three quarters."""
        return self.epochs * 3 // 4

    def network(self, seed, **more):
        """The network that this seed draws."""
        torch.manual_seed(seed)
        net = SmallResNet(self.width, classes=self.classes, **more)
        return net.to(self.train.labels_N.device)

    def recipes(self, rate=0.1, high=0.05, **more):
        """The `Recipe` that anneals, and the one that stays high from then on."""
        decays = Recipe(self.epochs, rate=annealed(rate, self.epochs), **more)
        stays = then_constant(decays.rate, self.start, high, anneal=1)
        return decays, dataclasses.replace(decays, rate=stays)

    def begun(self, seed, recipe, change=None, **more):
        """The `Run` until averaging starts; change: called with the network at first."""
        model = self.network(seed, **more)
        if change:
            change(model)
        return train(model, self.train, recipe, seed=seed, last=self.start)

    def branch(self, seed, run, recipe, **calls):
        """The model of a run that goes on from another, whose momenta stay, too."""
        calls |= {"first": self.start, "state": run.optimiser.state_dict()}
        return train(copy.deepcopy(run.model), self.train, recipe, seed=seed, **calls).model

    def cycles(self, seed, run, recipe, members=3, high=0.05, low=0.001):
        """The models at the ends of `members` equal cycles of the rate, which fill the epochs
        from the start of averaging on: fast geometric ensembling (Garipov et al. 2018)."""
        steps, length = self.train.count // recipe.batch, (self.epochs - self.start) / members
        ends = {round((self.start + length * (n + 1)) * steps) for n in range(members)}
        saw, found = then_cyclical(recipe.rate, self.start, high, low, length), []

        def at_step(step, model):
            if step in ends:
                found.append(copy.deepcopy(model))

        self.branch(seed, run, dataclasses.replace(recipe, rate=saw), at_step=at_step)
        return found

    def probabilities(self, model, images=None):
        """The model's probabilities (N, K) on the test images or others."""
        return logits_of(model.eval(), self.test if images is None else images).softmax(1)

    def refreshed(self, model):
        """The model with batch-norm statistics of its own, in place."""
        recompute_batch_norm(model, self.train.batches())
        return model


def task_of(
    folder, where, count, width, epochs, *, classes=None, wrong=0.0, tested=1000, seed=0
):
    """The `Task` of `count` images for training, and a tenth of that held out beside them.

    folder: of the four files; where: the device. classes: those to draw from, default all.
    wrong: the share of training labels to spoil. tested: test images of each class. seed: of
    the training images drawn and of their order, in which classes are mixed.
    """
    names, held = list(classes or range(len(CLASSES))), count // 10
    each = held // len(names)
    both = draw(load(folder, "train", where), count + each * len(names), seed, classes)
    rows = torch.arange(both.count).view(len(names), -1)  # a row for each class
    mixed = torch.Generator().manual_seed(seed)
    rows_N = rows[:, each:].flatten()  # in order of classes
    rows_N = rows_N[torch.randperm(len(rows_N), generator=mixed)]
    known = with_wrong_labels(both.part(rows_N), wrong, seed)
    test = draw(load(folder, "t10k", where), tested * len(names), classes=classes)
    held = both.part(rows[:, :each].flatten())
    return Task(known, held, test.scaled_as(both), width, epochs, len(names))
