"""The cache in plain Python: the oracle that the vectorised one is held against.

Rules of HugeCTR's `gpu_cache` (Apache-2.0, read for its facts): a set has slabs of 32 slots, a
key's set is its hash's, its first slab its remainder. What differs is said in
`set_associative`.
"""

from collections import Counter

SLAB = 32
FIRST, SECOND = -0xAE502812AA7333, -0x3B314601E57A13AD  # Murmur3's constants, signed


def mix(keys):
    """Murmur3's 64-bit mix of each key, int64; for tensors and for Python's ints.

        mix(torch.tensor([1]))    # tensor([-5451962507482445012])

    torch shifts the sign in from the left, so the shifted words are masked.
    """
    for factor in (FIRST, SECOND):
        keys = (keys ^ (keys >> 33) & 0x7FFFFFFF) * factor
        if isinstance(keys, int):  # tensors wrap around by themselves
            keys = (keys + 2**63) % 2**64 - 2**63
    return keys ^ (keys >> 33) & 0x7FFFFFFF


class ReferenceCache:
    """One key at a time, in loops. `ReferenceCache(128, slabs=2)` has 128 slots in two sets."""

    def __init__(self, capacity, slabs=2):
        self.slabs, self.sets = slabs, -(-capacity // (slabs * SLAB))
        self.now = 0
        self.slots = {}  # (set, slab, place) -> [key, counter, vector]

    def places(self, key):
        """All places of a key's set, in the order in which they are looked at."""
        home = (mix(key) & 0xFFFFFFFF) * self.sets >> 32
        for step in range(self.slabs):
            slab = (key + step) % self.slabs
            yield from ((home, slab, place) for place in range(SLAB))

    def find(self, key):
        """The place of a key, or None: the search ends after a slab with an empty slot."""
        for at in self.places(key):
            if at in self.slots and self.slots[at][0] == key:
                return at
            if at[2] == SLAB - 1 and any(
                (*at[:2], one) not in self.slots for one in range(SLAB)
            ):
                return None
        return None

    def query(self, keys):
        """{key: vector} of those present; their counters become those of this query."""
        self.now += 1
        found = {key: at for key in keys if (at := self.find(key))}
        for at in found.values():
            self.slots[at][1] = self.now
        return {key: self.slots[at][2] for key, at in found.items()}

    def replace(self, keys, vectors):
        """None; those present are refreshed first, then the others come in, in their order."""
        pairs = dict(reversed(list(zip(keys, vectors, strict=True))))  # of equal keys the first
        present = {key: at for key in dict.fromkeys(keys) if (at := self.find(key))}
        for at in present.values():
            self.slots[at][1] = self.now
        coming = Counter()
        for key in dict.fromkeys(keys):
            home = next(self.places(key))[0]
            coming[home] += key not in present
            if key not in present and coming[home] <= self.slabs * SLAB:
                empty = (at for at in self.places(key) if at not in self.slots)
                oldest = min(self.places(key), key=lambda at: self.slots.get(at, [0, -1])[1])
                self.slots[next(empty, oldest)] = [key, self.now, pairs[key]]

    def update(self, keys, vectors):
        """None; the vectors of those present, of equal keys the last; counters stay."""
        for key, vector in zip(keys, vectors, strict=True):
            if at := self.find(key):
                self.slots[at][2] = vector

    def dump(self):
        """All keys, set by set, slab by slab."""
        return [self.slots[at][0] for at in sorted(self.slots)]
