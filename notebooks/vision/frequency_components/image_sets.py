"""The chapter's images as bytes: Fashion-MNIST, and hands that sign a digit, signer by signer.

Fashion-MNIST (Xiao, Rasul, Vollgraf 2017) comes as gzipped IDX files: a magic word, the lengths
of the axes, then bytes. The hands (Mavi 2020) are JPEG photographs, a folder for each digit.
Their names count on while one person signs all ten digits, so neighbouring numbers are one
person's, and far ones are two people's; the data set does not say so itself.

Legend: N images, C channels, H height, W width.
"""

import gzip
import hashlib
import re
import struct

import numpy as np
import torch
from frequency_training import Images

CLASSES = (
    "T-shirt", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "boot",
)  # fmt: skip
MAGIC = {"images": 0x803, "labels": 0x801}  # unsigned bytes with three axes, with one
BLOCK, GUARD = 100, 10  # numbers in a block that is one side's; numbers that one person takes


def read_idx(path, kind):
    """The array of unsigned bytes in a gzipped IDX file of `images` or `labels`.

    Raises ValueError for another kind of file, or one whose length is not what it says.
    """
    content = gzip.decompress(path.read_bytes())
    if content[:4] != struct.pack(">I", MAGIC[kind]):
        found = content[:4].hex() or "nothing"
        raise ValueError(
            f"{path.name} starts with {found}; {kind} start with {MAGIC[kind]:08x}"
        )
    axes = MAGIC[kind] & 0xFF
    head = 4 + 4 * axes
    shape = struct.unpack(f">{axes}I", content[4:head])
    if len(content) - head != np.prod(shape):
        found = len(content) - head
        raise ValueError(f"{path.name} holds {found} bytes of values, {shape} were announced")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def load(folder, part, device="cpu"):
    """`Images` of the part `train` (60,000) or `t10k` (10,000), (N, 1, 28, 28)."""
    pixels = read_idx(folder / f"{part}-images-idx3-ubyte.gz", "images")
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz", "labels")
    if len(pixels) != len(labels):
        raise ValueError(f"{part}: {len(pixels)} images and {len(labels)} labels")
    pixels_NCHW = torch.from_numpy(pixels.copy())[:, None]
    return Images(pixels_NCHW.to(device), torch.from_numpy(labels.astype(np.int64)).to(device))


def draw(images, count, seed=0):
    """`count` of the images, drawn by the seed without repetition; ValueError beyond all."""
    if not 0 < count <= len(images):
        raise ValueError(f"{count} of {len(images)} images were asked for")
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    return images.take(order[:count].to(images.labels_N.device))


def fingerprints(images):
    """A text for each image, the same for the same pixels, wherever they come from."""
    pixels = images.pixels_NCHW.cpu().numpy()
    return [hashlib.sha256(one.tobytes()).hexdigest()[:16] for one in pixels]


def shuffled(images, seed=0):
    """The same images, each with the label of another: the labels' counts stay."""
    drawn = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=drawn).to(images.labels_N.device)
    return Images(images.pixels_NCHW, images.labels_N[order])


def signed_digits(folder, side=32, device="cpu"):
    """`Images` of the hands in grey, (N, 1, side, side), and the number in each name, (N,).

    Averaged over areas when made smaller, so that no high frequency folds into a low one.
    """
    from PIL import Image

    paths = sorted(folder.glob("[0-9]/*.JPG"))
    numbers = [int(re.search(r"(\d+)\.JPG$", path.name)[1]) for path in paths]
    pixels = []
    for path in paths:
        with Image.open(path) as photo:
            small = photo.convert("L").resize((side, side), Image.Resampling.BOX)
            pixels.append(np.asarray(small))
    labels = torch.tensor([int(path.parent.name) for path in paths], device=device)
    pixels_NCHW = torch.from_numpy(np.stack(pixels))[:, None].to(device)
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
