"""QuartzNet: speech to letters by time-channel separable convolutions (Kriman et al. 2020,
arXiv 1910.10261; layer sizes as in NeMo's `quartznet_15x5.yaml`).

One step is a depthwise convolution (each channel by itself, along time), a pointwise one (all
channels, one instant) and batch normalisation: K C + C C' weights where an ordinary convolution
needs K C C'. A block repeats the step R times, adds its input through a 1x1 convolution, then
applies ReLU. C1 halves the frame rate, five groups of blocks with kernels 33, 39, 51, 63 and 75
follow, then C2 (kernel 87, dilation 2), C3 (1x1) and a 1x1 decoder onto letters and blank.
`width` and `field` are ours: they shrink channels and kernels, for a model that a CPU trains in
minutes. With both at 1, parameters and outputs are NeMo's.

Legend: B batch, F mel bands, T frames, C channels, S output steps (two frames each), V letters
and blank."""

from dataclasses import dataclass

import torch
from torch import nn

VOCABULARY = tuple(" abcdefghijklmnopqrstuvwxyz'")
BLANK = len(VOCABULARY)  # 28: NeMo puts it last
# (kernel, channels) of B1...B5
GROUPS = ((33, 256), (39, 256), (51, 512), (63, 512), (75, 512))


@dataclass(frozen=True)
class BlockSpec:
    """One block: `repeats` steps of one kernel, with or without a residual way around them."""

    channels: int
    kernel: int
    repeats: int = 1
    stride: int = 1
    dilation: int = 1
    residual: bool = False
    separable: bool = True


def block_specs(name, width=1.0, field=1.0):
    """The BlockSpecs of "BxR": those of "15x5" are 18, C1, C2 and C3 around 15 of 5 steps.
    `width` scales channels (to multiples of 8), `field` kernels (to odd numbers). Raises
    ValueError for another name or a scale not above 0."""
    try:
        blocks, repeats = (int(part) for part in name.split("x"))
    except (ValueError, AttributeError):
        blocks = repeats = 0
    if blocks < 1 or blocks % len(GROUPS) or repeats < 1:
        need = 'it is "BxR", B a multiple of 5, R at least 1, as in "15x5" or "5x1"'
        raise ValueError(f"no QuartzNet {name!r}: {need}")
    if not (width > 0 and field > 0):
        raise ValueError(f"width={width}, field={field}: both scale sizes; must be positive")

    def spec(kernel, channels, **options):
        odd = max(1, 2 * round((kernel * field - 1) / 2) + 1)
        return BlockSpec(max(8, 8 * round(channels * width / 8)), odd, **options)

    middle = [
        spec(*group, repeats=repeats, residual=True)
        for group in GROUPS
        for _ in range(blocks // len(GROUPS))
    ]
    ends = spec(87, 512, dilation=2), spec(1, 1024, separable=False)
    return (spec(33, 256, stride=2), *middle, *ends)


class QuartzNet(nn.Module):
    """The network: features (B, F, T), lengths (B,) to log-probabilities (B, S, V), lengths.

    >>> model = QuartzNet.build("15x5", n_outputs=29)
    >>> sum(p.numel() for p in model.parameters())
    18924381

    Weights start as Xavier (Glorot and Bengio 2010), uniform; batch normalisation has epsilon
    1e-3 and momentum 0.1, and in training counts padded frames as well, as NeMo's does."""

    def __init__(self, specs, n_outputs=BLANK + 1, n_mels=64):
        super().__init__()
        self.specs, self.n_outputs, self.n_mels = tuple(specs), n_outputs, n_mels
        inputs = [n_mels, *(spec.channels for spec in self.specs)]
        sizes = zip(inputs, self.specs, strict=False)
        self.blocks = nn.ModuleList(Block(c, spec) for c, spec in sizes)
        self.decoder = nn.Conv1d(inputs[-1], n_outputs, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv1d):
                nn.init.xavier_uniform_(module.weight)

    @classmethod
    def build(cls, name="15x5", n_outputs=BLANK + 1, width=1.0, field=1.0, n_mels=64):
        """The QuartzNet "BxR", published as "5x5", "10x5", "15x5"; smaller: `block_specs`."""
        if n_outputs < 2:
            raise ValueError(f"n_outputs={n_outputs}: a letter and the blank are needed, so 2")
        return cls(block_specs(name, width, field), n_outputs, n_mels)

    def forward(self, features_BFT, frames_B=None):
        """Log-probabilities (B, S, V) in float32, S = T / 2 rounded up; valid steps (B,). What
        lies beyond a length never reaches a valid step. `frames_B=None`: all frames are valid,
        which saves the masks. Raises ValueError for another number of bands, an empty batch of
        frames or lengths beyond T."""
        self._check(features_BFT, frames_B)
        x_BCT, mask, (batch, _, total) = features_BFT, None, features_BFT.shape
        if frames_B is None:
            frames_B = torch.full((batch,), total, device=x_BCT.device)
        else:
            mask = mask_of(frames_B, total, x_BCT.dtype)
        for block in self.blocks:
            x_BCT, frames_B, mask = block(x_BCT, frames_B, mask)
        x_BVS = self.decoder(x_BCT)
        return x_BVS.float().transpose(1, 2).log_softmax(2), frames_B

    @property
    def frames_per_step(self):
        """Frames of 10 ms that one output step covers: the product of the strides."""
        return torch.tensor([spec.stride for spec in self.specs]).prod().item()

    @property
    def receptive_field_frames(self):
        """How many frames can change one output step: 8,057 for "15x5"."""
        field, stride = 1, 1
        for spec in self.specs:
            for step in range(spec.repeats):
                field += (spec.kernel - 1) * spec.dilation * stride
                stride *= spec.stride if step == 0 else 1
        return field

    def _check(self, features_BFT, frames_B):
        shape = tuple(features_BFT.shape)
        if len(shape) != 3 or shape[1] != self.n_mels or not shape[2]:
            need = f"(B, {self.n_mels}, T) with T at least 1"
            raise ValueError(f"features must be {need}, got {shape}")
        if frames_B is not None and frames_B.shape != shape[:1]:
            came = tuple(frames_B.shape)
            raise ValueError(f"one length for each of {shape[0]} utterances, got {came}")
        on_host = frames_B is not None and frames_B.device.type == "cpu"  # else it would wait
        if on_host and (longest := int(frames_B.max())) > shape[2]:
            raise ValueError(f"a length of {longest} frames exceeds the features' {shape[2]}")


class Block(nn.Module):
    """R steps, a way around them, ReLU: (B, C, T) to (B, C', S), with lengths and mask."""

    def __init__(self, inputs, spec):
        super().__init__()
        more = spec.repeats - 1
        sizes = (inputs, spec.stride), *[(spec.channels, 1)] * more  # of the first, the others
        self.steps = nn.ModuleList(Step(width, spec, stride) for width, stride in sizes)
        self.around = nn.Conv1d(inputs, spec.channels, 1, bias=False) if spec.residual else None
        self.around_norm = _norm(spec.channels) if spec.residual else None

    def forward(self, x_BCT, frames_B, mask):
        y_BCT = x_BCT
        for r, step in enumerate(self.steps):
            y_BCT, frames_B, step_mask = step(y_BCT.relu() if r else y_BCT, frames_B, mask)
            if step.stride > 1:
                mask = step_mask
        if self.around is not None:
            y_BCT = y_BCT + self.around_norm(self.around(_masked(x_BCT, mask)))
        return y_BCT.relu(), frames_B, mask


class Step(nn.Module):
    """Depthwise and pointwise (or one ordinary) convolution, then batch normalisation."""

    def __init__(self, inputs, spec, stride):
        super().__init__()
        self.stride, padding = stride, spec.dilation * (spec.kernel - 1) // 2
        options = {"stride": stride, "padding": padding, "dilation": spec.dilation}
        kernel, self.depthwise = spec.kernel, None
        if spec.separable:
            sizes = inputs, inputs, kernel
            self.depthwise = nn.Conv1d(*sizes, groups=inputs, bias=False, **options)
            kernel, options = 1, {}
        self.pointwise = nn.Conv1d(inputs, spec.channels, kernel, bias=False, **options)
        self.norm = _norm(spec.channels)

    def forward(self, x_BCT, frames_B, mask):
        for conv in (self.depthwise, self.pointwise):
            if conv is None:
                continue
            x_BCT = conv(_masked(x_BCT, mask))
            if (stride := conv.stride[0]) > 1:  # odd kernels, padded: only strides shorten
                frames_B = (frames_B - 1) // stride + 1
                mask = None if mask is None else mask_of(frames_B, x_BCT.shape[2], x_BCT.dtype)
        return self.norm(x_BCT), frames_B, mask


def mask_of(frames_B, total, dtype=torch.float32):
    """Ones up to each length and zeros beyond, (B, 1, total) of that dtype."""
    return (torch.arange(total, device=frames_B.device) < frames_B[:, None])[:, None].to(dtype)


def _masked(x_BCT, mask):
    return x_BCT if mask is None else x_BCT * mask


def _norm(channels):
    return nn.BatchNorm1d(channels, eps=1e-3, momentum=0.1)
