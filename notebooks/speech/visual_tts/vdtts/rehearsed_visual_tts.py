"""One training step's forward pass as a GPU would run it, clip by clip, and with a read of the
host in each step.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch

from vdtts import VisualTTS, batch_of, spell


def ours(sizes, device):
    """All clips in one batch, through encoders, attention and decoder"""
    model, items = _ready(sizes["count"], device)
    batch = batch_of(items, device)
    return torch.inference_mode()(lambda: model(batch).mel)


def naive(sizes, device):
    """One clip after the other"""
    model, items = _ready(sizes["count"], device)
    batches = [batch_of([item], device) for item in items]
    return torch.inference_mode()(lambda: torch.cat([model(batch).mel for batch in batches]))


def broken(sizes, device):
    """All in one batch, but each clip's mel spectrogram is fetched on its own"""
    model, items = _ready(sizes["count"], device)
    batch = batch_of(items, device)
    return torch.inference_mode()(lambda: torch.stack([one.cpu() for one in model(batch).mel]))


def _ready(count, device, frames=3):  # each frame costs the same kernels: few will do
    video = torch.zeros(frames, 32, 32, dtype=torch.uint8)
    item = {"letters": spell("seven one five"), "video": video}
    item |= {"mel": torch.zeros(4 * frames, 80), "voice": torch.zeros(16)}
    return VisualTTS("both").to(device).eval(), [item] * count
