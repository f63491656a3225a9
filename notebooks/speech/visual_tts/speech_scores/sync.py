"""Do a mouth and a sound belong together? A scorer after SyncNet, and its distance and
confidence.

Two networks map 0.2 s of video (five frames) and 0.2 s of sound to vectors of length 1; it is
trained so that pairs of one moment are nearer than pairs of other moments of the clip. With v_n
and a_n those of frame n,

    d_n(k) = |v_n - a_{n+k}|,   distance = min_k mean_n d_n(k),   confidence = median_k - min_k,
    |k| <= 15.

Chung and Zisserman (2016) trained with another loss, on real faces; so our numbers compare rows
here, and nothing outside. The scorer has to be trained on speakers that the synthesiser is not
tested with.

Shapes: `B` clips, `T` frames, `S` = 4 T steps of sound, `M` mels, `P` pixels, `E` numbers of a
vector, `K` = 31 offsets.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

__all__ = ["SyncScorer", "offset_distances", "offset_distances_reference", "silence_overlap"]
__all__ += ["sync_scores", "train_scorer"]

MOST = 15


class SyncScorer(nn.Module):
    """`scorer(video, mel)`: vectors of both, (B, T-4, E) each, for moments of five frames."""

    def __init__(self, mels=80, size=32):
        super().__init__()
        self.see = nn.Sequential(
            nn.Conv3d(1, 16, (3, 5, 5), stride=(1, 4, 4), padding=(0, 2, 2)),
            nn.ReLU(),
            nn.Conv3d(16, 32, 3, stride=(1, 2, 2), padding=(0, 1, 1)),
            nn.ReLU(),
        )
        self.seen = nn.Linear(32 * 16, size)
        layers = (nn.Conv1d(mels, 48, 20, stride=4), nn.ReLU(), nn.Conv1d(48, size, 1))
        self.hear = nn.Sequential(*layers)

    def forward(self, video_BTPP, mel_BSM):
        still = video_BTPP.mean(1, keepdim=True)  # who it is, and the light
        seen = self.see((video_BTPP - still)[:, None] * 4).transpose(1, 2).flatten(2)
        heard = self.hear(mel_BSM.transpose(1, 2)).transpose(1, 2)
        return F.normalize(self.seen(seen), dim=-1), F.normalize(heard, dim=-1)


def train_scorer(items, steps=300, batch=12, seed=0):
    """A trained scorer, and the share of moments it finds among those of their clip, in the
    last step.

    `items`: dicts with "video", uint8 (T, P, P), and "mel", (4 T, M). Each moment has to find
    its sound among its clip's, and back.
    """
    torch.manual_seed(seed)
    scorer = SyncScorer(items[0]["mel"].shape[1])
    optimiser = torch.optim.Adam(scorer.parameters(), 2e-3)
    shortest = min(len(item["video"]) for item in items)
    for _ in range(steps):
        rows = [items[int(r)] for r in torch.randint(len(items), (batch,))]
        starts = [int(torch.randint(len(row["video"]) - shortest + 1, ())) for row in rows]
        at = list(zip(rows, starts, strict=True))
        video = torch.stack([row["video"][a : a + shortest] for row, a in at]).float() / 255
        mel = torch.stack([row["mel"][4 * a : 4 * (a + shortest)] for row, a in at])
        seen, heard = scorer(video, mel)
        alike_BTT = 10 * seen @ heard.transpose(1, 2)
        wanted = torch.arange(alike_BTT.shape[1]).expand(batch, -1)
        there, back = alike_BTT.transpose(1, 2), alike_BTT
        loss = F.cross_entropy(there, wanted) + F.cross_entropy(back, wanted)
        optimiser.zero_grad(), loss.backward(), optimiser.step()
    found = (alike_BTT.argmax(-1) == wanted).float().mean()
    return scorer.eval().requires_grad_(False), float(found)


def offset_distances(seen_TE, heard_TE):
    """The mean distance at each offset -15 to 15, (31,): sound k frames later than the picture
    for k above 0.

    Raises ValueError unless both have the same shape with 16 moments or more.
    """
    if seen_TE.shape != heard_TE.shape or len(seen_TE) <= MOST:
        told = f"{tuple(seen_TE.shape)} and {tuple(heard_TE.shape)}"
        raise ValueError(
            f"vectors of shapes {told}: equal ones of more than {MOST} moments are allowed"
        )
    moments, found = len(seen_TE), []
    for k in range(-MOST, MOST + 1):
        seen = seen_TE[max(0, -k) : moments - max(0, k)]
        heard = heard_TE[max(0, k) : moments + min(0, k)]
        found.append((seen - heard).norm(dim=-1).mean())
    return torch.stack(found)


def offset_distances_reference(seen, heard):
    """The same by plain loops over lists of vectors."""
    found = []
    for k in range(-MOST, MOST + 1):
        pairs = [(v, heard[n + k]) for n, v in enumerate(seen) if 0 <= n + k < len(heard)]
        far = (sum((a - b) ** 2 for a, b in zip(v, w, strict=True)) ** 0.5 for v, w in pairs)
        found.append(sum(far) / len(pairs))
    return found


def sync_scores(scorer, video_TPP, mel_SM):
    """{"distance", "confidence", "offset"}: floats; the offset in frames, above 0 where the
    sound is late.
    """
    seen, heard = scorer(video_TPP[None].float() / 255, mel_SM[None])
    found_K = offset_distances(seen[0], heard[0])
    least, offset = found_K.min(), int(found_K.argmin()) - MOST
    confidence = float(found_K.median() - least)
    return {"distance": float(least), "confidence": confidence, "offset": offset}


def silence_overlap(said_N, true_N, share=0.05):
    """Where both sounds are silent over where either is, in steps of 10 ms at 16 kHz: 1 when
    all pauses agree.

    A step is silent below `share` of the 95th percentile of its sound's levels. Both need one
    length.
    """
    if len(said_N) != len(true_N) or not np.isfinite([said_N, true_N]).all():
        raise ValueError(
            f"sounds of {len(said_N)} and {len(true_N)} samples: two finite ones of one length "
            "are allowed"
        )
    quiet = []
    for sound_N in (said_N, true_N):
        pieces = np.asarray(sound_N)[: len(sound_N) // 160 * 160].reshape(-1, 160)
        level = np.sqrt((pieces**2).mean(1))
        quiet.append(level < share * max(np.quantile(level, 0.95), 1e-6))
    return float((quiet[0] & quiet[1]).sum() / max((quiet[0] | quiet[1]).sum(), 1))
