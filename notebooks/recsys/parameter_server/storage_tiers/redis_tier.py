"""The volatile tier in Redis: a hash for each table, its fields the keys' bytes.

Any trouble with it is a `TierDown`; what then happens is the hierarchy's business.
"""

import contextlib

import numpy as np
import redis

# new vectors for fields that are there: one trip, and no other client comes between
REFRESH = """for i = 1, #ARGV, 2 do
if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i
+ 1]) end
end"""


class TierDown(RuntimeError):
    """The tier did not answer in time, or not at all."""


class RedisTier:
    """As `InProcess`, in a server: `RedisTier("127.0.0.1:6379", most=10_000)`.

    A table that grows beyond `most` loses random keys until 80 % are left (`evict_random`).
    """

    def __init__(self, address, most, timeout_s=0.5):
        host, port = address.rsplit(":", 1)
        waits = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
        self.most = most
        self.client = redis.Redis(host, int(port), protocol=2, retry=None, **waits)

    def get(self, table, keys):
        """(vectors (K, W) or None, found (K,)); rows that are not found are zero."""
        if not len(keys):
            return None, np.zeros(0, bool)
        with _trouble():
            held = self.client.hmget(table, _fields(keys))
        found = np.fromiter((value is not None for value in held), bool, len(held))
        if not found.any():
            return None, found
        rows = np.frombuffer(b"".join(v for v in held if v is not None), np.float32)
        vectors = np.zeros((len(keys), rows.size // int(found.sum())), np.float32)
        vectors[found] = rows.reshape(int(found.sum()), -1)
        return vectors, found

    def put(self, table, keys, vectors):
        """None; keeps these vectors, of equal keys the last."""
        if len(keys):
            with _trouble():
                self.client.hset(table, items=_pairs(keys, vectors))
                over = self.client.hlen(table) - self.most
                if over > 0:
                    gone = over + int(0.2 * self.most)
                    self.client.hdel(table, *self.client.hrandfield(table, gone))

    def refresh(self, table, keys, vectors):
        """None; new vectors for keys that are held, and for no others."""
        for start in range(0, len(keys), 1000):  # Lua's stack bears a few thousand words
            part = slice(start, start + 1000)
            with _trouble():
                self.client.eval(REFRESH, 1, table, *_pairs(keys[part], vectors[part]))

    def clear(self):
        """None; forgets all, whoever wrote it."""
        with _trouble():
            self.client.flushdb()

    def count(self, table):
        """How many vectors of a table are held."""
        with _trouble():
            return self.client.hlen(table)

    def close(self):
        """None; ends the connections."""
        self.client.close()


def _fields(keys):
    packed = np.asarray(keys, dtype=">i8").tobytes()
    return [packed[at : at + 8] for at in range(0, len(packed), 8)]


def _pairs(keys, vectors):
    rows = np.ascontiguousarray(vectors, np.float32)
    values, step = rows.tobytes(), 4 * rows.shape[1]
    pairs = []
    for row, field in enumerate(_fields(keys)):
        pairs += [field, values[row * step : row * step + step]]
    return pairs


@contextlib.contextmanager
def _trouble():
    try:
        yield
    except (redis.RedisError, OSError) as error:  # also one that is full, or read-only
        raise TierDown(f"Redis does not answer: {error}") from error
