"""Phrases encoded as a GPU would, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier. The network has random
weights: what is counted does not depend on them.
"""

import phrase_encoder as pe
import torch

PHRASES_PER_ANCHOR = 45
METRICS = {
    "sample_phrases_per_s": ("ours", lambda sizes: sizes["test_anchors"] * PHRASES_PER_ANCHOR)
}


def ours(sizes, device):
    """Phrases of one length in a batch; the vectors come down once, at the end"""
    encoder, batches = _held(sizes, device)

    def encode():
        with torch.inference_mode():
            vectors = [
                pe.pooled(encoder.through(encoder.embed(ids), None), None)
                for ids in _up(batches, device)
            ]
            return torch.cat(vectors).cpu()

    return encode


def naive(sizes, device):
    """Each phrase alone"""
    encoder, batches = _held(sizes, device)
    alone = [row[None] for ids in batches for row in ids]

    def encode():
        with torch.inference_mode():
            return torch.cat(
                [
                    pe.pooled(encoder.through(encoder.embed(ids), None), None)
                    for ids in _up(alone, device)
                ]
            ).cpu()

    return encode


def broken(sizes, device):
    """The same batches, but the vectors of each come down before the next begins"""
    encoder, batches = _held(sizes, device)

    def encode():
        with torch.inference_mode():
            return torch.cat(
                [
                    pe.pooled(encoder.through(encoder.embed(ids), None), None).cpu()
                    for ids in _up(batches, device)
                ]
            )

    return encode


def _up(batches, device):
    return [ids.to(device) for ids in batches]


def _held(sizes, device, batch=256):
    """The encoder, and batches of token ids (B, T) on the host, of 3 to 8 tokens per phrase."""
    count, lengths = sizes["test_anchors"] * PHRASES_PER_ANCHOR, range(3, 9)
    random = torch.Generator().manual_seed(0)
    made = [
        torch.randint(1000, pe.WORDS, (count // len(lengths), length), generator=random)
        for length in lengths
    ]
    return pe.Encoder().to(device).eval(), [part for ids in made for part in ids.split(batch)]
