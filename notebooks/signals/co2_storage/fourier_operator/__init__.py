"""Neural operators on the slow waves of a field; nothing here imports simulator or sites.

spectral_conv  the Fourier layer: by fast transforms, and by a few matrices
matrices       the same layer for a runtime without complex numbers
networks       FNO, U-FNO and U-Net, as published and reduced
descent        how every network here learns
darcy          trained on a coarse grid, asked on a fine one; `study_darcy` for longer
pencil_fft     one field divided over many processes

`bench_fourier_operator` races the layer, `rehearsed_co2_storage` is counted for GPUs.
"""

from .descent import descend, relative_l2
from .matrices import as_matrices
from .networks import FNO, UFNO, UNet, parameters
from .spectral_conv import SpectralConv

__all__ = [
    "FNO", "UFNO", "SpectralConv", "UNet", "as_matrices", "descend", "parameters",
    "relative_l2",
]  # fmt: skip
