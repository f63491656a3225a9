"""Storage sites to learn from: rock and wells drawn at random, simulated, kept on disk.

What do I ask, and of which file?

    sites     draw a site, lay sites out as arrays, simulate and check them
    rock      permeability and porosity that vary from place to place
    shards    a data set on disk: whole files, hashed, and an index
    generate  the script that makes one: `python -m storage_sites.generate FOLDER`

`../sample_cases` is a small data set of twenty sites.
"""

from . import rock
from .shards import code_hash, load
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
    "BUILD_UP_SHARE", "OUTSIDE", "TRAINING", "Ranges", "code_hash", "draw", "load", "rock",
    "simulate_shard", "to_arrays", "to_case",
]  # fmt: skip
