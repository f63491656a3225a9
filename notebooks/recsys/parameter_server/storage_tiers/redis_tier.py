"""The volatile tier in Redis: a hash for each table, its fields the keys' bytes and a stamp.

The stamp says which state of the persistent table the vectors are a part of. Each call names
the one that its caller has: a read that finds another stamp finds nothing, and a write changes
nothing, whenever Redis comes to it. So neither a table that lived on while its node died or
updates went by, nor a command that waited in a socket meanwhile, gives a vector of another
state. A table of another stamp is emptied. Any trouble is a `TierDown`.
"""

import contextlib
import itertools

import redis

from .encoding import rows_of, values, words

STAMP, MOST_AT_ONCE = b"stamp", 100_000  # keys of a call; Redis takes a million words
# vectors for all fields, then random ones go until a fifth of what a table may hold is free
PUT = """if redis.call('HGET', KEYS[1], 'stamp') ~= ARGV[1] then return 0 end
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
local over = redis.call('HLEN', KEYS[1]) - 1 - ARGV[2]
if over > 0 then
for _, field in ipairs(redis.call('HRANDFIELD', KEYS[1], over + math.floor(ARGV[2] / 5))) do
if field ~= 'stamp' then redis.call('HDEL', KEYS[1], field) end end end
return 1"""
# vectors for fields that are there, then the new stamp: in one step, as any script
REFRESH = """if redis.call('HGET', KEYS[1], 'stamp') ~= ARGV[1] then return 0 end
for i = 3, #ARGV, 2 do if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then
redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end end
redis.call('HSET', KEYS[1], 'stamp', ARGV[2])
return 1"""


class TierDown(RuntimeError):
    """The tier did not answer in time, or not at all."""


class RedisTier:
    """As `InProcess`, in a server: `RedisTier("127.0.0.1:6379", most=10_000)`.

    A table that grows beyond `most` loses random keys until 80 % are left (`evict_random`).
    All its names begin with `prefix`; it touches no other.
    """

    def __init__(self, address, most, timeout_s=0.5, prefix="embeddings:"):
        host, port = address.rsplit(":", 1)
        waits = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
        self.most, self.prefix = most, prefix
        self.client = redis.Redis(host, int(port), protocol=2, retry=None, **waits)

    def get(self, table, keys, stamp, width):
        """(vectors (K, W), found (K,)); rows that are not found are zero."""
        with _trouble():
            held = self.client.hmget(self.prefix + table, [STAMP, *words(keys)])
        if held[0] == stamp:
            return rows_of(held[1:], width)
        self.reset(table, stamp)
        return rows_of([None] * len(keys), width)

    def put(self, table, keys, vectors, stamp):
        """None; keeps these vectors of the table's state `stamp`, of equal keys the last."""
        if not self._run(PUT, table, keys, vectors, stamp, self.most):
            self.reset(table, stamp)

    def refresh(self, table, keys, vectors, old, new):
        """None; of keys that are held, the vectors by which the state `new` follows `old`."""
        many = len(keys) > MOST_AT_ONCE
        if many or not self._run(REFRESH, table, keys, vectors, old, new):
            self.reset(table, new)

    def _run(self, script, table, keys, vectors, *more):
        pairs = zip(words(keys), values(vectors), strict=True)
        with _trouble():
            return self.client.eval(
                script, 1, self.prefix + table, *more, *itertools.chain(*pairs)
            )

    def reset(self, table, stamp):
        """None; forgets the table, which is of this stamp from now on."""
        with _trouble(), self.client.pipeline(transaction=True) as both:
            both.unlink(self.prefix + table)
            both.hset(self.prefix + table, STAMP, stamp)
            both.execute()

    def count(self, table):
        """How many vectors of a table are held."""
        with _trouble():
            name = self.prefix + table
            return self.client.hlen(name) - self.client.hexists(name, STAMP)

    def close(self):
        """None; ends the connections."""
        self.client.close()


@contextlib.contextmanager
def _trouble():
    try:
        yield
    except (redis.RedisError, OSError) as error:  # also one that is full, or read-only
        raise TierDown(f"Redis does not answer: {error}") from error
