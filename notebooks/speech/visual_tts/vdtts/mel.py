"""Sound to log-mel spectrogram and back, by Griffin and Lim's iteration.

    M = log max(F |STFT(x)|, floor), F the mel filters; then (M - MEAN) / SPREAD, so that values
    are about -1 to 1. Griffin-Lim: keep the magnitudes, take the phases of STFT(iSTFT(...))
    again and again; with the momentum of Perraudin, Balazs and Sondergaard (2013).

Shapes: `N` samples at 16 kHz, `S` steps of 10 ms, `M` mels, `F` bins.
"""

from functools import cache

import librosa
import torch

__all__ = ["HOP", "MELS", "RATE_HZ", "griffin_lim", "griffin_lim_reference", "log_mel"]
__all__ += ["vocode"]

RATE_HZ, HOP, FFT, MELS = 16_000, 160, 1024, 80
FLOOR, MEAN, SPREAD = 1e-3, -3.0, 3.0


@cache
def _filters(device="cpu"):
    made = librosa.filters.mel(sr=RATE_HZ, n_fft=FFT, n_mels=MELS, fmin=0, fmax=8000, norm=None)
    return torch.from_numpy(made).to(device)


def _stft(sound_BN):
    how = {"window": torch.hann_window(FFT, device=sound_BN.device, dtype=sound_BN.dtype)}
    return torch.stft(sound_BN, FFT, HOP, **how, return_complex=True, pad_mode="constant")


def _istft(spectrum_BFS, samples):
    window = torch.hann_window(FFT, device=spectrum_BFS.device, dtype=spectrum_BFS.real.dtype)
    return torch.istft(spectrum_BFS, FFT, HOP, window=window, length=samples)


def log_mel(sound_BN):
    """The normalised log-mel spectrogram, (B, S, M), of sounds (B, N): S = N // 160, a step
    begins at each 10 ms.

    Raises ValueError for sounds shorter than half a window, 512 samples.
    """
    if sound_BN.shape[-1] <= FFT // 2:
        raise ValueError(
            f"sounds of {sound_BN.shape[-1]} samples: more than {FFT // 2} are needed, "
            "half a window"
        )
    steps = sound_BN.shape[-1] // HOP
    mel = _filters(str(sound_BN.device)) @ _stft(sound_BN)[..., :steps].abs()
    return ((mel.clamp_min(FLOOR).log() - MEAN) / SPREAD).transpose(-1, -2)


def vocode(log_mel_BSM, rounds=40):
    """Sounds, (B, 160 S), of normalised log-mel spectrograms: magnitudes by least squares,
    phases by Griffin-Lim.
    """
    mel = (log_mel_BSM * SPREAD + MEAN).exp().transpose(-1, -2)
    mel = torch.where(mel <= 1.05 * FLOOR, 0, mel)  # the floor is silence, not a hiss
    back = torch.linalg.pinv(_filters(str(mel.device)))
    return griffin_lim((back @ mel).clamp_min(0), rounds)


def griffin_lim(magnitude_BFS, rounds=40, momentum=0.99):
    """Sounds (B, 160 S) whose spectrogram has about these magnitudes; it starts from random
    phases of a fixed seed.
    """
    samples = magnitude_BFS.shape[-1] * HOP
    magnitude = torch.cat([magnitude_BFS, magnitude_BFS[..., -1:]], -1)
    draw = torch.Generator().manual_seed(0)
    turn = torch.rand(magnitude.shape, generator=draw, dtype=torch.float32).to(magnitude)
    phase, before = torch.polar(torch.ones_like(magnitude), 6.2831853 * turn), 0
    for _ in range(rounds):
        again = _stft(_istft(magnitude * phase, samples))
        moved = again + momentum * (again - before)
        phase, before = moved / moved.abs().clamp_min(1e-16), again
    return _istft(magnitude * phase, samples)


def griffin_lim_reference(magnitude_BFS, rounds):
    """The same in its plainest form, float64 and without momentum (Griffin and Lim 1984)."""
    magnitude = torch.cat([magnitude_BFS, magnitude_BFS[..., -1:]], -1).double()
    samples = magnitude_BFS.shape[-1] * HOP
    turn = torch.rand(magnitude.shape, generator=torch.Generator().manual_seed(0)).double()
    spectrum = magnitude * torch.exp(2j * torch.pi * turn)
    for _ in range(rounds):
        spectrum = magnitude * torch.exp(1j * _stft(_istft(spectrum, samples)).angle())
    return _istft(spectrum, samples)
