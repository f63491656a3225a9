"""Events of a turnaround: from zones to time stamps, a log of them, and how good they are."""

from .scores import event_f1, idf1, iou
from .states import Event, Inputs, Stamps, Stand, Thing, stamps

__all__ = ["Event", "Inputs", "Stamps", "Stand", "Thing"]
__all__ += ["event_f1", "idf1", "iou", "stamps"]
