"""From pitch and loudness to the controls of the synthesiser: a recurrent network, and a
convolutional one.

The recurrent one is the paper's (Engel et al. 2020): stacks of dense layers around a GRU,
4,801,150 weights, or 232,314 in its tiny form. The convolutional one stands for the article's,
whose layers are not published: causal convolutions whose reach doubles, so that it runs chunk
by chunk as well. Both give 1 + 60 + 65 numbers a frame: amplitude, partials, bands of noise.

Shapes: `B` sounds, `T` frames, `C` channels, `K` = 60 partials, `M` = 65 bands.
"""

import math
from typing import NamedTuple

import torch
from torch import nn

PARTIALS, BANDS = 60, 65
NOISE_BIAS = -5.0  # noise starts quiet
# of the recurrent decoder, counted from its published layers
WEIGHTS = {"paper": 4_801_150, "tiny": 232_314}


class Controls(NamedTuple):
    """What drives the synthesiser: amplitude (B, T), partials (B, T, 60), noise (B, T, 65), all
    positive.
    """

    amplitude: torch.Tensor
    partials: torch.Tensor
    noise: torch.Tensor


def exp_sigmoid(x):
    """2·σ(x)^ln 10 + 1e-7: positive, at most 2, a factor of ten for each step where σ
    is small.
    """
    return 2 * torch.sigmoid(x) ** math.log(10) + 1e-7


def controls(raw_BTO):
    """`Controls` of a decoder's plain output (B, T, 126)."""
    amplitude, partials, noise = raw_BTO.split([1, PARTIALS, BANDS], -1)
    parts = amplitude[..., 0], partials, noise + NOISE_BIAS
    return Controls(*map(exp_sigmoid, parts))


def inputs(f0_BT, loudness_BT):
    """What a decoder reads, (B, T, 2), float32: pitch as MIDI / 127, and loudness."""
    pitch = 69 + 12 * torch.log2(f0_BT.clamp_min(1e-3) / 440)
    return torch.stack([pitch / 127, loudness_BT], -1).float()


def centred(x_BT2):
    """The inputs brought to about −1 to 1: an octave is 0.09 of MIDI / 127, which a network
    learns slowly. Part of each decoder, so that an exported one has it, too.
    """
    return (x_BT2 - x_BT2.new_tensor([0.55, 0.5])) * x_BT2.new_tensor([8.0, 3.0])


def stack(entries, width, layers):
    """`layers` times dense, layer norm, leaky ReLU."""
    made = []
    for number in range(layers):
        made += [nn.Linear(width if number else entries, width), nn.LayerNorm(width)]
        made.append(nn.LeakyReLU(0.2))
    return nn.Sequential(*made)


class RecurrentDecoder(nn.Module):
    """The paper's decoder: `RecurrentDecoder(512, 3)`, or `RecurrentDecoder(256, 0)`, its tiny
    form.
    """

    def __init__(self, width=512, layers=3):
        super().__init__()
        self.width = width
        self.before = nn.ModuleList(stack(1, width, layers) for _ in range(2 * bool(layers)))
        read = 2 * width if layers else 2
        self.gru = nn.GRU(read, width, batch_first=True)
        self.after = stack(read + width, width, layers) if layers else nn.Identity()
        self.out = nn.Linear(width if layers else read + width, 1 + PARTIALS + BANDS)

    def forward(self, x_BT2, state=None):
        """(plain output (B, T, 126), state): the state is the GRU's, [(1, B, width)]."""
        x_BT2 = centred(x_BT2)
        if self.before:
            parts = [part(x_BT2[..., i : i + 1]) for i, part in enumerate(self.before)]
            x_BT2 = torch.cat(parts, -1)
        made, last = self.gru(x_BT2, *(state or ()))
        return self.out(self.after(torch.cat([x_BT2, made], -1))), [last]

    def start(self, like):
        """The state before the first frame: zeros."""
        return [like.new_zeros(1, like.shape[0], self.width)]


class ConvolutionalDecoder(nn.Module):
    """Causal convolutions of three frames whose reach doubles layer by layer:
    `ConvolutionalDecoder(64)`.

    Six layers see 127 frames, half a second back.
    """

    def __init__(self, channels=64, layers=6):
        super().__init__()
        self.channels, self.reaches = channels, [2 * 2**layer for layer in range(layers)]
        self.read = nn.Linear(2, channels)
        self.layers = nn.ModuleList(
            nn.Conv1d(channels, channels, 3, dilation=2**layer) for layer in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(layers))
        self.out = nn.Linear(channels, 1 + PARTIALS + BANDS)

    def forward(self, x_BT2, state=None):
        """(plain output (B, T, 126), state): the state is the frames that each layer still
        looks back at.
        """
        x_BTC = self.read(centred(x_BT2))
        state = self.start(x_BTC) if state is None else state
        kept = []
        for layer, norm, past in zip(self.layers, self.norms, state, strict=True):
            wide_BCT = torch.cat([past, norm(x_BTC).transpose(1, 2)], 2)
            kept.append(wide_BCT[:, :, wide_BCT.shape[2] - past.shape[2] :])
            x_BTC = x_BTC + nn.functional.leaky_relu(layer(wide_BCT), 0.2).transpose(1, 2)
        return self.out(x_BTC), kept

    def start(self, like):
        """The state before the first frame: zeros."""
        return [like.new_zeros(like.shape[0], self.channels, reach) for reach in self.reaches]


def count(network):
    """How many weights a network has."""
    return sum(weights.numel() for weights in network.parameters())
