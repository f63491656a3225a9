"""A set-associative cache of embeddings in tensors, for any device.

The GPU embedding cache of the article, after HugeCTR's `gpu_cache`: slabs of 32 slots, two
slabs a set, a counter for each slot, four calls: Query, Replace, Update, Dump.
`reference.ReferenceCache` says the same in loops. Four things differ. The set is the upper half
of a product of the hash (no division). One batch is one step: what is present is refreshed
before anything is evicted, so that the order within a batch cannot evict a key of the batch
that is there. A way predictor, as processors have, comes before the search: 512 one-byte
guesses a set say where a hash was seen last, so that most hits read one key. And the search
reads all slabs of a set in one gather, where the original's warp takes one slab after the other
and ends at one with an empty slot; it finds the same, since nothing lies behind that one.

Shapes: `K` keys of a call, `S` slots, `W` width. Keys are int64, vectors of the cache's dtype.
Memory for each slot: W floats, 20 bytes of key, counter and claim, 8 of guesses.
"""

import threading
import time
from collections import namedtuple

import torch

from .reference import SLAB, mix

EMPTY = -(2**63)  # the one key that no table may have
TAGS = 512
PART, PAUSE_S = 512, 5e-5  # rows of an update at a time; a pause that lets a waiting hit in
Query = namedtuple("Query", "vectors missing present")


class DeviceCache:
    """A cache of at least `capacity` vectors.

        cache = DeviceCache(capacity=4096, width=128, device="cuda")
        found = cache.query(keys)                   # found.vectors, found.missing
        cache.replace(keys[found.missing], vectors)

    Calls take `lock`, so threads share one cache. Raises ValueError for keys that are not a row
    of int64, for the reserved key, for vectors of another shape or with NaN.
    """

    @torch.inference_mode(False)  # one that is made in an inference is changed outside of it
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
        self.claims_S = torch.zeros(self.capacity + 1, dtype=torch.int32, device=device)
        self.guesses = torch.zeros(self.sets * TAGS, dtype=torch.uint8, device=device)
        self.device, self.now = self.keys_S.device, 0
        self.lock = threading.RLock()

    def query(self, keys):
        """Query(vectors (K, W), places of absent keys, how many distinct keys are present).

        Rows of absent keys are zero. Those present become the most recent.
        """
        keys = self.checked(keys)
        with self.lock:  # else a slot might get another key between search and gather
            slots, *_ = self.locate(keys)
            self.now += 1
            self.counters_S.index_fill_(0, slots, self.now)
            vectors = self.vectors_SW.index_select(0, slots)
            present = self._distinct(slots)
        missing = self.absent(slots)
        return Query(vectors, missing, present - (len(missing) > 0))

    def absent(self, slots):
        """The places of absent keys in what `locate` returned."""
        return (slots == self.capacity).nonzero()[:, 0]

    def _distinct(self, slots):
        """How many slots these are, without a sort: each keeps the last place that names it."""
        place = torch.arange(len(slots), dtype=torch.int32, device=slots.device)
        self.claims_S.scatter_(0, slots, place)
        return int((self.claims_S.index_select(0, slots) == place).sum())

    def locate(self, keys):
        """(slot of each key, `capacity` where absent; its set; the place of its guess)."""
        hashes = mix(keys)
        home = (hashes & 0xFFFFFFFF) * self.sets >> 32
        guess = home * TAGS + (hashes >> 32 & (TAGS - 1))
        slots = home * self.ways + self.guesses.index_select(0, guess)
        wrong = (self.keys_S.index_select(0, slots) != keys).nonzero()[:, 0]
        if len(wrong):
            slots[wrong] = found = self._search(keys[wrong], home[wrong])
            # an absent key's guess becomes 0; a guess may be wrong, since its key is looked at
            self.guesses[guess[wrong]] = (found % self.ways).to(torch.uint8)
        return slots, home, guess

    def _search(self, keys, home):
        """The slots of keys in their sets, `capacity` where absent; a set is read at once."""
        there = self.keys_S.view(-1, self.ways).index_select(0, home) == keys[:, None]
        found, way = there.to(torch.uint8).max(1)
        return torch.where(found > 0, home * self.ways + way, self.capacity)

    def replace(self, keys, vectors):
        """None; absent keys come in, each for an empty slot or else its set's least recent.

        Present keys become as recent as the last query; their vectors stay. Of equal keys the
        first counts; of more new keys of one set than it has slots, the first so many.
        """
        keys, vectors = self.checked_pair(keys, vectors)
        with self.lock:
            slots, home, guess = self.locate(keys)
            self.counters_S.index_fill_(0, slots, self.now)
            absent = self.absent(slots)
            absent = absent[_firsts(keys[absent])]
            rank = _rank_in_set(home[absent])
            turns = min(int(rank.max()) + 1, self.ways) if len(rank) else 0
            for turn in range(turns):  # a set has room for so many; the others stay out
                new = absent[rank == turn]  # one key a set: no two want one slot
                self._insert(keys[new], vectors[new], home[new], guess[new])

    def _insert(self, keys, vectors, home, guess):
        least, place = self.counters_S[:-1].view(-1, self.slabs, SLAB)[home].min(2)
        slabs = torch.arange(self.slabs, device=keys.device) + (keys % self.slabs)[:, None]
        slabs %= self.slabs  # the key's first slab first
        slab = slabs.gather(1, least.gather(1, slabs).argmin(1, keepdim=True))
        chosen = (slab * SLAB + place.gather(1, slab))[:, 0]
        slots = home * self.ways + chosen
        self.keys_S.index_copy_(0, slots, keys)
        self.counters_S.index_fill_(0, slots, self.now)
        self.vectors_SW.index_copy_(0, slots, vectors)
        self.guesses.index_copy_(0, guess, chosen.to(torch.uint8))

    def update(self, keys, vectors):
        """None; new vectors for keys that are present, of equal keys the last; nothing else.

        So many at a time that a hit waits for few: Python's lock is not fair, so that without a
        pause the next part would have it before a waiting hit wakes.
        """
        keys, vectors = self.checked_pair(keys, vectors)
        last = len(keys) - 1 - _firsts(keys.flip(0))
        for part in last.split(PART):
            with self.lock:
                slots, *_ = self.locate(keys[part])
                there = slots < self.capacity
                self.vectors_SW[slots[there]] = vectors[part[there]]
            if len(last) > PART:
                time.sleep(PAUSE_S)

    def clear(self):
        """None; forgets all."""
        with self.lock:
            self.keys_S.fill_(EMPTY)
            self.counters_S.fill_(-1)

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

    def checked_pair(self, keys, vectors):
        """Both on the cache's device; ValueError for another shape, or NaN or infinity."""
        keys, vectors = self.checked(keys), torch.as_tensor(vectors)
        wanted = (len(keys), self.width)
        if tuple(vectors.shape) != wanted:
            came = f"vectors of shape {tuple(vectors.shape)}"
            raise ValueError(f"{came}; {wanted} is needed: a vector of its width for each key")
        vectors = vectors.to(self.device, self.vectors_SW.dtype)
        if not torch.isfinite(vectors).all():  # also what is too large for the cache's dtype
            raise ValueError("a vector with NaN or infinity came; one would spoil every score")
        return keys, vectors


def _firsts(keys):
    """The places of the first of each key, ascending; keys that rise are not sorted again."""
    if (keys[1:] > keys[:-1]).all():
        return torch.arange(len(keys), device=keys.device)
    order = torch.sort(keys, stable=True)
    new = torch.ones_like(keys, dtype=torch.bool)
    new[1:] = order.values[1:] != order.values[:-1]
    return order.indices[new].sort().values


def _rank_in_set(home):
    """How many of the same set come before each, in their order."""
    sorted_, order = torch.sort(home, stable=True)
    rank = torch.empty_like(order)
    first = torch.searchsorted(sorted_, sorted_)
    rank[order] = torch.arange(len(home), device=home.device) - first
    return rank
