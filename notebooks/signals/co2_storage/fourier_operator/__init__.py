"""Fourier neural operators that stand in for a simulator: networks, training, deployment.

The map in `../README.md` says which file answers which question.
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
