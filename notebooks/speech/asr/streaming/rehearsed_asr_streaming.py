"""One round of windows as a GPU would run it, the naive way, and a broken one."""

import numpy as np
import torch
from quartznet import load_model

from streaming.windows import StreamOptions, as_batch, computed

MELS = 64
METRICS = {"response_mean_ms": ("response", None)}  # the network's part of it


def ours(sizes, device):
    """A window of each stream, all in one batch: up, through the network, down"""
    model, windows = _ready(sizes["streams"], device)
    return lambda: computed(model, *as_batch(windows))


def response(sizes, device):
    """The window of one stream alone, the least that a response needs of the card"""
    model, windows = _ready(1, device)
    return lambda: computed(model, *as_batch(windows))


def naive(sizes, device):
    """A window of each stream, one after the other"""
    model, windows = _ready(sizes["streams"], device)
    return lambda: np.concatenate([computed(model, *as_batch([window])) for window in windows])


def broken(sizes, device):
    """All in one batch, but each stream's answer is fetched on its own"""
    model, windows = _ready(sizes["streams"], device)

    @torch.inference_mode()
    def answer():
        log_probs_BSV = model(torch.from_numpy(as_batch(windows)[0]).to(device), None)[0]
        return torch.stack([row_SV.cpu() for row_SV in log_probs_BSV])

    return answer


def _ready(streams, device):
    frames = StreamOptions().window_frames
    return load_model(device=device).eval(), [np.zeros((MELS, frames), np.float32)] * streams
