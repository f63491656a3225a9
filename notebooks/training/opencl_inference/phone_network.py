"""Two networks like those of the article, as plain PyTorch, and the boxes of a detector.

The article's are MNASNet 1.3 and SSD MobileNet v3 (large), published for 224 and 320 pixels.
Ours are built of the same parts: inverted residual blocks (Sandler et al. 2018), whose table of
widths they follow, and an SSD head on two maps (Liu et al. 2016). The weights are drawn, not
learned: what a kernel computes and how long it takes does not depend on them.

Shapes: `A` anchors a place, `N` anchors in all, `L` classes with the background.
"""

import torch
from torch import nn

SIZES = {"classifier": 224, "detector": 320}  # pixels a side
# widening, channels, repeats, stride of the first: MobileNet v2's table
BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
ANCHORS = 6  # a place


def unit(inputs, outputs, side=3, stride=1, groups=1, clamp=True):
    """Convolution, batch norm and, with `clamp`, the clamp to [0, 6]."""
    conv = nn.Conv2d(inputs, outputs, side, stride, side // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), *([nn.ReLU6()] if clamp else []))


class Block(nn.Module):
    """An inverted residual block: widen, filter each channel, narrow; added to its input."""

    def __init__(self, inputs, outputs, widening, stride):
        super().__init__()
        wide = inputs * widening
        widen = [unit(inputs, wide, 1)] if widening > 1 else []
        filtered = unit(wide, wide, 3, stride, groups=wide)
        self.parts = nn.Sequential(*widen, filtered, unit(wide, outputs, 1, clamp=False))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, image):
        """What the parts make of the image, plus the image where shapes allow it."""
        return image + self.parts(image) if self.adds else self.parts(image)


def backbone(width):
    """(The stem and the blocks up to stride 16, those of stride 32, the channels of both)."""
    channels = [max(8, round(width * c / 8) * 8) for c in (32, *(b[1] for b in BLOCKS))]
    layers, found = [unit(3, channels[0], 3, 2)], channels[0]
    cut = 0
    for at, (widening, _, repeats, stride) in enumerate(BLOCKS):
        if at == 5:
            cut = len(layers)
        for repeat in range(repeats):
            layers.append(Block(found, channels[at + 1], widening, 1 if repeat else stride))
            found = channels[at + 1]
    return nn.Sequential(*layers[:cut]), nn.Sequential(*layers[cut:]), (channels[5], found)


class Classifier(nn.Module):
    """An image to scores of `classes`: the blocks, a mean over places, a linear layer."""

    def __init__(self, width=1.0, classes=1000):
        super().__init__()
        fine, coarse, (_, channels) = backbone(width)
        last = max(64, round(width * 160) * 8)
        self.features = nn.Sequential(fine, coarse, unit(channels, last, 1))
        self.mean, self.scores = nn.AdaptiveAvgPool2d(1), nn.Conv2d(last, classes, 1)

    def forward(self, image):
        """Scores (1, classes, 1, 1) of an image (1, 3, H, W)."""
        return self.scores(self.mean(self.features(image)))


class Decode(nn.Module):
    """Offsets and scores of two maps to boxes and probabilities: no kernel here has it.

    Centres move by a tenth of the anchor's size, sizes by exp of a fifth, which is held within
    exp(±4), since drawn weights could overflow.
    """

    def forward(self, *maps):
        """(N, 4 + L): centre, size, probabilities, in shares of the image's side."""
        rows = []
        for offsets, scores in zip(maps[::2], maps[1::2], strict=True):
            height, width = offsets.shape[-2:]
            boxes = offsets.view(ANCHORS, 4, height, width).permute(2, 3, 0, 1).reshape(-1, 4)
            classes = scores.view(ANCHORS, -1, height, width).permute(2, 3, 0, 1)
            anchors = anchors_of(height, width).to(boxes)
            centre = anchors[:, :2] + 0.1 * boxes[:, :2] * anchors[:, 2:]
            size = anchors[:, 2:] * (0.2 * boxes[:, 2:]).clamp(-4, 4).exp()
            rows.append(torch.cat([centre, size, classes.flatten(0, 2).softmax(-1)], 1))
        return torch.cat(rows)


class Detector(nn.Module):
    """An image to boxes and probabilities: the blocks, and a thin head on two of their maps."""

    def __init__(self, width=1.0, classes=91):
        super().__init__()
        self.fine, self.coarse, channels = backbone(width)
        self.heads = nn.ModuleList(
            nn.Sequential(unit(c, c, 3, groups=c), nn.Conv2d(c, ANCHORS * each, 1))
            for c in channels
            for each in (4, classes)
        )
        self.decode = Decode()

    def forward(self, image):
        """Boxes and probabilities (N, 4 + L) of an image (1, 3, H, W)."""
        return self.decode(*self.maps(image))

    def maps(self, image):
        """Offsets and scores on the map of stride 16, then on that of stride 32."""
        fine = self.fine(image)
        coarse = self.coarse(fine)
        a, b, c, d = self.heads
        return a(fine), b(fine), c(coarse), d(coarse)


def anchors_of(height, width):
    """(places · A, 4): centre and size of the boxes that the offsets start from."""
    ys, xs = ((torch.arange(n) + 0.5) / n for n in (height, width))
    scale = 3 / max(height, width)
    shapes = [(scale * s * r, scale * s / r) for s in (1, 1.5) for r in (1, 2**0.5, 0.5**0.5)]
    places = torch.cartesian_prod(ys, xs).flip(1).repeat_interleave(ANCHORS, 0)
    return torch.cat([places, torch.tensor(shapes).repeat(height * width, 1)], 1)


def drawn(network, size=96, seed=0):
    """The network in `eval`: weights drawn, batch norms set by eight images of noise."""
    chance = torch.Generator().manual_seed(seed)
    for one in network.modules():
        if isinstance(one, nn.Conv2d):
            fan = one.weight[0].numel()
            one.weight.data.normal_(0, (2 / fan) ** 0.5, generator=chance)
            if one.bias is not None:
                one.bias.data.normal_(0, 0.1, generator=chance)
        if isinstance(one, nn.BatchNorm2d):
            one.momentum = None  # a plain mean over what it has seen
    with torch.no_grad():
        network.train()
        for _ in range(8):
            network(torch.randn(1, 3, size, size, generator=chance))
    return network.eval()


def distinct(found, overlap=0.5, least=0.1, most=100):
    """The rows that stay, best first: of boxes that overlap (IoU) the likeliest.

    `found` is (N, 4 + L), class 0 the background. Rows below `least` are dropped.
    """
    score = found[:, 5:].amax(1)
    order = score.argsort(descending=True, stable=True)
    left, kept = order[score[order] >= least], []
    low, high = found[:, :2] - found[:, 2:4] / 2, found[:, :2] + found[:, 2:4] / 2
    area = found[:, 2] * found[:, 3]
    while len(left) and len(kept) < most:
        best, left = left[0], left[1:]
        kept.append(best)
        sides = torch.minimum(high[best], high[left]) - torch.maximum(low[best], low[left])
        shared = sides.clamp(min=0).prod(1)
        left = left[shared / (area[best] + area[left] - shared) <= overlap]
    return found[torch.stack(kept)] if kept else found[:0]
