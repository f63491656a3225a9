"""Speech from text, a face, or both: two encoders, an attention to each, and a decoder that
writes a spectrogram.

As the article draws it, around Tacotron's core: text and video encoders; a multi-source
attention; an autoregressive decoder that gets the speaker's embedding; a stop token. One
decoder step writes four spectrogram steps of 10 ms, so a step lasts as long as a video frame.
That makes it small, and untrained attention walks one frame a step, which favours synchrony.
There is no loss of it.

Shapes: `B` clips, `L` letters, `T` frames or decoder steps of 40 ms, `M` mels, `P` pixels.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from .attention import LogisticWalk
from .mel import MELS

__all__ = ["LETTERS", "SYSTEMS", "VisualTTS", "loss_of", "spell"]

LETTERS = " abcdefghijklmnopqrstuvwxyz"
REDUCTION = 4  # spectrogram steps of one decoder step
MOST_STEPS = 150  # 6 s: where a decoder that finds no end is cut off
SYSTEMS = {
    "text": ("text",),
    "length": ("text", "length"),
    "video": ("video",),
    "both": ("text", "video"),
}


def spell(text):
    """The text's letters as numbers, 1 for a space to 27 for "z"; raises ValueError for another
    letter or none.
    """
    if not text or set(text) - set(LETTERS):
        odd = "".join(sorted(set(text) - set(LETTERS)))
        raise ValueError(
            f"text {text[:30]!r}: small letters and spaces are allowed, "
            + (f"not {odd!r}" if odd else "one at least")
        )
    return torch.tensor([LETTERS.index(letter) + 1 for letter in text])


class TextEncoder(nn.Module):
    """Letters (B, L) to (B, L, width): an embedding and two convolutions over five letters."""

    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS) + 1, width, padding_idx=0)
        self.mix = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(2))

    def forward(self, letters_BL):
        seen = self.embed(letters_BL).transpose(1, 2)
        for mix in self.mix:
            seen = seen + F.relu(mix(seen)) * (letters_BL != 0)[:, None]
        return seen.transpose(1, 2)


class FrameNorm(nn.Module):
    """Group normalisation of (B, C, T, P, P) within each frame: no frame, and no padding,
    changes another.
    """

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)

    def forward(self, x_BCTPP):
        batch, channels, frames = x_BCTPP.shape[:3]
        each = x_BCTPP.transpose(1, 2).reshape(batch * frames, channels, *x_BCTPP.shape[3:])
        return self.norm(each).unflatten(0, (batch, frames)).transpose(1, 2)


class VideoEncoder(nn.Module):
    """Frames (B, T, P, P), 0 to 1, to (B, T, width): three 3-D convolutions that see seven
    frames and never halve the time.
    """

    def __init__(self, width, channels=(16, 24, 32), pixels=32):
        super().__init__()
        first = nn.Conv3d(1, channels[0], (3, 5, 5), stride=(1, 4, 4), padding=(1, 2, 2))
        ends = zip(channels, channels[1:], strict=False)
        rest = (nn.Conv3d(a, b, 3, stride=(1, 2, 2), padding=1) for a, b in ends)
        self.see = nn.ModuleList([first, *rest])
        self.norm = nn.ModuleList(FrameNorm(b) for b in channels)
        self.out = nn.Linear(channels[-1] * (pixels // 16) ** 2, width)

    def forward(self, video_BTPP, mask_BT):
        kept = mask_BT[:, :, None, None]
        pixels = mask_BT.sum(1)[:, None, None, None] * video_BTPP[0, 0].numel()
        off = (video_BTPP - (video_BTPP * kept).sum((1, 2, 3), keepdim=True) / pixels) * kept
        seen = off / (off.square().sum((1, 2, 3), keepdim=True) / pixels + 1e-4).sqrt()
        seen = seen[:, None]
        for see, norm in zip(self.see, self.norm, strict=True):
            seen = F.relu(norm(see(seen))) * kept[:, None]
        return torch.tanh(self.out(seen.transpose(1, 2).flatten(2)))


@dataclass
class Said:
    """What a model says: mel (B, 4 T, M), stop logits (B, T), steps of each clip (B,), and each
    source's alignment (B, T, J).
    """

    mel: torch.Tensor
    stop: torch.Tensor
    steps: torch.Tensor
    alignments: dict


class VisualTTS(nn.Module):
    """One of the four systems, by the sources it reads: `VisualTTS("both")`; see SYSTEMS."""

    def __init__(self, system="both", width=48, state=112, voice=16, pixels=32):
        super().__init__()
        if system not in SYSTEMS:
            raise ValueError(f"no system {system!r}: {', '.join(SYSTEMS)} are allowed")
        self.system, self.reads = system, SYSTEMS[system]
        self.state, self.width = state, width
        self.encoders, self.walks = nn.ModuleDict(), nn.ModuleDict()
        if "text" in self.reads:
            self.encoders["text"] = TextEncoder(width)
            self.walks["text"] = LogisticWalk(state, stride=0.25)
        if "video" in self.reads:
            self.encoders["video"] = VideoEncoder(width, pixels=pixels)
            self.walks["video"] = LogisticWalk(state, stride=1.0)
        layers = (nn.Linear(MELS, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.prenet = nn.Sequential(*layers)
        contexts = width * len(self.walks)
        self.cell = nn.LSTMCell(32 + contexts + voice + 2 * ("length" in self.reads), state)
        layers = (nn.Linear(state + contexts + voice, 128), nn.ReLU())
        self.out = nn.Sequential(*layers, nn.Linear(128, REDUCTION * MELS))
        self.stop = nn.Linear(state + contexts, 1)

    def forward(self, batch, teacher=True, dropout=0.5):
        """What it says of a batch (see `training.batch_of`): with `teacher` each step sees the
        true last spectrogram step; without it the model's own, until every clip's stop token
        has come or 6 s are over."""
        sources, masks = self._encoded(batch)
        rows, device = len(batch["voice"]), batch["voice"].device
        steps = batch["mel"].shape[1] // REDUCTION if teacher else MOST_STEPS
        if teacher:
            truth = F.pad(batch["mel"][:, REDUCTION - 1 :: REDUCTION], (0, 0, 1, 0), value=-1.0)
            seen_BTP = self._prenet(truth[:, :steps], dropout)
        last = torch.full((rows, MELS), -1.0, device=device)
        at = self._start(rows, device)
        states, mels, drawn = [], [], {name: [] for name in self.walks}
        ended = batch["frames"] if teacher else torch.full((rows,), steps, device=device)
        for step in range(steps):
            seen = seen_BTP[:, step] if teacher else self._prenet(last, dropout)
            given = [seen, batch["voice"], *self._hint(batch, step)]
            at, weights = self._step(given, at, sources, masks)
            states.append(torch.cat([at["hidden"][0], at["context"]], -1))
            for name, one in weights.items():
                drawn[name].append(one)
            if not teacher:
                mels.append(self._written(states[-1][:, None], batch["voice"]))
                last = mels[-1][:, -1].clamp(-1.4, 2.5)
                told = "length" in self.reads
                over = step + 1 >= batch["frames"] if told else self.stop(states[-1])[:, 0] > 0
                ended = torch.where(over, ended.clamp_max(step + 1), ended)
                if (ended <= step + 1).all():
                    break
        whole_BTH = torch.stack(states, 1)
        mel = self._written(whole_BTH, batch["voice"]) if teacher else torch.cat(mels, 1)
        alignments = {name: torch.stack(one, 1) for name, one in drawn.items()}
        return Said(mel, self.stop(whole_BTH)[..., 0], ended, alignments)

    def _start(self, rows, device):
        """Where a decoder stands before its first step."""
        zeros = tuple(torch.zeros(rows, self.state, device=device) for _ in range(2))
        means = {name: walk.start(rows, device) for name, walk in self.walks.items()}
        context = torch.zeros(rows, self.width * len(self.walks), device=device)
        return {"hidden": zeros, "context": context, "means": means}

    def _step(self, given, at, sources, masks):
        """One step of 40 ms: the cell sees what was said last, the voice, and what attention
        read before; then each attention walks on and reads anew.
        """
        hidden = self.cell(torch.cat([given[0], at["context"], *given[1:]], -1), at["hidden"])
        read, weights, means = {}, {}, {}
        for name, walk in self.walks.items():
            here = (sources[name], masks[name], at["means"][name])
            read[name], weights[name], means[name] = walk(hidden[0], *here)
        context = torch.cat(list(read.values()), -1)
        return {"hidden": hidden, "context": context, "means": means}, weights

    def _prenet(self, mel, dropout):
        """Also when it speaks it forgets half of what it hears of itself, as in Tacotron: that
        keeps it off its own errors.
        """
        return F.dropout(self.prenet(mel), dropout, training=True)

    def _written(self, whole_BTH, voice_BV):
        """Spectrogram steps (B, 4 T, M) of decoder states (B, T, H)."""
        voices = voice_BV[:, None].expand(-1, whole_BTH.shape[1], -1)
        written = self.out(torch.cat([whole_BTH, voices], -1))
        return written.unflatten(-1, (REDUCTION, MELS)).flatten(1, 2)

    def _encoded(self, batch):
        sources, masks = {}, {}
        if "text" in self.reads:
            sources["text"] = self.encoders["text"](batch["letters"])
            masks["text"] = (batch["letters"] != 0).float()
        if "video" in self.reads:
            frames = torch.arange(batch["video"].shape[1], device=batch["voice"].device)
            masks["video"] = (frames < batch["frames"][:, None]).float()
            sources["video"] = self.encoders["video"](batch["video"], masks["video"])
        return sources, masks

    def _hint(self, batch, step):
        if "length" not in self.reads:
            return []
        left = (batch["frames"] - step).clamp_min(0)
        return [torch.stack([batch["frames"], left], -1).float() / 50]


def loss_of(said, batch):
    """The loss, and its parts as floats: L1 and L2 of the spectrogram within each clip, and of
    the stop token.
    """
    steps = torch.arange(said.stop.shape[1], device=said.stop.device)
    within = steps < batch["frames"][:, None]
    inside = within.repeat_interleave(REDUCTION, 1)
    off = (said.mel - batch["mel"])[inside]
    last = (steps >= batch["frames"][:, None] - 1).float()
    told, rare = steps < batch["frames"][:, None] + 4, torch.tensor(4.0, device=off.device)
    entropy = F.binary_cross_entropy_with_logits
    stop = entropy(said.stop[told], last[told], pos_weight=rare)
    parts = {"l1": off.abs().mean(), "l2": off.square().mean(), "stop": stop}
    return sum(parts.values()), {name: float(part.detach()) for name, part in parts.items()}
