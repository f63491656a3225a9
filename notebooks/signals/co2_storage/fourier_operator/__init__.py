"""Fourier neural operators that stand in for a simulator: networks, training, deployment.

What do I ask, and of which file?

    spectral_conv   the Fourier layer, and two ways to compute it: begin here
    networks        FNO, U-FNO and U-Net, as published and reduced
    inputs          the twelve channels that a network reads
    training        the loss, and following its gradient
    mass            the injected gas, which every answer is held to
    surrogate       a trained network in physical units, its errors, what it refuses
    shipped         the networks in `../weights`, and their receipt
    train_networks  the script that made them: `python -m fourier_operator.train_networks`
    matrices        spectral layers for a runtime without complex numbers, weights in 8 bits
    runtime         the whole surrogate as one graph in ONNX Runtime
    darcy           Darcy flow: train coarse, ask fine
    pencil_fft      one layer over many processes: `torchrun -m fourier_operator.pencil_fft`

`python -m fourier_operator.bench_fourier_operator` races spectral layers,
`python -m fourier_operator.bench_accuracy` simulator and network at equal accuracy.
"""

from .inputs import CHANNELS, encode
from .matrices import as_matrices
from .networks import FNO, UFNO, UNet, parameters
from .runtime import Compiled, to_onnx
from .shipped import KINDS, RECEIPT, load_shipped
from .spectral_conv import SpectralConv
from .surrogate import Surrogate, case_errors, pick
from .training import train

__all__ = [
    "CHANNELS", "FNO", "KINDS", "RECEIPT", "UFNO", "Compiled", "SpectralConv", "Surrogate",
    "UNet", "as_matrices", "case_errors", "encode", "load_shipped", "parameters", "pick",
    "to_onnx", "train",
]  # fmt: skip
