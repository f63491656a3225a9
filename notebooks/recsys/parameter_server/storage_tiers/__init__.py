"""Where vectors lie below the device: in the process, in Redis, in RocksDB."""

from . import child
from .in_process import InProcess
from .redis_server import RedisServer
from .redis_tier import RedisTier, TierDown
from .rocks import Rocks

__all__ = ["InProcess", "RedisServer", "RedisTier", "Rocks", "TierDown", "child"]
