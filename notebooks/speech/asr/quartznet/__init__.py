"""QuartzNet: from sound to the probabilities of letters.

features      64 numbers for every 10 ms of sound, as NeMo computes them
network       separable convolutions in blocks, masks for padding
recognition   sounds of any lengths through the network, in batches
checkpoint    a network in one file; the shipped one is `digits_base.safetensors`
nemo          a `.nemo` checkpoint read without NeMo, held against `nemo_fixture/`
variants      the same network folded, with 8-bit weights, compiled
"""

from .checkpoint import DIGITS_BASE, load_model, save_model
from .features import DEVIATION_GUARD, HOP, MELS, SAMPLE_RATE_HZ, log_mel, mel_filters, sent
from .nemo import load_nemo
from .network import BLANK, VOCABULARY, Block, QuartzNet, Step
from .recognition import mixed_precision, pad, recognise, steps_of
from .variants import VARIANTS, variant

__all__ = ["BLANK", "DEVIATION_GUARD", "DIGITS_BASE", "HOP", "MELS", "SAMPLE_RATE_HZ"]
__all__ += ["VARIANTS", "VOCABULARY", "Block", "QuartzNet", "Step", "load_model", "load_nemo"]
__all__ += ["log_mel", "mel_filters", "mixed_precision", "pad", "recognise", "save_model"]
__all__ += ["sent", "steps_of", "variant"]
