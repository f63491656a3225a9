"""Outbrain's click log: what its files hold, a loader that checks them, and a world to draw it.

The README beside the notebook says which module answers which question.
"""

from .catalogue import Effects
from .files import load, scan
from .generator import World, generate
from .schemas import DAY_MS, LAST_MS, MAY_MISS, SCHEMAS, START_MS
from .world import SEEN, draw

__all__ = ["DAY_MS", "LAST_MS", "MAY_MISS", "SCHEMAS", "START_MS", "Effects", "World"]
__all__ += ["SEEN", "draw", "generate", "load", "scan"]
