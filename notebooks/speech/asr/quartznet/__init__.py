"""QuartzNet: from sound to the probabilities of letters.

In reading order: features, network, recognition, checkpoint, variants."""

from .checkpoint import DIGITS_BASE, load_model, load_nemo, save_model
from .features import DEVIATION_GUARD, HOP, MELS, SAMPLE_RATE_HZ, log_mel, mel_filters, sent
from .network import BLANK, VOCABULARY, Block, QuartzNet, Step
from .recognition import mixed_precision, pad, recognise, steps_of
from .variants import VARIANTS, variant

__all__ = ["BLANK", "DEVIATION_GUARD", "DIGITS_BASE", "HOP", "MELS", "SAMPLE_RATE_HZ"]
__all__ += ["VARIANTS", "VOCABULARY", "Block", "QuartzNet", "Step", "load_model", "load_nemo"]
__all__ += ["log_mel", "mel_filters", "mixed_precision", "pad", "recognise", "save_model"]
__all__ += ["sent", "steps_of", "variant"]
