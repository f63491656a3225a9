"""How fast the machine is beside a run, so that budgets hold anywhere: about a second of fixed work as notebooks do it.
A budget of 60 s means 60 s where this takes its unit, twice that where it takes twice: machines differ threefold.
`conditions` starts this file; with `--gain` it prints what part of the work takes on one thread and on two."""

import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCRIPT = Path("book/press/run/calibration.py")
UNIT_S = 0.23  # a round, with nothing beside it, on the faster kind of machine that the book was measured on
SIDE, SAMPLES = 640, 2**18


def _arrays():
    import numpy as np

    random = np.random.default_rng(0)
    return random, random.random((SIDE, SIDE), "float32"), random.random(SAMPLES)


def _products(square_NN, signal_T, products: int, transforms: int) -> None:
    import numpy as np

    for _ in range(products):
        square_NN @ square_NN
    for _ in range(transforms):
        np.fft.irfft(np.fft.rfft(signal_T))


def seconds(rounds: int = 3) -> float:
    """The wall seconds of one round, the median of `rounds`: `seconds() / UNIT_S` is 1 there. A quarter each goes to
    products of matrices (on NumPy's threads), Fourier transforms, passes over much memory, a plain loop."""
    random, square_NN, signal_T = _arrays()
    block_K, took = random.random(2**21), []
    square_NN @ square_NN  # its threads start now
    for _ in range(rounds):
        began = time.perf_counter()
        _products(square_NN, signal_T, 20, 10)
        for _ in range(5):
            (block_K + 1).cumsum()
        sum(number % 7 for number in range(1_500_000))
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def on_threads(rounds: int = 5) -> tuple[float, float]:
    """The wall seconds of a round's products and transforms on one thread and on two, medians of `rounds` turn about.
    NumPy's library must have one thread of its own."""
    _, *arrays = _arrays()
    took = {1: [], 2: []}
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(2) as two:
        for turn in range(rounds + 1):
            for threads, pool in ((1, one), (2, two)):
                began = time.perf_counter()
                for half in [pool.submit(_products, *arrays, 10, 5) for _ in range(2)]:
                    half.result()
                if turn:  # the first is a warm-up
                    took[threads].append(time.perf_counter() - began)
    return statistics.median(took[1]), statistics.median(took[2])


if __name__ == "__main__":
    print(json.dumps(on_threads() if "--gain" in sys.argv else [seconds(), UNIT_S]))
