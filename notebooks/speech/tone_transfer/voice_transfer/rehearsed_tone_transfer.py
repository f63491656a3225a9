"""A decoder's training step as a GPU would run it, the plain synthesiser, and a broken one.

`make predict` counts them without a GPU. The decoder has random weights: what is counted does
not depend on them.
"""

import functools

import torch
from harmonic_synth import oscillators as hs
from sound_features import analysis as sf
from sound_features.loss import spectral_loss
from tone_decoder import networks as td
from tone_decoder import training as tt

BATCH, FRAMES = 16, 250
AHEAD = {
    "naive": "blocks are for a CPU, whose cache they fit; on a card each block launches its "
    "kernels anew, and the memory holds all sines at once"
}


def ours(sizes, device):
    """Sound of sixteen seconds and its loss: the bank in blocks whose sines are made
    once each
    """
    return _step(device, hs.synthesise)


def naive(sizes, device):
    """The same with the sines of all sixteen seconds made at once"""
    return _step(device, functools.partial(hs.synthesise, block=FRAMES))


def broken(sizes, device):
    """The same as ours, but each sound and its loss are fetched on their own"""
    return _step(device, hs.synthesise, each=True)


def _step(device, make, each=False):
    """A function that plays a batch and gives (its sound, the loss of each)."""
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
        if each:
            return [torch.stack([one.cpu() for one in part]) for part in (sound, losses)]
        return sound, losses

    return step
