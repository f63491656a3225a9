"""A small language of topics, and a run to a target loss whose batches are padded, unpadded or
packed.

Article: "The Full Stack Optimization Powering NVIDIA MLPerf Training v2.0 Performance"
(NVIDIA, 2022). A sequence has two parts, and a topic gives each part its words. Masked words
follow from the rest of their own sequence and from nothing else, so attention that leaves a
sequence has a price. The 'next sentence' label says whether both parts have one topic. It
stands in for Wikipedia, of which only the lengths are used here.

Packed rows hold `factor` sequences each, on average. With as many rows as before, a batch has
`factor` times the sequences; Krell et al. (arXiv:2107.02027) divide the rows by the factor or
correct the rate. Both are arms of the study beside this module, and neither.
"""

import time
from dataclasses import dataclass

import torch
from packed_bert import (
    IGNORED,
    PackedBert,
    across_mask,
    block_mask,
    lay_out,
    loss,
    loss_by_pack,
)
from sequence_packing import assign, lpfhp
from torch.nn import functional as F

CLS, SEP, MASK, WORDS = 1, 2, 3, 4  # first ids; words begin with 4
TOPICS, WORDS_A_TOPIC = 8, 8
VOCABULARY = WORDS + TOPICS * WORDS_A_TOPIC


@dataclass(frozen=True)
class Data:
    """Sequences (lists of token ids), labels of masked tokens (IGNORED elsewhere), and
    next-sentence labels, by number."""

    sequences: list
    labels: list
    following: list

    def batch(self, packs, row_length):
        """A `Batch` of the packs, lists of sequence numbers, with numbers of its own."""
        numbers = [number for pack in packs for number in pack]
        places = iter(range(len(numbers)))
        own = [[next(places) for _ in pack] for pack in packs]
        parts = (self.sequences, self.labels, self.following)
        return lay_out(*([part[n] for n in numbers] for part in parts), own, row_length)


@dataclass(frozen=True)
class Recipe:
    """How batches are laid out ('padded', 'unpadded' or 'packed'), sequences in a padded
    batch, which of rows or rate a packed one corrects ('rows', 'rate' or 'nothing'), and the
    mask and loss ('right' or 'wrong')."""

    layout: str = "padded"
    corrects: str = "rows"
    mask: str = "right"
    loss: str = "right"
    sequences: int = 32
    rate: float = 1e-2  # the best of padded batches among factors of two
    row_length: int = 32

    def __post_init__(self):
        for name, allowed in ALLOWED.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name}={getattr(self, name)!r}; allowed are {', '.join(allowed)}"
                )


ALLOWED = {"layout": ("padded", "unpadded", "packed"), "corrects": ("rows", "rate", "nothing")}
ALLOWED |= {"mask": ("right", "wrong"), "loss": ("right", "wrong")}


def draw(lengths, generator):
    """`Data` of these lengths, 4 tokens or more each: CLS, words of one topic, SEP, words of
    the same or of another topic. A sixth of the words is masked, at least one."""
    sequences, labels, following = [], [], []
    for length in map(int, lengths):
        if length < 4:
            raise ValueError(
                f"a sequence of {length} tokens; 4 or more are allowed: two marks, two words"
            )
        first = int(torch.randint(TOPICS, (1,), generator=generator))
        same = int(torch.randint(2, (1,), generator=generator))
        other = 1 + int(torch.randint(TOPICS - 1, (1,), generator=generator))
        topics = (first, first if same else (first + other) % TOPICS)
        words = torch.randint(WORDS_A_TOPIC, (length,), generator=generator)
        middle = length // 2
        tokens = [
            WORDS + topics[at > middle] * WORDS_A_TOPIC + int(word)
            for at, word in enumerate(words)
        ]
        tokens[0], tokens[middle] = CLS, SEP
        places = [at for at in range(1, length) if at != middle]
        order = torch.randperm(len(places), generator=generator)[: max(1, len(places) // 6)]
        targets = [IGNORED] * length
        for at in (places[i] for i in order):
            targets[at], tokens[at] = tokens[at], MASK
        sequences.append(tokens)
        labels.append(targets)
        following.append(same)
    return Data(sequences, labels, following)


def packed_rows(data, row_length, most=3):
    """(rows of sequence numbers, the packing factor), longest-pack-first from the lengths."""
    lengths = [len(sequence) for sequence in data.sequences]
    histogram = torch.bincount(torch.tensor(lengths), minlength=row_length + 1)[1:]
    rows = assign(lengths, *lpfhp(histogram.numpy(), row_length, most))
    return rows, len(lengths) / len(rows)


def batches(data, recipe, generator):
    """Without end, in a new order each epoch: (`Batch`, sequences in it)."""
    rows, factor = [[number] for number in range(len(data.sequences))], 1.0
    if recipe.layout == "packed":
        rows, factor = packed_rows(data, recipe.row_length)
    count = recipe.sequences
    if recipe.corrects == "rows":
        count = max(1, round(recipe.sequences / factor))
    if count > len(rows):
        raise ValueError(f"a batch of {count} rows from {len(rows)}: draw more sequences")
    while True:
        order = torch.randperm(len(rows), generator=generator).tolist()
        for start in range(0, len(rows) - count + 1, count):
            packs = [rows[at] for at in order[start : start + count]]
            numbers, length = [n for pack in packs for n in pack], recipe.row_length
            if recipe.layout == "unpadded":
                packs, length = [numbers], sum(len(data.sequences[n]) for n in numbers)
            yield data.batch(packs, length), len(numbers)


def rate_of(recipe, data):
    """The learning rate of a run: times the packing factor where the recipe corrects the
    rate."""
    if recipe.layout == "packed" and recipe.corrects == "rate":
        return recipe.rate * packed_rows(data, recipe.row_length)[1]
    return recipe.rate


def train(data, recipe, sequences, every, seed=0):
    """A list of (sequences seen, steps, seconds of training, weights), one row for each
    `every` sequences until `sequences` are seen; the clock runs in steps only."""
    torch.manual_seed(seed)
    model = _model(recipe.row_length)
    optimiser = torch.optim.Adam(model.parameters(), rate_of(recipe, data))
    source = batches(data, recipe, torch.Generator().manual_seed(seed))
    rows, seen, steps, seconds = [], 0, 0, 0.0
    mask = {"right": block_mask, "wrong": across_mask}[recipe.mask]
    lost = {"right": loss, "wrong": loss_by_pack}[recipe.loss]
    while seen < sequences:
        batch, count = next(source)
        began = time.perf_counter()
        value = lost(model(batch, mask, unpadded=recipe.layout == "unpadded"), batch)
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        optimiser.step()
        seconds += time.perf_counter() - began
        seen, steps = seen + count, steps + 1
        if seen // every > len(rows):
            weights = {name: one.clone() for name, one in model.state_dict().items()}
            rows += [(seen, steps, seconds, weights)] * (seen // every - len(rows))
    return rows


@torch.no_grad()
def judged(rows, held):
    """The rows of `train` with a loss in the place of weights: the mean over the masked tokens
    of `held`, a padded `Batch`, in nats; read with the right mask whatever the recipe's."""
    model, found = _model(held.tokens.shape[1]), []
    for *progress, weights in rows:
        model.load_state_dict(weights)
        logits = model(held)[0].flatten(0, 1)
        lost = F.cross_entropy(logits, held.labels.flatten(), ignore_index=IGNORED)
        found.append((*progress, lost.item()))
    return found


def _model(row_length):
    return PackedBert(VOCABULARY, width=32, heads=2, layers=1, positions=row_length)


def to_target(rows, target):
    """(sequences, steps, seconds) at the first row whose loss is at most `target`; of the last
    row where none is, so that the number is a lower bound; and whether it was reached."""
    if not rows:
        raise ValueError("no rows: train for at least one evaluation")
    for seen, steps, seconds, lost in rows:
        if lost <= target:
            return seen, steps, seconds, True
    return (*rows[-1][:3], False)
