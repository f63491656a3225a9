"""A calorimeter's hits, clusters and jets, and the tiny network that calibrates clusters."""

from .jets import Calibration, anti_kt, clusters_of, collision, fit, jet_ratios

__all__ = ["Calibration", "anti_kt", "clusters_of", "collision", "fit", "jet_ratios"]
