"""Clips as tensors, and the training of one system.

All systems get the same clips in the same order and the same rate; seeds differ in weights and
order. Those that only read are cheaper, so the study gives them more steps.
"""

import time
from collections import defaultdict

import torch

from .mel import log_mel
from .model import REDUCTION, VisualTTS, loss_of, spell

__all__ = ["batch_of", "mel_of", "prepare", "train"]


def mel_of(clip):
    """The log-mel of a clip's sound, (4 T, M)."""
    return log_mel(torch.from_numpy(clip.sound_N)[None])[0]


def prepare(clips, voices, view="face"):
    """One dict of tensors for each clip; its voice vector comes from the next clip of the same
    speaker.

    `voices`: a VoiceVector. A speaker's only clip has to do with its own vector.
    """
    mels = [mel_of(clip) for clip in clips]
    heard = [voices(mel[None])[0] for mel in mels]
    items = []
    for at, clip in enumerate(clips):
        others = [n for n, other in enumerate(clips) if other.speaker == clip.speaker]
        other = others[(others.index(at) + 1) % len(others)]
        frames = torch.from_numpy(clip.face_THW if view == "face" else clip.mouth_THW)
        item = {"letters": spell(clip.text), "video": frames, "mel": mels[at]}
        items.append(item | {"voice": heard[other]})
    return items


def batch_of(items, device="cpu"):
    """Items of `prepare` as one padded batch: letters (B, L), video (B, T, P, P), mel (B, 4 T,
    M), voice (B, 16), frames (B,).
    """
    pad, quiet = torch.nn.utils.rnn.pad_sequence, -1.4
    batch = {"letters": pad([item["letters"] for item in items], True)}
    batch["frames"] = torch.tensor([len(item["video"]) for item in items])
    batch["video"] = pad([item["video"] for item in items], True).float() / 255
    mels = pad([one["mel"][: REDUCTION * len(one["video"])] for one in items], True, quiet)
    room = (0, 0, 0, 4 * REDUCTION)  # to learn the end
    batch["mel"] = torch.nn.functional.pad(mels, room, value=quiet)
    batch["voice"] = torch.stack([item["voice"] for item in items])
    return {name: values.to(device) for name, values in batch.items()}


def train(system, items, steps, seed=0, batch=24, rate=4e-3, device="cpu"):
    """A trained VisualTTS, which knows the `seconds` of a core that it took, and its
    losses, a dict of lists: L1, L2 and stop for each step.
    """
    torch.manual_seed(seed)
    model, losses, began = VisualTTS(system).to(device), defaultdict(list), time.process_time()
    optimiser, rise = torch.optim.Adam(model.parameters(), rate), max(0.1, 2 / steps)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, steps, pct_start=rise)
    draw, order = torch.Generator().manual_seed(seed), []
    for _ in range(steps):
        if len(order) < batch:
            order = _epoch(items, batch, draw)
        rows, order = order[:batch], order[batch:]
        loss, parts = loss_of(model(given := batch_of([items[r] for r in rows], device)), given)
        optimiser.zero_grad(), loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step(), plan.step()
        for name, value in parts.items():
            losses[name].append(value)
    model.seconds = time.process_time() - began
    return model.eval(), losses


def _epoch(items, batch, draw):
    """Row numbers of one pass: batches of similar length, in random order, what is left over
    dropped; of fewer clips than a batch, all of them again and again.
    """
    jitter = torch.rand(len(items), generator=draw) * 12
    rows = torch.argsort(torch.tensor([len(item["video"]) for item in items]) + jitter)
    if len(items) < batch:
        return rows.tolist() * batch
    whole = rows[: len(items) // batch * batch].view(-1, batch)
    return whole[torch.randperm(len(whole), generator=draw)].flatten().tolist()
