"""Fashion-MNIST as bytes on the device: reading its files, drawing a balanced part of them."""

import gzip
import struct

import numpy as np
import torch
from small_training import images

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
    """`Images` of `count` of these, equally many of each class, without repetition.

    classes: those to draw from, renumbered from 0; default all ten. The scaling is that of the
    images drawn. Raises ValueError where a class has too few, or count is no multiple.
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
