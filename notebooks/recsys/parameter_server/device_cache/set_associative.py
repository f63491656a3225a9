"""A set-associative cache of embeddings in tensors, for any device.

The GPU embedding cache of the article, after HugeCTR's `gpu_cache`: slabs of 32 slots, two
slabs a set (one warp reads one slab there; here one gather does), a counter for each slot, four
calls: Query, Replace, Update, Dump. `reference.ReferenceCache` says the same in loops. Three
things differ. The set is the upper half of a product of the hash (no division). One batch is
one step: what is present is refreshed before anything is evicted, so that the order within a
batch cannot evict a key of the batch that is there. And a way predictor, as processors have,
comes before the search: 512 one-byte guesses a set say where a hash was seen last, so that most
hits read one key and not 32.

Shapes: `K` keys of a call, `S` slots, `W` width. Keys are int64, vectors of the cache's dtype.
Memory for each slot: W floats, 16 bytes of key and counter, 8 of guesses.
"""

import threading
from collections import namedtuple

import torch

from .hashing import mix
from .reference import SLAB

EMPTY = -(2**63)  # the one key that no table may have
TAGS = 512
Query = namedtuple("Query", "vectors missing")  # (K, W), and the places of keys that are absent


class DeviceCache:
    """A cache of at least `capacity` vectors.

        cache = DeviceCache(capacity=4096, width=128, device="cuda")
        found = cache.query(keys)                   # found.vectors, found.missing
        cache.replace(keys[found.missing], vectors)

    Calls take `lock`, so threads share one cache. Raises ValueError for keys that are not a row
    of int64, for the reserved key, for vectors of another shape or with NaN.
    """

    def __init__(self, capacity, width, device="cpu", dtype=torch.float32, slabs=2):
        if min(capacity, width, slabs) < 1:
            came = f"capacity {capacity}, width {width}, {slabs} slabs"
            raise ValueError(f"{came}: each must be 1 or more")
        self.slabs, self.ways = slabs, slabs * SLAB
        if self.ways > 256:
            raise ValueError(f"{slabs} slabs a set: 8 at most, since a guess is one byte")
        self.sets = -(-capacity // self.ways)
        self.capacity, self.width = self.sets * self.ways, width
        long = {"dtype": torch.int64, "device": device}
        self.keys_S = torch.full((self.capacity,), EMPTY, **long)
        # one row more, of zeros: all absent keys are sent there
        self.counters_S = torch.full((self.capacity + 1,), -1, **long)  # -1 marks an empty slot
        self.vectors_SW = torch.zeros(self.capacity + 1, width, dtype=dtype, device=device)
        self.guesses = torch.zeros(self.sets * TAGS, dtype=torch.uint8, device=device)
        self.device, self.now, self.slabs_read = self.keys_S.device, 0, 0
        self.lock = threading.RLock()

    def query(self, keys):
        """Query(vectors (K, W), places of the absent keys); rows of absent keys are zero."""
        keys = self.checked(keys)
        with self.lock:
            slots = self.touch(keys)
            vectors = self.vectors_SW.index_select(0, slots)
        return Query(vectors, self.absent(slots))

    def absent(self, slots):
        """The places of absent keys in what `locate` returned."""
        return (slots == self.capacity).nonzero()[:, 0]

    def touch(self, keys):
        """The slot of each key; those present become the most recent."""
        self.now += 1
        slots = self.locate(keys)
        self.counters_S.index_fill_(0, slots, self.now)
        return slots

    def locate(self, keys):
        """The slot of each key, `capacity` where absent: the predicted one, else a search."""
        hashes = mix(keys)
        home = (hashes & 0xFFFFFFFF) * self.sets >> 32
        guess = home * TAGS + (hashes >> 32 & (TAGS - 1))
        slots = home * self.ways + self.guesses.index_select(0, guess)
        wrong = (self.keys_S.index_select(0, slots) != keys).nonzero()[:, 0]
        if len(wrong):
            found = self._search(keys[wrong], home[wrong])
            slots[wrong] = found
            # an absent key's guess becomes 0; a guess may be wrong, since its key is looked at
            self.guesses[guess[wrong]] = (found % self.ways).to(torch.uint8)
        return slots

    def _search(self, keys, home):
        """Slots of keys in their sets, slab by slab; one with an empty slot is the last."""
        slots = torch.full_like(keys, self.capacity)
        left = torch.arange(len(keys), device=keys.device)
        for step in range(self.slabs):
            first = (home * self.slabs + (keys + step) % self.slabs)[left]
            slab = self.keys_S.view(-1, SLAB).index_select(0, first)
            self.slabs_read += len(left)
            row, place = (slab == keys[left, None]).nonzero(as_tuple=True)
            slots[left[row]] = first[row] * SLAB + place
            open_ = (slots[left] == self.capacity) & (
                slab[:, -1] != EMPTY
            )  # slots fill from the left
            left = left[open_]
            if not len(left):
                break
        return slots

    def replace(self, keys, vectors):
        """None; absent keys come in, each for an empty slot or else its set's least recent.

        Present keys become as recent as the last query; their vectors stay. Of equal keys the
        first counts; of more new keys of one set than it has slots, the first so many.
        """
        keys, vectors = self.checked(keys), self.checked_vectors(keys, vectors)
        with self.lock:
            slots = self.locate(keys)
            self.counters_S.index_fill_(0, slots, self.now)
            absent = self.absent(slots)
            absent = absent[_firsts(keys[absent])]
            rank = self._rank_in_set(keys[absent])
            turns = min(int(rank.max()) + 1, self.ways) if len(rank) else 0
            for turn in range(turns):  # a set has room for so many; the others stay out
                chosen = absent[rank == turn]  # one key a set: no two want one slot
                self._insert(keys[chosen], vectors[chosen])

    def _rank_in_set(self, keys):
        home, order = torch.sort((mix(keys) & 0xFFFFFFFF) * self.sets >> 32, stable=True)
        rank = torch.empty_like(order)
        starts = torch.searchsorted(home, home)
        rank[order] = torch.arange(len(keys), device=keys.device) - starts
        return rank

    def _insert(self, keys, vectors):
        hashes = mix(keys)
        home = (hashes & 0xFFFFFFFF) * self.sets >> 32
        way = torch.arange(self.ways, device=keys.device)
        ways = (way + (keys % self.slabs * SLAB)[:, None]) % self.ways  # first slab first
        counters = self.counters_S[:-1].view(-1, self.ways)[home].gather(1, ways)
        chosen = ways.gather(1, counters.argmin(1, keepdim=True))[:, 0]
        slots = home * self.ways + chosen
        self.keys_S[slots], self.counters_S[slots] = keys, self.now
        self.vectors_SW[slots] = vectors
        self.guesses[home * TAGS + (hashes >> 32 & (TAGS - 1))] = chosen.to(torch.uint8)

    def update(self, keys, vectors):
        """None; new vectors for keys that are present, of equal keys the last; nothing else."""
        keys, vectors = self.checked(keys), self.checked_vectors(keys, vectors)
        last = len(keys) - 1 - _firsts(keys.flip(0))
        with self.lock:
            slots = self.locate(keys[last])
            there = slots < self.capacity
            self.vectors_SW[slots[there]] = vectors[last[there]]

    def dump(self):
        """The keys that are present, set by set, slab by slab."""
        with self.lock:
            return self.keys_S[self.keys_S != EMPTY]

    def checked(self, keys):
        """`keys` on the cache's device; ValueError for what no table can have."""
        keys = torch.as_tensor(keys)
        if keys.ndim != 1 or (keys.dtype != torch.int64 and keys.numel()):
            came = f"keys of shape {tuple(keys.shape)}, {keys.dtype}"
            raise ValueError(f"{came}; one axis of torch.int64 is allowed")
        keys = keys.to(self.device, torch.int64)
        if len(keys) and keys.min() == EMPTY:
            raise ValueError(f"the key {EMPTY} came; it is reserved: it marks an empty slot")
        return keys

    def checked_vectors(self, keys, vectors):
        """`vectors` on the cache's device; ValueError for another shape, or NaN or infinity."""
        vectors = torch.as_tensor(vectors)
        wanted = (len(keys), self.width)
        if tuple(vectors.shape) != wanted:
            came = f"vectors of shape {tuple(vectors.shape)}"
            raise ValueError(
                f"{came}; {wanted} is needed: one of the cache's width for each key"
            )
        vectors = vectors.to(self.device, self.vectors_SW.dtype)
        if not torch.isfinite(vectors).all():
            raise ValueError("a vector with NaN or infinity came; one would spoil every score")
        return vectors


def _firsts(keys):
    """The places of the first of each key, ascending."""
    if len(keys) < 2:
        return torch.arange(len(keys), device=keys.device)
    order = torch.sort(keys, stable=True)
    new = torch.ones_like(keys, dtype=torch.bool)
    new[1:] = order.values[1:] != order.values[:-1]
    return order.indices[new].sort().values
