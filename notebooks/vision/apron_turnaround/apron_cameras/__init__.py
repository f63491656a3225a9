"""What two cameras see of a stand: scenes, faulty films, a detector, tracks, fusion."""

from .footage import Faults, Visit, examples, film, script
from .fusion import Clock, sight
from .pipeline import ARRIVAL_S, Watched, events, identities, set_clocks, staged, watch

__all__ = [
    "ARRIVAL_S",
    "Clock",
    "Faults",
    "Visit",
    "Watched",
    "events",
    "examples",
    "film",
    "identities",
]
__all__ += ["script", "set_clocks", "sight", "staged", "watch"]
