"""A small BERT whose batch is padded, packed or unpadded: three layouts of the same
sequences, one loss.

Article: "The Full Stack Optimization Powering NVIDIA MLPerf Training v2.0 Performance"
(NVIDIA, 2022). A packed row holds several sequences; so that it equals the sequences alone,
positions begin anew in each, attention stays inside each (a block-diagonal mask), the
next-sentence head reads the first token of each, and the masked loss is the plain mean over
all masked tokens, whatever row they lie in (Krell et al., arXiv:2107.02027).

The unpadded layout has one row without padding, and attention goes over the sequences one by
one by their offsets.

Legend: B rows, S tokens a row, N sequences, D width, H heads, E width of a head.
"""

from dataclasses import dataclass, fields

import torch
from torch import nn
from torch.nn import functional as F

IGNORED = -100  # a label that no loss counts


@dataclass(frozen=True)
class Batch:
    """Sequences laid out in rows: token ids, positions, owners (which sequence; -1 is
    padding) and labels, each int64 (B, S); the row and place of each sequence's first token,
    int64 (N, 2); next-sentence labels, int64 (N,)."""

    tokens: torch.Tensor
    positions: torch.Tensor
    owners: torch.Tensor
    labels: torch.Tensor
    firsts: torch.Tensor
    following: torch.Tensor

    def to(self, device):
        """The same batch on a device."""
        return Batch(*(getattr(self, one.name).to(device) for one in fields(self)))


def lay_out(sequences, labels, following, packs, row_length):
    """The `Batch` of lists of token ids, packed as `packs` says: a list of sequence numbers
    for each row.

    >>> lay_out([[5, 6], [7]], [[-100, 6], [7]], [0, 1], [[0, 1]], 4).owners
    tensor([[ 0,  0,  1, -1]])

    Padded is one sequence a row; unpadded one row of all with their summed length. Raises
    ValueError where a row is too short, a sequence is empty, or a sequence does not lie in
    exactly one row, or no token is masked (a mean of nothing has no value).
    """
    if sorted(number for pack in packs for number in pack) != list(range(len(sequences))):
        raise ValueError(
            f"packs {packs} must hold each of {len(sequences)} sequences exactly once"
        )
    shape = (len(packs), row_length)
    tokens, positions = (
        torch.zeros(shape, dtype=torch.int64),
        torch.zeros(shape, dtype=torch.int64),
    )
    owners, targets = torch.full(shape, -1), torch.full(shape, IGNORED)
    firsts = torch.zeros(len(sequences), 2, dtype=torch.int64)
    if not any(label != IGNORED for row in labels for label in row):
        raise ValueError("no token is masked: mask at least one in the batch")
    for row, pack in enumerate(packs):
        place = 0
        for number in pack:
            length = len(sequences[number])
            if not length or len(labels[number]) != length or place + length > row_length:
                raise ValueError(
                    f"sequence {number}: {length} tokens, {len(labels[number])} labels, at "
                    f"place {place}; it must have tokens, a label for each, and fit a row "
                    f"of {row_length}"
                )
            span = slice(place, place + length)
            tokens[row, span] = torch.as_tensor(sequences[number])
            positions[row, span] = torch.arange(length)
            owners[row, span] = number
            targets[row, span] = torch.as_tensor(labels[number])
            firsts[number] = torch.tensor([row, place])
            place += length
    return Batch(tokens, positions, owners, targets, firsts, torch.as_tensor(following))


def block_mask(owners):
    """Who may look at whom, bool (B, 1, S, S): tokens of one sequence at each other; padding
    at padding alone, as a row of a softmax without any entry has no value."""
    return (owners[:, :, None] == owners[:, None, :])[:, None]


def across_mask(owners):
    """The mask that looks right and is wrong, bool (B, 1, S, S): every token of a row, of
    other sequences, too."""
    real = owners >= 0
    return (real[:, :, None] == real[:, None, :])[:, None]


class PackedBert(nn.Module):
    """Logits of masked tokens (B, S, vocabulary) and of next sentences (N, 2) for a `Batch`.

    `mask` makes the mask from owners; with `unpadded`, attention goes by offsets and makes
    none.
    """

    def __init__(self, vocabulary=64, width=32, heads=4, layers=2, positions=64):
        super().__init__()
        self.heads = heads
        self.token, self.position = (
            nn.Embedding(vocabulary, width),
            nn.Embedding(positions, width),
        )
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))
        self.masked, self.next = nn.Linear(width, vocabulary), nn.Linear(width, 2)

    def forward(self, batch, mask=block_mask, unpadded=False):
        x_BSD = self.norm(self.token(batch.tokens) + self.position(batch.positions))
        if unpadded:
            if len(batch.tokens) != 1 or (batch.owners < 0).any():
                raise ValueError(
                    "unpadded is one row without padding: lay all sequences out in one pack"
                )
            lengths = torch.unique_consecutive(batch.owners[0], return_counts=True)[1].tolist()
            attend = lambda q, k, v: _by_offsets(q, k, v, lengths)  # noqa: E731
        else:
            seen = mask(batch.owners)
            attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=seen)  # noqa: E731
        for layer in self.layers:
            x_BSD = layer(x_BSD, attend)
        return self.masked(x_BSD), self.next(x_BSD[batch.firsts[:, 0], batch.firsts[:, 1]])


class _Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x_BSD, attend):
        B, S, D = x_BSD.shape
        q, k, v = (
            self.qkv(x_BSD).view(B, S, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        )
        seen_BSD = attend(q, k, v).transpose(1, 2).reshape(B, S, D)
        x_BSD = self.norm1(x_BSD + self.out(seen_BSD))
        return self.norm2(x_BSD + self.down(F.gelu(self.up(x_BSD))))


def _by_offsets(q_BHSE, k_BHSE, v_BHSE, lengths):
    parts = zip(*(x.split(lengths, dim=2) for x in (q_BHSE, k_BHSE, v_BHSE)), strict=True)
    return torch.cat([F.scaled_dot_product_attention(*part) for part in parts], dim=2)


def loss(logits, batch):
    """The masked loss, a plain mean over masked tokens, plus the next-sentence loss, a mean
    over sequences; a scalar."""
    masked = F.cross_entropy(
        logits[0].flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED
    )
    return masked + F.cross_entropy(logits[1], batch.following)


def loss_by_pack(logits, batch):
    """The loss that looks right and is wrong: a mean in each row, then over rows, so that
    crowded rows count less."""
    rows = [
        F.cross_entropy(row, labels, ignore_index=IGNORED)
        for row, labels in zip(logits[0], batch.labels, strict=True)
        if (labels != IGNORED).any()
    ]
    return torch.stack(rows).mean() + F.cross_entropy(logits[1], batch.following)
