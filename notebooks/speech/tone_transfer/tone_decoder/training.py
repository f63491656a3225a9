"""Teaching an instrument to a decoder: crops of a second, the spectral loss, Adam.

Nothing in the synthesiser is trained, and pitch is given, so its sines need no gradient: only
the product after them does.

Shapes: `B` crops, `N` samples, `T` frames.
"""

import math
from typing import NamedTuple

import torch
from harmonic_synth import oscillators as hs
from sound_features import analysis as sf
from sound_features.loss import spectral_loss

from . import networks as td

RATE, CLIP = 2e-3, 3.0  # of Adam; the largest norm of a gradient
# A start that is ten times too loud is muted at once, and in a wide network for good: noise
# alone learns on. So the rate rises over these steps, and the first amplitude is about 0.06.
WARM, QUIET = 50, -1.5
CROP = 250  # frames: a second


class Recording(NamedTuple):
    """A sound (N,), float32, and its `Features` of N // 64 frames, with pitch held where there
    is none.
    """

    sound: torch.Tensor
    f0: torch.Tensor
    loudness: torch.Tensor
    voiced: torch.Tensor


def recording(sound_N, energy="loudness"):
    """The `Recording` of a sound: what it sounds like and what drives it; `energy` may be "rms"
    instead.
    """
    found = sf.features(sound_N)
    f0 = sf.held(found.f0, found.voiced).float()
    rms = (1 + 20 * torch.log10(found.rms.clamp_min(1e-6) * 2**0.5) / sf.RANGE_DB).clamp(0, 1)
    loud = {"loudness": found.loudness, "rms": rms}[energy].float()
    return Recording(torch.as_tensor(sound_N).float(), f0, loud, found.voiced)


def play(decoder, f0_BT, loudness_BT, seed=0):
    """Sound of shape (B, T·64): a decoder's controls through oscillators and noise."""
    controls = td.controls(decoder(td.inputs(f0_BT, loudness_BT))[0])
    tone = hs.synthesise(f0_BT, controls.amplitude, controls.partials, sf.SAMPLE_RATE, sf.HOP)
    return tone + hs.whole_noise(controls.noise, sf.HOP, seed=seed)


def crops(recordings, batch, generator, frames=CROP):
    """A batch as (sound (B, N), f0 (B, T), loudness (B, T)): places drawn evenly over all
    recordings.
    """
    lengths = torch.tensor([len(one.f0) - frames for one in recordings], dtype=torch.float64)
    if (lengths < 1).any():
        raise ValueError(
            f"a recording is shorter than {frames + 1} frames of 4 ms: join it with "
            "another, or leave it out"
        )
    found = []
    for which in torch.multinomial(lengths, batch, True, generator=generator).tolist():
        one = recordings[which]
        at = int(torch.randint(int(lengths[which]), (), generator=generator))
        sound = one.sound[at * sf.HOP : (at + frames) * sf.HOP]
        found.append((sound, one.f0[at : at + frames], one.loudness[at : at + frames]))
    return tuple(torch.stack(part) for part in zip(*found, strict=True))


def train(decoder, recordings, steps, batch=8, seed=0, rate=RATE):
    """The losses of all steps, shape (steps,); `decoder` is trained in place, its rate falls
    along a cosine.

    Raises FloatingPointError where the loss is no number.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = list(decoder.parameters())
    adam = torch.optim.Adam(weights, rate)
    rates = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: _share(step, steps))
    losses = []
    for step in range(steps):
        sound, f0, loudness = crops(recordings, batch, generator)
        loss = spectral_loss(play(decoder, f0, loudness, seed=step), sound)
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"the loss is {loss.item()} at step {step}: a lower rate than "
                f"{rate:g}, or cleaner sound"
            )
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, CLIP)
        adam.step()
        rates.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def _share(step, steps):
    """Of the rate: it rises, then falls along a cosine to a twentieth."""
    cosine = 0.5 + 0.5 * math.cos(math.pi * step / steps)
    return min(1, (step + 1) / WARM) * (0.05 + 0.95 * cosine)


@torch.inference_mode()
def judged(decoder, recordings):
    """The spectral loss of each recording, shape (recordings,): the whole phrase from its own
    pitch and loudness.
    """
    found = []
    for one in recordings:
        made = play(decoder, one.f0[None], one.loudness[None])
        found.append(spectral_loss(made, one.sound[None, : made.shape[1]]))
    return torch.stack(found)


def new_decoder(kind, seed=0):
    """A decoder by its name: `paper`, `tiny` (recurrent), `gru64` or `conv64` with that many
    channels, or `linear`, of each frame alone; first weights from `seed`. Its oscillators start
    at a phrase's level.
    """
    torch.manual_seed(seed)
    known = {"paper": ("paper", 512), "tiny": ("gru", 256), "linear": ("conv", 2)}
    other = kind.rstrip("0123456789"), kind.lstrip("gruconv")
    family, width = known.get(kind, other)
    if family not in ("paper", "gru", "conv") or not str(width).isdecimal():
        known = "'paper', 'tiny', 'linear', 'gru64' and 'conv64' (any width)"
        raise ValueError(f"no decoder is called {kind!r}; {known} are")
    if family == "conv":
        made = td.ConvolutionalDecoder(int(width), 0 if kind == "linear" else 6)
    else:
        made = td.RecurrentDecoder(int(width), 3 if family == "paper" else 0)
    with torch.no_grad():
        made.out.bias[0] += QUIET
    return made
