"""How QuartzNet is trained, and taught what it has not heard.

In reading order: novograd, training, manifest, sharded; `train_digits` makes the network that
`quartznet` ships, `study_accents` asks what has to move and what leaks."""

from .manifest import read_manifest, read_sound, read_sounds, write_manifest
from .novograd import cosine_rate, novograd_reference
from .training import Recipe, encode, share, sum_of_processes, train

__all__ = ["Recipe", "cosine_rate", "encode", "novograd_reference", "read_manifest"]
__all__ += ["read_sound", "read_sounds", "share", "sum_of_processes", "train", "write_manifest"]
