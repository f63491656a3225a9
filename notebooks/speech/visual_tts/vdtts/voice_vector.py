"""A voice as a vector: a small network that tells speakers apart, and whose last layer but one
is then kept (a d-vector).

Variani et al. (2014) took the averaged last hidden layer of a speaker classifier. Ours has two
convolutions over log-mels; a clip's mean is projected to 16 numbers of length 1. The
synthesiser gets the vector of *another* clip of the same speaker.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .mel import MELS

__all__ = ["VoiceVector", "train_voices"]


class VoiceVector(nn.Module):
    """Log-mels (B, S, M) to vectors (B, 16) of length 1; steps of silence are left out of the
    mean.
    """

    def __init__(self, size=16, width=48):
        super().__init__()
        layers = (nn.Conv1d(MELS, width, 5), nn.ReLU(), nn.Conv1d(width, width, 5), nn.ReLU())
        self.hear = nn.Sequential(*layers)
        self.out = nn.Linear(width, size)

    def forward(self, mel_BSM):
        sounding = (mel_BSM.mean(-1) > -0.9).float()[:, 4:-4, None]
        heard = self.hear(mel_BSM.transpose(1, 2)).transpose(1, 2)
        mean = (heard * sounding).sum(1) / sounding.sum(1).clamp_min(1)
        return F.normalize(self.out(mean), dim=-1)


def train_voices(mels, speakers, steps=200, seed=0):
    """A VoiceVector that was trained to name the speakers of log-mels [(S, M)], a second of
    each at a time; and its last accuracy.
    """
    torch.manual_seed(seed)
    names = sorted(set(speakers))
    wanted = torch.tensor([names.index(name) for name in speakers])
    network, classes = VoiceVector(), nn.Linear(16, len(names), bias=False)
    optimiser = torch.optim.Adam([*network.parameters(), *classes.parameters()], 3e-3)
    for _ in range(steps):
        rows = torch.randint(len(mels), (48,))
        at = [int(torch.randint(max(1, len(mels[r]) - 100), ())) for r in rows]
        piece = torch.stack([mels[r][a : a + 100] for r, a in zip(rows, at, strict=True)])
        logits = 8 * network(piece) @ F.normalize(classes.weight, dim=-1).T
        loss = F.cross_entropy(logits, wanted[rows])
        optimiser.zero_grad(), loss.backward(), optimiser.step()
    right = (logits.argmax(-1) == wanted[rows]).float().mean()
    return network.eval().requires_grad_(False), float(right)
