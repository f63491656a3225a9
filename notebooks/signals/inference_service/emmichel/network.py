"""The network that looks at a patch: track, shower or nothing, and Michel electron or not.

EmMichelTrack of ProtoDUNE-SP as larrecodnn's training script builds it: one layer of 48 filters
of 5 × 5, dropout, three dense layers, two outputs. Of 48 × 48 pixels the filters leave 44 × 44,
so the first dense layer reads 48 · 44 · 44 = 92,928 numbers and holds almost all parameters:

    48·25 + 48  +  92,928·128 + 128  +  128·32 + 32  +  32·3 + 3  +  32 + 1  =  11,900,420

Legend: B batch, S side (48), F filters.
"""

import copy
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

OUTPUTS = ("em_trk_none_netout", "michel_netout")  # larrecodnn's names


class EmMichelTrack(nn.Module):
    """`logits = EmMichelTrack()(patches_BSS)`: (B, 3) and (B, 1) before softmax and sigmoid.
    Fewer `filters` and `pool` above 1, the mean of squares of pixels before the dense layers,
    make a smaller network. Raises ValueError for patches of another shape."""

    def __init__(self, filters=48, side=48, drop=0.2, pool=1):
        super().__init__()
        self.side, self.pool = side, pool
        mean = [nn.AvgPool2d(pool)] if pool > 1 else []
        self.look = nn.Sequential(nn.Conv2d(1, filters, 5), nn.ReLU(), *mean, nn.Dropout(drop))
        width = filters * ((side - 4) // pool) ** 2
        dense = [nn.Linear(width, 128), nn.ReLU(), nn.Dropout(drop)]
        self.think = nn.Sequential(*dense, nn.Linear(128, 32), nn.ReLU(), nn.Dropout(drop))
        self.em_trk_none, self.michel = nn.Linear(32, 3), nn.Linear(32, 1)

    def forward(self, patches_BSS):
        """(B, 3), (B, 1)."""
        if patches_BSS.ndim != 3 or patches_BSS.shape[1:] != (self.side, self.side):
            came, side = tuple(patches_BSS.shape), self.side
            raise ValueError(f"patches {came} came; (any number, {side}, {side}) are needed")
        found_BF = self.think(self.look(patches_BSS[:, None]).flatten(1))
        return self.em_trk_none(found_BF), self.michel(found_BF)


class Probabilities(nn.Module):
    """The network as it is served: softmax (B, 3) and sigmoid (B, 1)."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, patches_BSS):
        """Probabilities of track, shower, none (B, 3), and of a Michel electron (B, 1)."""
        three, one = self.network(patches_BSS)
        return three.softmax(1), one.sigmoid()


def parameters(network):
    """The number of trained parameters; a network on the meta device needs no memory for it."""
    return sum(p.numel() for p in network.parameters())


def full_size(small, filters=48):
    """A network of `filters` filters, without pooling, that computes what `small` does: each
    filter is repeated, and the dense weights that read it are shared out among the copies and
    the pixels of a pooled square (Net2Net, Chen et al. 2016, does the first). Raises ValueError
    unless `small`'s filters divide `filters`."""
    few, pool, side = small.look[0].out_channels, small.pool, small.side - 4
    if filters % few or side % pool:
        raise ValueError(f"{filters} filters of {few}, {side} pixels of {pool} must divide")
    large = EmMichelTrack(filters, small.side)
    with torch.no_grad():
        large.look[0].weight.copy_(small.look[0].weight.repeat(filters // few, 1, 1, 1))
        large.look[0].bias.copy_(small.look[0].bias.repeat(filters // few))
        grid = small.think[0].weight.view(128, few, side // pool, side // pool)
        wide = grid.repeat_interleave(pool, 2).repeat_interleave(pool, 3) / pool**2
        wide = wide.repeat(1, filters // few, 1, 1) / (filters // few)
        large.think[0].weight.copy_(wide.flatten(1))
        large.think[0].bias.copy_(small.think[0].bias)
    same = [(one.em_trk_none, one.michel, one.think[3]) for one in (small, large)]
    for mine, its in zip(*same, strict=True):
        its.load_state_dict(mine.state_dict())
    return large.to(small.think[0].weight.device).train(small.training)


def infer(network, patches, batch=256):
    """((N, 3), (N, 1)) float32 arrays: probabilities for patches (N, 48, 48), in blocks of
    `batch` on the network's device. Leaves the network in its mode."""
    device, trains = next(network.parameters()).device, network.training
    served, found = Probabilities(network.eval()), []
    with torch.inference_mode():
        for block in torch.as_tensor(patches).split(batch):
            found.append([x.cpu() for x in served(block.to(device, torch.float32))])
    network.train(trains)
    if not found:
        return np.zeros((0, 3), np.float32), np.zeros((0, 1), np.float32)
    return tuple(torch.cat(parts).numpy() for parts in zip(*found, strict=True))


def save_onnx(network, path):
    """The path, written, for servers without torch: `patches` in, `OUTPUTS` out."""
    served = Probabilities(copy.deepcopy(network).cpu()).eval()
    return export(served, torch.zeros(2, network.side, network.side), path, "patches", *OUTPUTS)


def export(module, example, path, *names):
    """The path, written: a module as an ONNX file; `names` of its input and outputs."""
    how = {"input_names": names[:1], "output_names": names[1:]}
    how["dynamic_axes"] = {name: {0: "rows"} for name in names}
    with warnings.catch_warnings():  # the older exporter is the quick one
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (example,), str(path), dynamo=False, **how)
    return Path(path)
