"""Tasks that wait for one another: the longest chain, slack, causes, and when it will end."""

from .paths import Cause, causes, longest, order, slack
from .prediction import (
    ALERT,
    LATE,
    MOMENTS,
    Draws,
    Interval,
    Seen,
    calibrate,
    interval,
    kind_of,
    late,
    spans,
)
from .turnaround import EVENTS, FOLLOWS, PLANNED, TASKS, VISITS, Turnaround, draw

__all__ = ["ALERT", "EVENTS", "FOLLOWS", "LATE", "MOMENTS", "PLANNED", "TASKS", "VISITS"]
__all__ += ["Cause", "Draws", "Interval", "Seen", "Turnaround", "calibrate", "causes", "draw"]
__all__ += ["interval", "kind_of", "late", "longest", "order", "slack", "spans"]
