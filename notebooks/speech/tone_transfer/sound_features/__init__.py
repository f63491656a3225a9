"""What is kept of a sound, how two are compared, what is refused: `analysis`, `loss`,
`sound_input`.
"""

from . import sound_input
from .analysis import (
    HOP,
    RANGE_DB,
    SAMPLE_RATE,
    SPAN,
    SPECTRUM,
    Features,
    features,
    frames,
    held,
    loudness_of,
    loudness_reference,
    midi,
    spans,
    spectrum_power,
    yin,
    yin_reference,
)
from .loss import spectral_loss, spectral_loss_reference
from .sound_input import resampled

__all__ = [
    "HOP",
    "RANGE_DB",
    "SAMPLE_RATE",
    "SPAN",
    "SPECTRUM",
    "Features",
    "features",
    "frames",
    "held",
    "loudness_of",
    "loudness_reference",
    "midi",
    "resampled",
    "sound_input",
    "spans",
    "spectral_loss",
    "spectral_loss_reference",
    "spectrum_power",
    "yin",
    "yin_reference",
]
