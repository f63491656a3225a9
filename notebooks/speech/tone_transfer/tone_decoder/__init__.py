"""From pitch and loudness to controls: `networks`, `training`; what writes sample by sample:
`autoregressive`.
"""

from . import autoregressive, training
from .networks import (
    BANDS,
    PARTIALS,
    WEIGHTS,
    Controls,
    ConvolutionalDecoder,
    RecurrentDecoder,
    Reverb,
    controls,
    count,
    exp_sigmoid,
    inputs,
)

__all__ = [
    "BANDS",
    "PARTIALS",
    "WEIGHTS",
    "Controls",
    "ConvolutionalDecoder",
    "RecurrentDecoder",
    "Reverb",
    "autoregressive",
    "controls",
    "count",
    "exp_sigmoid",
    "inputs",
    "training",
]
