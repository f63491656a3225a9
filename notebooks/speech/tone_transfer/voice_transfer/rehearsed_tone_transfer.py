"""A decoder's training step as a GPU would run it, the plain synthesiser, and a broken one.

`make predict` counts them without a GPU. The decoder has random weights: what is counted does
not depend on them. The step is small, so a card waits for launches: the naive one, which keeps
every envelope, is predicted faster at these sizes where it launches fewer kernels.
"""

import torch
from harmonic_synth import oscillators as hs
from sound_features import analysis as sf
from sound_features.loss import spectral_loss
from tone_decoder import networks as td
from tone_decoder import training as tt

BATCH, FRAMES = 16, 250


def ours(sizes, device):
    """Sound of sixteen seconds and its loss: the bank in blocks whose sines are made
    once each
    """
    return _step(device, hs.synthesise)


def naive(sizes, device):
    """The same with all sines of a second made at once; predicted faster on a card, whose
    memory is large and whose launches cost
    """
    return _step(device, _whole)


def broken(sizes, device):
    """The same as ours, but the host reads the loss of each sound"""
    step = _step(device, hs.synthesise, each=True)
    return step


def _whole(f0, amplitude, harmonics, rate, hop):
    partials = amplitude[..., None] * hs.below_nyquist(f0, harmonics, rate)
    held = [torch.cat([one, one[:, -1:]], 1) for one in (f0, partials)]
    return hs.bank(*held, rate, hop, block=FRAMES)[0]


def _step(device, make, each=False):
    """A function that plays a batch and gives its loss."""
    random = torch.Generator().manual_seed(0)
    decoder = tt.new_decoder("conv64").to(device)
    f0 = (200 + 400 * torch.rand(BATCH, FRAMES, generator=random)).to(device)
    loud, wanted = (
        torch.rand(BATCH, n, generator=random).to(device) for n in (FRAMES, FRAMES * sf.HOP)
    )

    @torch.inference_mode()
    def step():
        made = td.controls(decoder(td.inputs(f0, loud))[0])
        sound = make(f0, made.amplitude, made.partials, sf.SAMPLE_RATE, sf.HOP)
        losses = spectral_loss(sound, wanted, each=True)
        return sum(float(one) for one in losses) if each else losses.mean()

    return step
