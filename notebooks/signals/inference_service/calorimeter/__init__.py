"""A calorimeter's hits, clusters and jets, and the tiny network that calibrates clusters."""

from .jets import Calibration, clusters_of, collision, cones, fit, jet_ratios

__all__ = ["Calibration", "clusters_of", "collision", "cones", "fit", "jet_ratios"]
