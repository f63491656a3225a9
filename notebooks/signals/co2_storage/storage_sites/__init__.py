"""Storage sites to learn from: rock and wells drawn at random, simulated, kept on disk. The map
in `../README.md` says more; `../sample_cases` is a small data set of twenty sites."""

from . import rock
from .shards import code_hash, kept, load
from .sites import (
    BUILD_UP_SHARE,
    OUTSIDE,
    TRAINING,
    Ranges,
    draw,
    simulate_shard,
    to_arrays,
    to_case,
)

__all__ = [
    "BUILD_UP_SHARE", "OUTSIDE", "TRAINING", "Ranges", "code_hash", "draw", "kept", "load",
    "rock", "simulate_shard", "to_arrays", "to_case",
]  # fmt: skip
