"""Clips as tensors, and the training of one system.

All systems get the same clips in the same order and the same rate; seeds differ in weights and
order. Those that only read are cheaper, so the study gives them more steps.
"""

import time

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
        items.append(
            {
                "letters": spell(clip.text),
                "video": frames,
                "mel": mels[at],
                "voice": heard[other],
            }
        )
    return items


def batch_of(items, device="cpu"):
    """Items of `prepare` as one padded batch: letters (B, L), video (B, T, P, P), mel (B, 4 T,
    M), voice (B, 16), frames (B,).
    """
    pad = torch.nn.utils.rnn.pad_sequence
    frames = torch.tensor([len(item["video"]) for item in items])
    batch = {"letters": pad([item["letters"] for item in items], True), "frames": frames}
    batch["video"] = pad([item["video"] for item in items], True).float() / 255
    mels = [item["mel"][: REDUCTION * len(item["video"])] for item in items]
    batch["mel"] = torch.nn.functional.pad(
        pad(mels, True, -1.4), (0, 0, 0, 4 * REDUCTION), value=-1.4
    )  # room to learn the end
    batch["voice"] = torch.stack([item["voice"] for item in items])
    return {name: values.to(device) for name, values in batch.items()}


def train(system, items, steps, seed=0, batch=24, rate=4e-3, device="cpu", told=None):
    """A trained VisualTTS and its losses, a dict of lists: L1, L2 and stop for each step;
    `told(step, parts, seconds)` may watch.
    """
    torch.manual_seed(seed)
    model = VisualTTS(system).to(device)
    optimiser = torch.optim.Adam(model.parameters(), rate)
    plan = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, rate, total_steps=steps, pct_start=max(0.1, 2 / steps)
    )
    draw, losses, began = (
        torch.Generator().manual_seed(seed),
        {"l1": [], "l2": [], "stop": []},
        time.perf_counter(),
    )
    order = []
    for step in range(steps):
        if len(order) < batch:
            order = _epoch(items, batch, draw)
        rows, order = order[:batch], order[batch:]
        loss, parts = loss_of(model(given := batch_of([items[r] for r in rows], device)), given)
        optimiser.zero_grad(), loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step(), plan.step()
        for name, value in parts.items():
            losses[name].append(value)
        if told:
            told(step, parts, time.perf_counter() - began)
    return model.eval(), losses


def _epoch(items, batch, draw):
    """Row numbers of one pass: batches of similar length, in random order, what is left over
    dropped.
    """
    jitter = torch.rand(len(items), generator=draw) * 12
    by_length = torch.argsort(torch.tensor([len(item["video"]) for item in items]) + jitter)
    whole = (
        by_length[: len(items) // batch * batch].view(-1, batch)
        if len(items) >= batch
        else by_length[None]
    )
    return whole[torch.randperm(len(whole), generator=draw)].flatten().tolist() * (
        1 if len(items) >= batch else batch
    )
