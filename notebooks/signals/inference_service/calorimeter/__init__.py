"""Jets in a calorimeter: the second model that the same server holds.

jets    hits, clusters, their calibration, jets against truth
"""

from .jets import Calibration, anti_kt, clusters_of, collision, fit, response

__all__ = ["Calibration", "anti_kt", "clusters_of", "collision", "fit", "response"]
