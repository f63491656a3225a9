"""A small neural vocoder: convolutions write magnitude and phase of a short-time Fourier
transform, whose inverse is the sound.

After Vocos (Siuzdak 2023), without its discriminators: blocks of a depthwise convolution and
two dense layers at one step of 10 ms each. Trained on log-mels and their sounds, then frozen.
At tier `cpu` it is a miniature that has hardly begun.

Shapes: `B` pieces, `S` steps, `M` mels, `F` = 513 bins.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .mel import FFT, HOP, MELS, _istft, log_mel

__all__ = ["NeuralVocoder", "train_vocoder"]


class _Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.along = nn.Conv1d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.wide, self.back = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x_BSW):
        y = self.norm(self.along(x_BSW.transpose(1, 2)).transpose(1, 2))
        return x_BSW + self.back(F.gelu(self.wide(y)))


class NeuralVocoder(nn.Module):
    """Log-mels (B, S, M) to sounds (B, 160 S)."""

    def __init__(self, width=96, blocks=3):
        super().__init__()
        self.into = nn.Conv1d(MELS, width, 7, padding=3)
        self.blocks = nn.Sequential(*(_Block(width) for _ in range(blocks)))
        self.out = nn.Linear(width, FFT + 2)

    def forward(self, mel_BSM):
        seen = self.blocks(self.into(mel_BSM.transpose(1, 2)).transpose(1, 2))
        size, turn = self.out(seen).transpose(1, 2).chunk(2, 1)
        spectrum = torch.polar(size.clamp(-10, 6).exp(), turn)
        return _istft(torch.cat([spectrum, spectrum[..., -1:]], -1), HOP * mel_BSM.shape[1])


def train_vocoder(sounds, steps, width=96, blocks=3, batch=8, steps_long=64, device="cpu"):
    """A trained, frozen vocoder and its losses: L1 of log-mels and of log magnitudes at three
    resolutions, on pieces of sounds.
    """
    torch.manual_seed(0)
    network, losses = NeuralVocoder(width, blocks).to(device), []
    optimiser = torch.optim.AdamW(network.parameters(), 1e-3)
    long = HOP * steps_long
    for _ in range(steps):
        rows = torch.randint(len(sounds), (batch,)).tolist()
        starts = [int(torch.randint(max(1, len(sounds[r]) - long), ())) for r in rows]
        cut = [sounds[r][a : a + long] for r, a in zip(rows, starts, strict=True)]
        true = torch.stack([torch.as_tensor(piece) for piece in cut]).to(device)
        said = network(wanted := log_mel(true))
        loss = 5 * F.l1_loss(log_mel(said), wanted)
        loss = loss + sum(_far(said, true, size) for size in (256, 512, 1024))
        optimiser.zero_grad(), loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
    return network.eval().requires_grad_(False), losses


def _far(said, true, size):
    how = {"window": torch.hann_window(size, device=said.device), "return_complex": True}
    both = (torch.stft(x, size, size // 4, **how).abs() for x in (said, true))
    return F.l1_loss(*(one.clamp_min(1e-4).log() for one in both))
