"""Phrases encoded as a GPU would, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier. The network has random
weights: what is counted does not depend on them.
"""

import phrase_encoder as pe
import torch

PHRASES_PER_ANCHOR = 45


def ours(sizes, device):
    """Batches of 65,536 tokens, phrases of one length; the vectors come down at the end"""
    return _encoding(sizes, device, pe.GPU_TOKENS)


def naive(sizes, device):
    """Batches of 1,024 tokens, as a CPU's cache likes them"""
    return _encoding(sizes, device, 1024)


def broken(sizes, device):
    """The chapter's batches, but each phrase's vector is fetched on its own"""
    return _encoding(sizes, device, pe.GPU_TOKENS, each=True)


def _encoding(sizes, device, tokens, each=False):
    """A function that encodes phrases of 3 to 8 tokens whose ids lie on the host."""
    count, lengths = sizes["test_anchors"] * PHRASES_PER_ANCHOR, range(3, 9)
    random = torch.Generator().manual_seed(0)
    shapes = [(count // len(lengths), length) for length in lengths]
    made = [torch.randint(1000, pe.WORDS, shape, generator=random) for shape in shapes]
    encoder = pe.Encoder().to(device).eval()
    batches = [part for ids in made for part in ids.split(tokens // ids.shape[1])]

    @torch.inference_mode()
    def encode():
        found = []
        for ids in batches:
            vectors = pe.pooled(encoder.through(encoder.embed(ids.to(device)), None), None)
            found += [torch.stack([one.cpu() for one in vectors])] if each else [vectors]
        return torch.cat(found).cpu()

    return encode
