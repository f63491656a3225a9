"""Outbrain's click log: what its files hold, a loader that checks them, and a world to draw it.

- `schemas`: which files and columns are there, and where does the log's clock start?
- `files`: what is wrong with a folder of files? `load` checks, `scan` trusts
- `catalogue`: which pages, ads and readers does the drawn world have?
- `world`: why is an ad clicked? The conditional logit, display by display
- `generator`: how do its files come about, and what is kept of the truth?
"""

from .catalogue import Effects
from .files import load, scan
from .generator import World, generate
from .schemas import DAY_MS, LAST_MS, MAY_MISS, SCHEMAS, START_MS
from .world import SEEN, draw

__all__ = ["DAY_MS", "LAST_MS", "MAY_MISS", "SCHEMAS", "START_MS", "Effects", "World"]
__all__ += ["SEEN", "draw", "generate", "load", "scan"]
