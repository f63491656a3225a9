"""The set-associative cache of embeddings on a device: plain (`reference`) and vectorised."""

from .reference import ReferenceCache, mix
from .set_associative import SLAB, DeviceCache, Query

__all__ = ["SLAB", "DeviceCache", "Query", "ReferenceCache", "mix"]
