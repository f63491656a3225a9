"""About a second of fixed work such as notebooks do: a script of its own, for `calibration` times it."""

import json
import statistics
import time

UNIT_S = 0.23  # a round, with nothing beside it, on the faster kind of machine that the book was measured on


def seconds(rounds: int = 3) -> float:
    """The wall seconds of one round, the median of `rounds`: `seconds() / UNIT_S` is 1 there. A quarter each goes to
    products of matrices (as NumPy's library threads them), Fourier transforms, passes over much memory, a plain loop.
    """
    import numpy as np

    random = np.random.default_rng(0)
    square_NN, signal_T = random.random((640, 640), "float32"), random.random(2**18)
    block_K, took = random.random(2**21), []
    square_NN @ square_NN  # its threads start now
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(20):
            square_NN @ square_NN
        for _ in range(10):
            np.fft.irfft(np.fft.rfft(signal_T))
        for _ in range(5):
            (block_K + 1).cumsum()
        sum(number % 7 for number in range(1_500_000))
        took.append(time.perf_counter() - began)
    return statistics.median(took)


if __name__ == "__main__":
    print(json.dumps([seconds(), UNIT_S]))
