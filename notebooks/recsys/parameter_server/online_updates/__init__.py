"""New vectors from a trainer to the tiers, over the Kafka protocol, between processes."""

from .broker import Broker
from .killed_writer import kill_while_writing
from .messages import BadMessage, pack, unpack
from .reader import UpdateReader
from .trainer import Trainer, start_trainer

__all__ = ["BadMessage", "Broker", "Trainer", "UpdateReader", "kill_while_writing", "pack"]
__all__ += ["start_trainer", "unpack"]
