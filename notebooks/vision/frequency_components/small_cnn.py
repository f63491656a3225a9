"""A small convolutional network with or without batch norm, and batch norm's two modes.

Three convolutions, the first of 5 × 5 so that its kernels can be seen, and one linear layer.
Without batch norm its convolutions have biases; with it, the norm's own offset stands for them.

Legend: B images, C channels, H height, W width, K classes.
"""

import contextlib

import torch
from torch import nn


class SmallCNN(nn.Module):
    """Images x_BCHW between 0 and 1 -> logits (B, K): convolutions of w, 2w (stride 2), 2w (2).

    side: of the square images. dropout: the chance that a feature of the last layer is dropped.
    """

    def __init__(self, width=16, channels=1, side=28, classes=10, norm=False, dropout=0.0):
        super().__init__()
        twice, layers = 2 * width, []
        sizes = ((channels, width, 5, 1), (width, twice, 3, 2), (twice, twice, 3, 2))
        for inner, outer, kernel, stride in sizes:
            layers.append(nn.Conv2d(inner, outer, kernel, stride, kernel // 2, bias=not norm))
            layers += [nn.BatchNorm2d(outer)] * norm + [nn.ReLU()]
        last = -(-side // 4)
        self.features = nn.Sequential(*layers, nn.Flatten(), nn.Dropout(dropout))
        self.head = nn.Linear(2 * width * last * last, classes)
        self.to(memory_format=torch.channels_last)  # faster on a CPU for few channels

    def forward(self, x_BCHW):
        return self.head(self.features(x_BCHW))


def first_kernels(model):
    """The kernels of the first convolution, (out, in, height, width), detached."""
    return next(m for m in model.modules() if isinstance(m, nn.Conv2d)).weight.detach()


@contextlib.contextmanager
def batch_statistics(model):
    """Within the block, batch norms use the statistics of the batch at hand.

    So did the original's code at test time. The running statistics are left as they are.
    """
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    kept = [(norm.training, norm.track_running_stats) for norm in norms]
    for norm in norms:
        norm.training, norm.track_running_stats = True, False
    try:
        yield model
    finally:
        for norm, (training, track) in zip(norms, kept, strict=True):
            norm.training, norm.track_running_stats = training, track
