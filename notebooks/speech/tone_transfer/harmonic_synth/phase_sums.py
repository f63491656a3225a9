"""Running sums of a phase in few digits: which survive, and for how long.

A sum of f0 grows without bound while its digits are fixed, so the phase, of which only the part
within one turn is heard, loses a digit each time the sum doubles. The article sums in float32,
takes the remainder of a turn, and only then stores few digits. That mends the storing. What is
left grows slowly: increments and the turn itself, rounded to float32, are a pitch that is a
little off, and that adds up. Float64 ends it. Phases in radians, as shaders keep them.

Shapes: `N` samples. All functions take increments (N,) in radians, float64, and give phases
(N,).
"""

import numpy as np

TURN = 2 * np.pi
CHUNK = 1000  # samples, as the library of the paper's authors cuts


def exact(steps_N):
    """Phases in float64 with extended sums, taken back into one turn: what the others are held
    against.
    """
    return np.cumsum(steps_N, dtype=np.longdouble).astype(np.float64) % TURN


def naive(steps_N, dtype=np.float32):
    """One sum after the other, each rounded to `dtype`."""
    return np.cumsum(steps_N.astype(dtype), dtype=dtype)


def parallel_scan(steps_N, dtype=np.float32, modulo=False):
    """Every step adds the value 1, 2, 4, … places before (Hillis and Steele 1986): log2 N
    passes, each rounded; with `modulo`, taken back into one turn after each.
    """
    total, reach, turn = steps_N.astype(dtype), 1, dtype(TURN)
    while reach < len(total):
        total[reach:] = total[reach:] + total[:-reach]
        if modulo:
            total[reach:] %= turn
        reach *= 2
    return total


def chunked(steps_N, dtype=np.float32, chunk=CHUNK):
    """Sums within chunks, and a sum of the chunks' ends taken back into one turn, all rounded
    to `dtype`.
    """
    padded = np.pad(steps_N, (0, -len(steps_N) % chunk)).astype(dtype).reshape(-1, chunk)
    inside = np.cumsum(padded, axis=1, dtype=dtype)
    starts, offset, turn = np.zeros(len(inside), dtype), dtype(0), dtype(TURN)
    for row in range(1, len(inside)):
        offset = dtype((offset + inside[row - 1, -1] % turn) % turn)
        starts[row] = offset
    return ((inside + starts[:, None]) % turn).reshape(-1)[: len(steps_N)]


WAYS = {
    "one by one, float32": naive,
    "one by one, float16": lambda steps: naive(steps, np.float16),
    "chunks with modulo, float32": chunked,
    "chunks with modulo, float16": lambda steps: chunked(steps, np.float16),
    "parallel scan, float32": parallel_scan,
    "scan with modulo, float32": lambda steps: parallel_scan(steps, modulo=True),
    "the same, stored in float16: the article's": lambda steps: parallel_scan(
        steps, modulo=True
    ).astype(np.float16),
    "float64, modulo, stored in float16": lambda steps: exact(steps).astype(np.float16),
}


def vibrato(seconds, sample_rate=16_000, f0_hz=220.0, depth=0.02, rate_hz=5.5):
    """Increments (N,) in radians of a tone with vibrato of ± depth."""
    at = np.arange(round(seconds * sample_rate)) / sample_rate
    return TURN * f0_hz * (1 + depth * np.sin(TURN * rate_hz * at)) / sample_rate


def snr_db(phases_N, truth_N, partial=1):
    """Signal over error in dB of sin(partial · phase) in float64, against the true phase: the
    sum alone is judged.
    """
    wanted, got = np.sin(partial * truth_N), np.sin(partial * phases_N.astype(np.float64))
    error = np.square(wanted - got).sum()
    return float(10 * np.log10(np.square(wanted).sum() / max(error, 1e-30)))


def stalls_at(steps_N, dtype=np.float16):
    """The value at which a sum one by one stops growing, or None: a step is below half of the
    last digit.
    """
    total = naive(steps_N, dtype)
    return float(total[-1]) if total[-1] == total[-len(total) // 4] else None
