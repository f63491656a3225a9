"""From waves to a labelled event.

waveforms    shared noise, deconvolution, hits, patches
clusters     clusters, points in space, efficiency and purity
chain        the stages in order, each timed, with any network
"""

from .chain import amdahl, prepare, reconstruct
from .clusters import KINDS, hit_truth, kinds_of, quality
from .waveforms import deconvolve, remove_shared_noise

__all__ = ["KINDS", "amdahl", "deconvolve", "hit_truth", "kinds_of", "prepare", "quality"]
__all__ += ["reconstruct", "remove_shared_noise"]
