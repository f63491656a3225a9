"""Handwritten digits of 8 × 8 numbers, and the way there from a drawing.

The data are those that scikit-learn carries: the test set of UCI's "Optical Recognition of
Handwritten Digits" (Alpaydin and Kaynak, 1998), 1,797 pictures of 13 writers. Which picture is
whose is not told, so a random split puts each writer on both sides, and what is measured says
little about a new writer.

Its makers took bitmaps of 32 × 32 from forms, by routines of NIST that normalise size and
place, and counted the ink in blocks of 4 × 4: 64 numbers from 0 to 16. `reduced` is that count.
`framed` stands in for NIST's routine. What it does is read off the data: all 1,797 pictures
have ink in the first and the last row of blocks, few in the first or the last column. So a
drawing is made as high as the frame, a wide one is pressed together to 20 of its 32 columns,
and it is centred. What is not rebuilt of NIST's routine: cutting the field out of a scanned
form, cleaning it, and taking a slant away.

Shapes: `N` pictures, `S` the side of a drawing in pixels.
"""

import numpy as np

FRAME, BLOCK, WIDE = 32, 4, 20  # bits a side, bits a side of a block, the most bits in a row


def load():
    """(counts (N, 64) float64 from 0 to 16, digits (N,)): scikit-learn's copy."""
    from sklearn.datasets import load_digits

    counts, digits = load_digits(return_X_y=True)
    return counts, digits


def split(digits, seed, tests=597):
    """(train, test): positions, drawn at random; the writers are not known, so not apart.

    Raises ValueError unless 1 ≤ tests < N.
    """
    if not 1 <= tests < len(digits):
        raise ValueError(
            f"{tests} tests of {len(digits)} pictures; 1 to {len(digits) - 1} allowed"
        )
    order = np.random.default_rng(seed).permutation(len(digits))
    return order[tests:], order[:tests]


def reduced(bits):
    """(64,) numbers from 0 to 16: the ink in each block of 4 × 4 of a 32 × 32 bitmap.

    Raises ValueError for another shape, or values beside 0 and 1.
    """
    bits = np.asarray(bits)
    if bits.shape != (FRAME, FRAME) or not np.isin(bits, (0, 1)).all():
        raise ValueError(f"a bitmap of shape {bits.shape}; 32 × 32 of 0 and 1 are needed")
    side = FRAME // BLOCK
    return bits.astype(np.float64).reshape(side, BLOCK, side, BLOCK).sum(axis=(1, 3)).ravel()


def framed(drawing_SS):
    """A 32 × 32 bitmap: the box around a drawing's ink, as high as the frame and centred.

        framed(np.eye(9))    # a slanted line, 32 high and 20 wide, in columns 6 to 25

    The width keeps its ratio to the height, up to 20 bits; what is wider is pressed together,
    as in the data. Each bit takes the pixel at its middle. Raises ValueError for a drawing
    without ink, which has no box.
    """
    drawing = np.asarray(drawing_SS) > 0
    if drawing.ndim != 2 or not drawing.any():
        raise ValueError(
            f"a drawing of shape {drawing.shape} without ink; draw something first"
        )
    rows, cols = (np.flatnonzero(drawing.any(axis=axis)) for axis in (1, 0))
    box = drawing[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1]
    high, wide = box.shape
    new = min(WIDE, max(1, int(wide * FRAME / high + 0.5)))
    down = ((np.arange(FRAME) + 0.5) * high / FRAME).astype(int)
    right = ((np.arange(new) + 0.5) * wide / new).astype(int)
    bits = np.zeros((FRAME, FRAME), dtype=np.int64)
    left = (FRAME - new) // 2
    bits[:, left : left + new] = box[np.ix_(down, right)]
    return bits
