"""The client's side: what it says, how it waits, what it does when nobody answers.

kserve    the protocol: messages with binary tensors or numbers, checked
client    Sonic: blocks, deadlines, tries, fallback
faults    a network that misbehaves on purpose
loads     many clients as processes, and where a server is full
"""

from .client import Model, Refused, Sonic, Unanswered
from .faults import Fault
from .kserve import HEADER, BadMessage, pack, unpack
from .loads import knee, load, mean_value, save_events

__all__ = ["HEADER", "BadMessage", "Fault", "Model", "Refused", "Sonic", "Unanswered", "knee"]
__all__ += ["load", "mean_value", "pack", "save_events", "unpack"]
