"""A small pre-activation residual network (He et al. 2016): batch norm, ReLU, convolution,
twice, and the input added; the kind that the article reports, with one block per width.

Legend: B images, C channels, H height, W width.
"""

from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """x_BCHW -> (B, C', H/stride, W/stride); a 1 x 1 convolution where the shape changes."""

    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(channels_in), nn.BatchNorm2d(channels_out)
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        same = channels_in == channels_out and stride == 1
        self.shortcut = (
            None if same else nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)
        )

    def forward(self, x_BCHW):
        """The block's output."""
        active = F.relu(self.norm1(x_BCHW))
        kept = x_BCHW if self.shortcut is None else self.shortcut(active)
        return kept + self.conv2(F.relu(self.norm2(self.conv1(active))))


class SmallResNet(nn.Module):
    """Images x_BCHW (float, standardised) -> logits (B, classes). Widths w, 2w and 4w, the stem
    halves the image. dropout: the chance that a feature before the last layer is dropped."""

    def __init__(self, width=16, channels=1, classes=10, dropout=0.0):
        super().__init__()
        self.stem = nn.Conv2d(channels, width, 3, 2, 1, bias=False)
        widths = [(width, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2)]
        self.blocks = nn.Sequential(*[Block(*one) for one in widths])
        self.norm, self.dropout = nn.BatchNorm2d(4 * width), nn.Dropout(dropout)
        self.head = nn.Linear(4 * width, classes)

    def features(self, x_BCHW):
        """What the last layer reads, (B, 4 width)."""
        return F.relu(self.norm(self.blocks(self.stem(x_BCHW)))).mean((2, 3))

    def forward(self, x_BCHW):
        """The logits."""
        return self.head(self.dropout(self.features(x_BCHW)))
