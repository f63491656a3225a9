"""A small anchor-free detector: its network, how it learns, how it is asked, whole or in
tiles.
"""

from . import augment, loading, network, tiling, training
from .loading import Loading, answers, opened, pixels, samples
from .network import Detector, Found
from .training import CLASSES, SIDE, Settings, train

__all__ = [
    "CLASSES",
    "SIDE",
    "Detector",
    "Found",
    "Loading",
    "Settings",
    "answers",
    "augment",
    "loading",
    "network",
    "opened",
    "pixels",
    "samples",
    "tiling",
    "train",
    "training",
]
