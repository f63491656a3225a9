"""The race: tokens a second of a training step padded, unpadded and packed, beside the
flattening collator of transformers on the same weights. Losses and gradients are compared
first.

In the chapter's folder, a receipt or a quick look:

    python -m bench_packing
    python -m bench_packing --rounds 3 --sequences 6

Fewer rows a call are faster by themselves where they fit a cache, and packing leaves fewer. So
padded and packed rows are each tried one, a few and all at a time, and the best of each are
compared.

The collator puts sequences into one row without padding. On a CPU its model needs an explicit
block-diagonal mask, which costs the square of the row, so its tokens a row are a grid, fewer
than our row's among them, and it goes row by row. A sequence that is longer has a row alone.
"""

import argparse
import importlib.util

import numpy as np
import torch
from helpers import bench, check, data, device, receipts
from packed_bert import IGNORED, PackedBert, block_mask, lay_out, loss
from sequence_packing import assign, read_histogram, spfhp
from torch.nn import functional as F

ROW, VOCABULARY = 512, 1000
GRID = (256, 512, 1024, 2048)  # tokens a row of the collator
ROWS = (1, 4)  # rows a call, beside all of them


def sequences_of(count, seed=0):
    """(token ids, labels, next-sentence labels) of `count` sequences whose lengths stand at
    equal steps of Wikipedia's distribution. A sixth of the tokens is masked, but no first one,
    whose label the collator drops."""
    counts = read_histogram(data.fetch("packed_lengths") / "histograms.py")
    shares = np.cumsum(counts) / counts.sum()
    lengths = 1 + np.searchsorted(shares, (np.arange(count) + 0.5) / count)
    random = torch.Generator().manual_seed(seed)
    rows = [torch.randint(4, VOCABULARY, (n,), generator=random).tolist() for n in lengths]
    labels = [[one if at % 6 == 1 else IGNORED for at, one in enumerate(row)] for row in rows]
    return rows, labels, torch.randint(2, (count,), generator=random).tolist()


def layouts(parts, where="cpu"):
    """{name: Batch}: padded, unpadded, and packed with at most three a row, shortest-pack-first
    (least squares is for millions of sequences); and padded rows over packed ones."""
    lengths = [len(row) for row in parts[0]]
    packs = spfhp(np.bincount(lengths, minlength=ROW + 1)[1:], ROW, 3)
    rows = assign(lengths, *packs)
    made = {
        "padded": lay_out(*parts, [[n] for n in range(len(lengths))], ROW),
        "unpadded": lay_out(*parts, [list(range(len(lengths)))], sum(lengths)),
        "packed": lay_out(*parts, rows, ROW),
    }
    return {name: one.to(where) for name, one in made.items()}, len(lengths) / len(rows)


def step(model, batch, **how):
    """A function that computes the loss and the gradients of a batch, and returns the loss."""

    def call():
        model.zero_grad(set_to_none=True)
        value = loss(model(batch, **how), batch)
        value.backward()
        return value.detach()

    return call


def pieces(batch, rows):
    """Batches of so many rows each, with the sequences that lie in them."""
    made = []
    for at in range(0, len(batch.tokens), rows):
        mine = ((batch.firsts[:, 0] >= at) & (batch.firsts[:, 0] < at + rows)).nonzero()[:, 0]
        firsts = batch.firsts[mine].clone()
        firsts[:, 0] -= at
        names = ("tokens", "positions", "owners", "labels")
        own = (getattr(batch, name)[at : at + rows] for name in names)
        made.append(type(batch)(*own, firsts, batch.following[mine]))
    return made


def step_by_piece(model, batch, rows):
    """As `step`, so many rows at a time: the same loss and gradients."""
    words, count = int((batch.labels != IGNORED).sum()), len(batch.following)
    parts = pieces(batch, rows)

    def call():
        model.zero_grad(set_to_none=True)
        total = 0.0
        for one in parts:
            value = summed(*model(one), one, words, count)
            value.backward()
            total = total + value.detach()
        return total

    return call


def summed(logits, firsts, part, words, count):
    """A part's share of the loss of a batch with so many masked words and sequences."""
    lost = F.cross_entropy(
        logits.flatten(0, 1), part.labels.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return lost / words + F.cross_entropy(firsts, part.following, reduction="sum") / count


def flattened(parts, tokens):
    """The batches of the collator: sequences in order, as many to a row as fit `tokens`, each
    with the sequence that each token belongs to."""
    from transformers import DataCollatorWithFlattening

    collate = DataCollatorWithFlattening(return_seq_idx=True)
    groups, room = [], 0
    for number, row in enumerate(parts[0]):
        if len(row) > room:
            groups, room = [*groups, []], tokens
        groups[-1].append(number)
        room -= len(row)
    batches = []
    for group in groups:
        made = collate([{"input_ids": parts[0][n], "labels": parts[1][n]} for n in group])
        # a separator stands where each sequence begins; no first token is masked here
        batches.append((made, torch.tensor([parts[2][n] for n in group])))
    return batches


def encoder_like(model):
    """A BertModel of transformers with the weights of a `PackedBert`, and its heads."""
    from transformers import BertConfig, BertModel

    width = model.token.embedding_dim
    config = BertConfig(
        vocab_size=model.token.num_embeddings,
        hidden_size=width,
        num_hidden_layers=len(model.layers),
        num_attention_heads=model.heads,
        intermediate_size=4 * width,
        max_position_embeddings=model.position.num_embeddings,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        layer_norm_eps=model.norm.eps,
        attn_implementation="sdpa",
    )
    theirs = BertModel(config, add_pooling_layer=False)
    with torch.no_grad():
        for target, source in _pairs(theirs, model):
            target.copy_(source)
        theirs.embeddings.token_type_embeddings.weight.zero_()
    return theirs


def _pairs(theirs, ours):
    own = theirs.embeddings
    yield own.word_embeddings.weight, ours.token.weight
    yield own.position_embeddings.weight, ours.position.weight
    yield from zip(own.LayerNorm.parameters(), ours.norm.parameters(), strict=True)
    for layer, mine in zip(theirs.encoder.layer, ours.layers, strict=True):
        one = layer.attention
        parts = (one.self.query, one.self.key, one.self.value)
        for kind in ("weight", "bias"):
            chunks = getattr(mine.qkv, kind).chunk(3)
            yield from zip((getattr(p, kind) for p in parts), chunks, strict=True)
        same = [(one.output.dense, mine.out), (one.output.LayerNorm, mine.norm1)]
        same += [(layer.intermediate.dense, mine.up), (layer.output.dense, mine.down)]
        same += [(layer.output.LayerNorm, mine.norm2)]
        for target, source in same:
            yield from zip(target.parameters(), source.parameters(), strict=True)


def peer_step(theirs, heads, batches, masked=True):
    """As `step`, with transformers' encoder, the heads of a `PackedBert`, and the collator's
    batches; without `masked`, tokens look at all of their row."""
    count = sum(int((made["labels"] != IGNORED).sum()) for made, _ in batches)
    sequences = sum(len(following) for _, following in batches)

    def call():
        theirs.zero_grad(set_to_none=True)
        heads.zero_grad(set_to_none=True)
        total = 0.0
        for made, following in batches:
            mask = block_mask(made["seq_idx"]) if masked else None
            x_BSD = theirs(
                made["input_ids"], attention_mask=mask, position_ids=made["position_ids"]
            ).last_hidden_state
            words = F.cross_entropy(
                heads.masked(x_BSD).flatten(0, 1), made["labels"].flatten(), reduction="sum"
            )
            firsts = x_BSD[made["position_ids"] == 0]
            both = F.cross_entropy(heads.next(firsts), following, reduction="sum")
            value = words / count + both / sequences
            value.backward()
            total = total + value.detach()
        return total

    return call


def off_without_mask(model, parts, tokens=ROW):
    """How far the gradients of the collator's model are off where it gets no mask, in %."""
    theirs, made = encoder_like(model), flattened(parts, tokens)
    right, mixed = (_gradients(theirs, peer_step(theirs, model, made, one)) for one in (1, 0))
    return 100 * ((mixed - right).norm() / right.norm()).item()


def _gradients(theirs, step):
    step()
    return torch.cat([one.grad.flatten() for one in theirs.parameters()])


def contestants(model, parts, grid=GRID):
    """({name: function}, rows that packing saves); the peer where transformers is there."""
    made, factor = layouts(parts)
    runs = {"padded": step(model, made["padded"]), "packed": step(model, made["packed"])}
    for rows in ROWS:
        for name in ("padded", "packed"):
            runs[f"{name} {rows}"] = step_by_piece(model, made[name], rows)
    runs["unpadded"] = step(model, made["unpadded"], unpadded=True)
    if importlib.util.find_spec("transformers"):
        theirs = encoder_like(model)
        for tokens in grid:
            runs[f"flattened {tokens}"] = peer_step(theirs, model, flattened(parts, tokens))
    return runs, factor


def agree(runs, model):
    """None; AssertionError unless all losses are equal, and the gradients of a layer that all
    share, the heads."""
    runs["padded"]()
    expected = model.masked.weight.grad.clone()
    value = runs["padded"]()
    why = "float32 sums of thousands of terms in another order"
    for run in runs.values():
        check.close(run(), value, rtol=1e-4, why=why)
        scale = expected.abs().max().item()
        check.close(model.masked.weight.grad, expected, atol=1e-3 * scale, why=why)


def best(results, name):
    """The Measurement of a layout with the rows a call at which it is fastest."""
    own = [found for one, found in results.items() if one.split()[0] == name]
    return min(own, key=lambda found: found.median_s)


def main(arguments=None):
    """Check, race, print the table and the receipt's path."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("mlperf_training", device.tier("cpu"), threads=options.threads)
    torch.manual_seed(0)
    parts = sequences_of(options.sequences)
    model = PackedBert(VOCABULARY, options.width, heads=4, layers=2, positions=ROW)
    runs, factor = contestants(model, parts)
    agree(runs, model)
    if any(name.startswith("flattened") for name in runs):
        receipt.record("flattened_gradients_off", off_without_mask(model, parts), "%")
    else:
        print("left out: the flattening collator, as transformers is not installed")
    race = bench.race(runs, repeats=options.rounds, warmup=1, reference="padded", device="cpu")
    print(race)
    tokens = sum(map(len, parts[0]))
    receipt.sizes(sequences=options.sequences, tokens=tokens, width=options.width)
    for name, found in race.results.items():
        rate = bench.spread(tokens / seconds for seconds in found.times_s)
        receipt.record(f"tokens_rate_{name.replace(' ', '_')}", rate, "tokens/s")
    receipt.record("packed_rows_saved", factor, "×")
    padded, packed = (best(race.results, name) for name in ("padded", "packed"))
    gain = bench.ratio(padded, packed)
    receipt.record("packed_speedup", gain)
    receipt.record("unpadded_speedup", bench.ratio(padded, race.results["unpadded"]))
    receipt.record("padded_fewer_rows_speedup", bench.ratio(race.results["padded"], padded))
    share = bench.ratio(padded, packed, 100 / factor)
    receipt.record("packed_share_of_gain", bench.Spread(*share), "%", timing=True)
    print(receipt.write(name="packing"))


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, default, words in (
        ("rounds", 20, "interleaved rounds"),
        ("threads", device.cores(), "of torch"),
        ("sequences", 16, "in a batch"),
        ("width", 128, "of the network"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{words} (default: %(default)s)"
        )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
