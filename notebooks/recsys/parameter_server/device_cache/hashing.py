"""Murmur3's finaliser: it spreads keys that count up over all sets."""

FIRST, SECOND = -0xAE502812AA7333, -0x3B314601E57A13AD  # Murmur3's constants, signed


def mix(keys):
    """The 64-bit mix of each key, int64; for tensors and for Python's ints.

        mix(torch.tensor([1]))    # tensor([-5451962507482445012])

    torch shifts the sign in from the left, so the shifted words are masked.
    """
    for factor in (FIRST, SECOND):
        keys = (keys ^ (keys >> 33) & 0x7FFFFFFF) * factor
        if isinstance(keys, int):  # tensors wrap around by themselves
            keys = (keys + 2**63) % 2**64 - 2**63
    return keys ^ (keys >> 33) & 0x7FFFFFFF
