"""How far two sounds are apart to an ear that hears spectra at many sizes (Engel et al. 2020,
equation 4).

Σ over window sizes of mean|S − Ŝ| + mean|log S − log Ŝ|, S the magnitudes of short Fourier
transforms, 75 % overlapping. Phases are not compared: two flutes that play the same note need
not move together.

Shapes: `B` sounds, `N` samples.
"""

import torch

SIZES = (2048, 1024, 512, 256, 128, 64)
FLOOR = 1e-5  # added to magnitudes before the logarithm


def spectral_loss(got_BN, want_BN, sizes=SIZES, each=False):
    """The distance as a scalar tensor, or of each sound, shape (B,): `spectral_loss(made,
    recorded)`.

    Raises ValueError for shapes that differ, or sounds shorter than half of the largest window.
    """
    if got_BN.shape != want_BN.shape or got_BN.ndim != 2 or got_BN.shape[1] <= max(sizes) // 2:
        got, want = tuple(got_BN.shape), tuple(want_BN.shape)
        raise ValueError(
            f"sounds of shape {got} and {want} came; equal shapes (B, N), N over "
            f"{max(sizes) // 2}, are allowed"
        )
    total = 0
    for size in sizes:
        got, want = magnitudes(got_BN, size), magnitudes(want_BN, size)
        logs = torch.log(got + FLOOR) - torch.log(want + FLOOR)
        total = total + (got - want).abs().mean((1, 2)) + logs.abs().mean((1, 2))
    return total if each else total.mean()


def magnitudes(sound_BN, size):
    """Magnitudes of shape (B, size // 2 + 1, frames), Hann windows of `size` every size / 4
    samples, mirrored at the ends.
    """
    window = torch.hann_window(size, device=sound_BN.device, dtype=sound_BN.dtype)
    spectrum = torch.stft(sound_BN, size, size // 4, window=window, return_complex=True)
    # the little gives silence a gradient, too
    return (spectrum.real.square() + spectrum.imag.square() + 1e-14).sqrt()
