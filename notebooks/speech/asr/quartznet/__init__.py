"""QuartzNet: from sound to the probabilities of letters, and how to train it.

features     64 numbers for every 10 ms of sound, as NeMo computes them
network      separable convolutions in blocks, masks for padding
novograd     the optimiser, and the learning rate over time
training     what one update does: batches, cutouts, CTC; which weights may move; recognition
exchange     what several processes tell each other; `sharded` is the script that they run
manifest     which recordings a training reads, one line each; sounds at 16 kHz
checkpoint   a network in one file; `train_digits` makes the shipped `digits_base.safetensors`
nemo         a `.nemo` checkpoint read without NeMo, held against `nemo_fixture/`
variants     the same network folded, with 8-bit weights, compiled
"""

from .checkpoint import DIGITS_BASE, load_model, save_model
from .exchange import share, sum_of_processes
from .features import DEVIATION_GUARD, HOP, MELS, SAMPLE_RATE_HZ, log_mel, mel_filters
from .manifest import read_manifest, read_sound, read_sounds, write_manifest
from .nemo import load_nemo
from .network import BLANK, VOCABULARY, Block, QuartzNet, Step
from .novograd import cosine_rate, novograd_reference
from .training import Recipe, encode, mixed_precision, recognise, train
from .variants import VARIANTS, variant

__all__ = ["BLANK", "DEVIATION_GUARD", "DIGITS_BASE", "HOP", "MELS", "SAMPLE_RATE_HZ"]
__all__ += ["VARIANTS", "VOCABULARY", "Block", "QuartzNet", "Recipe", "Step", "cosine_rate"]
__all__ += ["encode", "load_model", "load_nemo", "log_mel", "mel_filters", "mixed_precision"]
__all__ += ["novograd_reference", "read_manifest", "read_sound", "read_sounds", "recognise"]
__all__ += ["save_model", "share", "sum_of_processes", "train", "variant", "write_manifest"]
