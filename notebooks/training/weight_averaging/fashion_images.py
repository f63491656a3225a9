"""Fashion-MNIST as bytes on the device: reading its files, and drawing a balanced part of it."""

import gzip
import struct

import numpy as np
import torch
from small_training import Images

CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
IMAGES, LABELS = 0x803, 0x801  # unsigned bytes with three axes, with one (Y. LeCun's IDX format)


def read_idx(path):
    """The array of unsigned bytes in a gzipped IDX file; ValueError for another kind or a length that does not fit."""
    data = gzip.decompress(path.read_bytes())
    magic = struct.unpack(">I", data[:4])[0] if len(data) >= 8 else None
    if magic not in (IMAGES, LABELS):
        raise ValueError(f"{path.name} starts with {data[:4].hex() or 'nothing'}; IDX of bytes starts with 00000801 or 00000803")
    axes = magic & 0xFF
    shape = struct.unpack(f">{axes}I", data[4 : 4 + 4 * axes])
    found, expected = len(data) - 4 - 4 * axes, int(np.prod(shape))
    if found != expected:
        raise ValueError(f"{path.name} holds {found} bytes of values; its header promises {expected}")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def load(folder, part, device="cpu"):
    """`Images` of the part `train` (60,000) or `t10k` (10,000) from the folder with the four files."""
    pixels, labels = (read_idx(folder / f"{part}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
    if len(pixels) != len(labels):
        raise ValueError(f"{part}: {len(pixels)} images and {len(labels)} labels")
    return Images(torch.from_numpy(pixels.copy())[:, None].to(device), torch.from_numpy(labels.astype(np.int64)).to(device))


def draw(images, count, seed=0, classes=None):
    """`count` images, equally many of each class (of `classes`, renumbered from 0, or of all), drawn without repetition."""
    wanted = torch.as_tensor(sorted(classes) if classes is not None else range(int(images.labels_N.max()) + 1))
    each, drawn, picked = count // len(wanted), torch.Generator().manual_seed(seed), []
    for name in wanted.tolist():
        members = (images.labels_N == name).nonzero().flatten().cpu()
        if len(members) < each:
            raise ValueError(f"class {name} has {len(members)} images; {each} of each class were asked for")
        picked.append(members[torch.randperm(len(members), generator=drawn)[:each]])
    index = torch.cat(picked).to(images.labels_N.device)
    labels = torch.searchsorted(wanted.to(index.device), images.labels_N[index])
    return Images(images.pixels_NCHW[index], labels)


def moments(images):
    """Mean and standard deviation of the bytes of each channel, (C, 1, 1) float32."""
    pixels = images.pixels_NCHW.float()
    return pixels.mean((0, 2, 3))[:, None, None], pixels.std((0, 2, 3))[:, None, None]
