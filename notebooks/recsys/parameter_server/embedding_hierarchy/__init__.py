"""The lookup through all tiers, the law that its keys follow, and what the law predicts."""

from .parameter_server import EmbeddingTable, ParameterServer
from .power_law import PowerLaw, exponent_for

__all__ = ["EmbeddingTable", "ParameterServer", "PowerLaw", "exponent_for"]
