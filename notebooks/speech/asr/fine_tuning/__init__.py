"""How QuartzNet is trained, and taught what it has not heard.

novograd   the optimiser, and the learning rate over time
training   what one update does: batches, cutouts, CTC; which weights may move
exchange   what several processes tell each other; `sharded` is the script that they run
manifest   which recordings a training reads, one line each; sounds at 16 kHz

`train_digits` makes the network that `quartznet` ships; `study_accents` asks with several seeds
what has to move and what leaks.
"""

from .exchange import share, sum_of_processes
from .manifest import read_manifest, read_sound, read_sounds, write_manifest
from .novograd import cosine_rate, novograd_reference
from .training import Recipe, encode, train

__all__ = ["Recipe", "cosine_rate", "encode", "novograd_reference", "read_manifest"]
__all__ += ["read_sound", "read_sounds", "share", "sum_of_processes", "train", "write_manifest"]
