"""Where vectors lie below the device: in the process, in Redis, in RocksDB."""

from . import child
from .child import RedisServer
from .in_process import InProcess
from .redis_tier import RedisTier, TierDown
from .rocks import Rocks

__all__ = ["InProcess", "RedisServer", "RedisTier", "Rocks", "TierDown", "child"]
