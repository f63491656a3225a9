"""From waves to a labelled event.

waveforms    shared noise, deconvolution, hits, patches
clusters     clusters, points in space, efficiency and purity
chain        the stages in order, each timed, with any network
"""

from .chain import STAGES, Reconstructed, amdahl, prepare, reconstruct
from .clusters import KINDS, cluster, hit_truth, kinds_of, match_planes, quality
from .waveforms import (
    SIDE,
    Hits,
    cut_patches,
    deconvolve,
    find_hits,
    image_of,
    remove_shared_noise,
)

__all__ = [
    "KINDS",
    "SIDE",
    "STAGES",
    "Hits",
    "Reconstructed",
    "amdahl",
    "cluster",
    "cut_patches",
]
__all__ += ["deconvolve", "find_hits", "hit_truth", "image_of", "kinds_of", "match_planes"]
__all__ += ["prepare", "quality", "reconstruct", "remove_shared_noise"]
