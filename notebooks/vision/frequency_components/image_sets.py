"""The chapter's images as bytes: Fashion-MNIST, and hands that sign a digit, signer by signer.

Fashion-MNIST (Xiao, Rasul, Vollgraf 2017) comes as gzipped IDX files, in grey. The hands (Mavi
2020) are JPEG photographs in colour, a folder for each digit. Their names count on while one
person signs all ten digits, so neighbouring numbers are one person's, and far ones are two
people's; the data set does not say so itself.

Legend: N images, C channels, H height, W width.
"""

import hashlib
import re

import numpy as np
import torch
from helpers.images import Images, read_idx

CLASSES = (
    "T-shirt", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "boot",
)  # fmt: skip
BLOCK, GUARD = 100, 10  # numbers in a block that is one side's; numbers that one person takes


def load(folder, part, device="cpu"):
    """`Images` of the part `train` (60,000) or `t10k` (10,000), (N, 1, 28, 28)."""
    pixels = read_idx(folder / f"{part}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz")
    if pixels.ndim != 3 or labels.shape != pixels.shape[:1]:
        found = f"pixels {pixels.shape} and labels {labels.shape}"
        raise ValueError(f"{part}: {found}; (N, H, W) and (N,) are allowed")
    pixels_NCHW = torch.from_numpy(pixels.copy())[:, None]
    return Images(pixels_NCHW.to(device), torch.from_numpy(labels.astype(np.int64)).to(device))


def draw(images, count, seed=0):
    """`count` of the images, drawn by the seed without repetition; ValueError beyond all."""
    if not 0 < count <= images.count:
        raise ValueError(f"{count} of {images.count} images were asked for")
    order = torch.randperm(images.count, generator=torch.Generator().manual_seed(seed))
    return images.part(order[:count])


def fingerprints(images):
    """A text for each image, the same for the same pixels, wherever they come from."""
    pixels = images.pixels_NCHW.cpu().numpy()
    return [hashlib.sha256(one.tobytes()).hexdigest()[:16] for one in pixels]


def shuffled(images, seed=0):
    """The same images, each with the label of another: the labels' counts stay."""
    drawn = torch.Generator().manual_seed(seed)
    order = torch.randperm(images.count, generator=drawn).to(images.labels_N.device)
    return images._replace(labels_N=images.labels_N[order])


def signed_digits(folder, side=32, device="cpu"):
    """`Images` of the hands in colour, (N, 3, side, side), and the number in each name, (N,).

    Averaged over areas when made smaller, so that no high frequency folds into a low one.
    """
    from PIL import Image

    paths = sorted(folder.glob("[0-9]/*.JPG"))
    numbers = [int(re.search(r"(\d+)\.JPG$", path.name)[1]) for path in paths]
    pixels = []
    for path in paths:
        with Image.open(path) as photo:
            small = photo.convert("RGB").resize((side, side), Image.Resampling.BOX)
            pixels.append(np.asarray(small))
    labels = torch.tensor([int(path.parent.name) for path in paths], device=device)
    pixels_NCHW = torch.from_numpy(np.stack(pixels).transpose(0, 3, 1, 2).copy()).to(device)
    return Images(pixels_NCHW, labels), torch.tensor(numbers, device=device)


def by_signer(number_N, offset=3, within=0.15, seed=0):
    """Which images train, are held out of the same signers, show others: three (N,) bool.

    The blocks of `BLOCK` numbers go round by fours; those at `offset` (0 to 3) are the others'.
    What lies within `GUARD` numbers of such a block is left out, so that nobody stands on both
    sides. Of the rest, `within` is the share that the seed holds out.
    """
    if offset not in range(4):
        raise ValueError(f"offset is {offset}; 0, 1, 2 and 3 are allowed: blocks go by fours")
    other_signer = lambda number_N: number_N // BLOCK % 4 == offset  # noqa: E731
    other_N = other_signer(number_N)
    near_N = other_signer(number_N - GUARD) | other_signer(number_N + GUARD)
    drawn = torch.rand(len(number_N), generator=torch.Generator().manual_seed(seed))
    held_out_N = drawn.to(number_N.device) < within
    return ~near_N & ~held_out_N & ~other_N, ~near_N & held_out_N & ~other_N, other_N
