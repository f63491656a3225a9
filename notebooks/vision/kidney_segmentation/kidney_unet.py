"""A small 3-D U-Net, its training on phantoms, and its weights.

Three levels with 8, 16 and 32 channels; what goes up is *added* to what comes across, so that a
step is convolution + sum + ReLU. The benchmark's network is nnU-Net's for KiTS19: six levels
of the same kind, 32 to 320 channels, 31 million parameters, instance normalisation,
windows of 128³. Ours has batch normalisation, which `folded` multiplies into the convolutions:
what is left is convolutions, sums, ReLU, pooling and repetition, all of which int8 can do
(`kidney_int8`).

Trained by `python kidney_unet.py`, which wrote `kidney_unet.safetensors` beside it.

B: batch; C: channels; S: side of a window.
"""

import argparse
from pathlib import Path

import ct_phantom
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own habit

WEIGHTS = Path(__file__).with_name("kidney_unet.safetensors")
WIDTHS = (8, 16, 32)
STEPS = 1500
LAST = torch.channels_last_3d  # twice as fast as the usual order on a CPU, here


class Unet(nn.Module):
    """(B, 1, S, S, S) to (B, 3, S, S, S) scores; S a multiple of 4."""

    def __init__(self, widths=WIDTHS):
        super().__init__()
        a, b, c = widths
        self.convs = nn.ModuleDict(
            {
                "enter": nn.Conv3d(1, a, 3, padding=1),
                "down1": nn.Conv3d(a, b, 3, padding=1),
                "same1": nn.Conv3d(b, b, 3, padding=1),
                "down2": nn.Conv3d(b, c, 3, padding=1),
                "same2": nn.Conv3d(c, c, 3, padding=1),
                "up1": nn.Conv3d(c, b, 1),
                "join1": nn.Conv3d(b, b, 3, padding=1),
                "up0": nn.Conv3d(b, a, 1),
                "join0": nn.Conv3d(a, a, 3, padding=1),
            }
        )
        self.norms = nn.ModuleDict(
            {name: nn.BatchNorm3d(conv.out_channels) for name, conv in self.convs.items()}
        )
        self.head = nn.Conv3d(a, 3, 1)

    def forward(self, x_B1SSS):
        return walk(self._layer, self.head, x_B1SSS.contiguous(memory_format=LAST))

    def _layer(self, name, x_BCSSS):
        return self.norms[name](self.convs[name](x_BCSSS))


def walk(layer, head, x, keep=lambda name, x: x):
    """The way through the network, whatever computes its layers: `layer(name, x)` before its
    sum or ReLU, and `keep(next layer, x)` what is kept for a later sum. `kidney_int8` walks it
    with integers.
    """
    across0 = keep("down1", F.relu(layer("enter", x)))
    x = F.relu(layer("down1", F.max_pool3d(across0, 2)))
    across1 = keep("down2", F.relu(layer("same1", x)))
    x = F.relu(layer("down2", F.max_pool3d(across1, 2)))
    x = F.relu(layer("same2", x))
    x = F.relu(F.interpolate(layer("up1", x), scale_factor=2) + across1)
    x = F.relu(layer("join1", x))
    x = F.relu(F.interpolate(layer("up0", x), scale_factor=2) + across0)
    return head(F.relu(layer("join0", x)))


class Folded(nn.Module):
    """The same scores as a trained Unet's in `eval`, its normalisation inside the
    convolutions."""

    def __init__(self, net: Unet):
        super().__init__()
        self.convs, self.head = nn.ModuleDict(), net.head
        for name, conv in net.convs.items():
            one = nn.utils.fusion.fuse_conv_bn_eval(conv.eval(), net.norms[name].eval())
            self.convs[name] = one.to(memory_format=LAST)
        self.requires_grad_(False)

    def forward(self, x_B1SSS):
        x = x_B1SSS.contiguous(memory_format=LAST)
        return walk(lambda name, one: self.convs[name](one), self.head, x).contiguous()


def folded(net: Unet) -> Folded:
    """The network ready to answer."""
    return Folded(net.eval())


def losses(scores_BCSSS, labels_BSSS):
    """Cross-entropy, rare classes counted more, plus one less the soft Dice of both organs."""
    weights = scores_BCSSS.new_tensor([1.0, 2.0, 4.0])
    cross = F.cross_entropy(scores_BCSSS, labels_BSSS, weight=weights)
    chances = scores_BCSSS.softmax(1)[:, 1:]
    true = F.one_hot(labels_BSSS, 3).movedim(-1, 1)[:, 1:]
    both = (chances * true).sum((0, 2, 3, 4))
    dice = (2 * both + 1) / (chances.sum((0, 2, 3, 4)) + true.sum((0, 2, 3, 4)) + 1)
    return cross + (1 - dice).mean()


def cut(scan_DHW, labels_DHW, window: int, chance: torch.Generator):
    """One window of a case and its labels: in four of five cases around a voxel of an organ, in
    half of these of the tumour; turned round at random along depth and width.
    """
    kind = float(torch.rand(1, generator=chance))
    near = labels_DHW == 2 if kind < 0.4 else labels_DHW > 0
    places = near.nonzero() if kind < 0.8 else []

    def drawn(least: int, most: int) -> int:
        return int(torch.randint(least, most + 1, (1,), generator=chance))

    row = places[drawn(0, len(places) - 1)].tolist() if len(places) else None
    starts = []
    for axis, size in enumerate(labels_DHW.shape):
        if row:
            middle = row[axis] + drawn(-12, 12)
            starts.append(min(max(0, middle - window // 2), size - window))
        else:
            starts.append(drawn(0, size - window))
    here = tuple(slice(at, at + window) for at in starts)
    flips = [axis for axis in (0, 2) if float(torch.rand(1, generator=chance)) < 0.5]
    return scan_DHW[here].flip(flips), labels_DHW[here].flip(flips).long()


def trained(cases, steps: int, seed: int = 0, batch: int = 2, window: int = 32, rate=5e-3):
    """(Unet, losses of all steps): a network from `cases`, pairs (scan, labels) as prepared.

    Adam with one rise and fall of its rate. The same seed, cases and threads give the same
    network. ValueError without cases.
    """
    if not cases:
        raise ValueError("no cases: at least one is needed to learn from")
    torch.manual_seed(seed)
    chance = torch.Generator().manual_seed(seed)
    net = Unet().to(memory_format=LAST).train()
    optimiser = torch.optim.Adam(net.parameters(), lr=rate)
    told = []
    for step in range(steps):
        share = step / steps
        optimiser.param_groups[0]["lr"] = rate * min(1.0, 10 * share + 0.02, 1.25 * (1 - share))
        some = torch.randint(len(cases), (batch,), generator=chance).tolist()
        pairs = [cut(*cases[one], window, chance) for one in some]
        scans = torch.stack([scan for scan, _ in pairs])[:, None]
        gain = 1 + 0.2 * (torch.rand(batch, 1, 1, 1, 1, generator=chance) - 0.5)
        loss = losses(net(scans * gain), torch.stack([labels for _, labels in pairs]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        told.append(float(loss.detach()))
    return net.eval(), told


def threshold(scan_DHW: torch.Tensor) -> torch.Tensor:
    """(D, H, W): the baseline without a network: kidney between 120 and 230 HU, never
    tumour."""
    low, high = ((at - 101) / 76.9 for at in (120, 230))
    return ((scan_DHW > low) & (scan_DHW < high)).to(torch.uint8)


def load(path=WEIGHTS) -> Folded:
    """The committed network, ready to answer."""
    from safetensors.torch import load_file

    net = Unet()
    net.load_state_dict(load_file(path))
    return folded(net)


def main(argv=None) -> None:
    """Draw the six cases twice, train, write the weights."""
    from helpers import data
    from safetensors.torch import save_file

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    o = parser.parse_args(argv)
    torch.set_num_threads(1)
    folder = data.fetch("kits19", ["*.nii.gz"])
    cases = [
        ct_phantom.reduced(ct_phantom.drawn(folder, name, seed=1000 + draw))
        for draw in range(o.draws)
        for name in ct_phantom.TRAINING
    ]
    net, told = trained(cases, o.steps)
    print(f"{len(told)} steps, losses {told[0]:.2f} to {sum(told[-20:]) / len(told[-20:]):.2f}")
    save_file({name: one.contiguous() for name, one in net.state_dict().items()}, o.out)


if __name__ == "__main__":
    main()
