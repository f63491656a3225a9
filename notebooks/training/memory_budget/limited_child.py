"""Prove on a real limit which batch fits: train in a child process that may hold no more.

The child's data are limited by `RLIMIT_DATA` (Linux 4.7 or later counts private mappings too),
so that a request beyond it comes back as an error that is caught and reported: nothing is
killed. The child loads torch once. Then it forks for each batch, so that each try begins with
the same memory. The fork trains on the batch without a limit first: that shows that nothing but
memory can fail, and the convolution library compiles its kernels for the shape, which take some
8 MB whatever the batch. Then the limit is set: the room is what the network, its optimiser and
the step may take, as on a card whose driver has its part already.
"""

import json
import os
import resource
import subprocess
import sys
import traceback
from pathlib import Path
from typing import NamedTuple

# What PyTorch and its convolution library say when an allocation fails.
SHORT = ("allocate memory", "could not create a primitive", "could not execute a primitive")


class Outcome(NamedTuple):
    """Of one batch: whether two steps went through, and the error's first line where not."""

    batch: int
    fits: bool
    error: str


class Proof(NamedTuple):
    """The batch that fits while the next does not, and each try that shows it, in order."""

    batch: int
    tries: list


def prove_batch(guess, side, room_bytes, norm="none", timeout_s=120):
    """`Proof` for two Adam steps of the tutorial's classifier on images of side by side pixels.

    guess: the batch to begin with, 1 or more. Raises ValueError for less, RuntimeError where
    the child ends in another way, subprocess.TimeoutExpired where it does not end.
    """
    if guess < 1:
        raise ValueError(f"guess is {guess}: allowed is 1 or more, the batch to begin with")
    arguments = [sys.executable, __file__, str(guess), str(side), str(room_bytes), norm]
    # Each large tensor gets a mapping of its own: what is freed is room again at once.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the child ended with {done.returncode}: {done.stderr[-500:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    return Proof(told["batch"], [Outcome(*one) for one in told["tries"]])


def search(guess, fits):
    """The batch that fits while the next does not, sought from a guess; 0 where none fits.

    fits(batch) -> bool, true up to some batch. The stride doubles until both sides are known,
    then halves.
    """
    low, high, stride = 0, None, 1
    batch = guess
    while high is None or high - low > 1:
        if fits(batch):
            low = batch
        else:
            high = batch
        if high is None:
            batch, stride = low + stride, 2 * stride
        elif low == 0 and batch == high and high > 1:
            batch, stride = max(1, high - stride), 2 * stride
        else:
            batch = (low + high) // 2
    return low


def data_bytes():
    """Bytes that count against `RLIMIT_DATA` in this process now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData"))


def train(batch, side, norm):
    """Make two steps of Adam on random images: the first makes the state, the second has it."""
    import torch
    from tutorial_network import classifier

    model = classifier(side, norm=norm)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    x, y = torch.rand(batch, 3, side, side), torch.zeros(batch, dtype=torch.long)
    for _ in range(2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def limited(batch, side, room_bytes, norm):
    """`Outcome` of `train` under a limit set here and now; an error of memory is caught."""
    train(batch, side, norm)
    limit = data_bytes() + room_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        train(batch, side, norm)
    except MemoryError as failure:
        return Outcome(batch, False, f"MemoryError: {failure}")
    except RuntimeError as failure:
        if not any(word in str(failure) for word in SHORT):
            raise
        return Outcome(batch, False, str(failure).splitlines()[0])
    return Outcome(batch, True, "")


def forked(batch, *settings):
    """What `limited` returns in a fork of this process, whose limit ends with it.

    Raises RuntimeError where the fork was killed or failed otherwise."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writer, json.dumps(limited(batch, *settings)).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise RuntimeError(f"batch {batch}: the fork ended with {code}, no error was caught")
    return Outcome(*json.loads(told))


def main(guess, side, room_bytes, norm):
    """Print the proof as JSON."""
    import torch

    torch.set_num_threads(1)  # a fork has no other threads
    train(1, 8, norm)
    tries = []

    def fits(batch):
        tries.append(forked(batch, int(side), int(room_bytes), norm))
        return tries[-1].fits

    print(json.dumps({"batch": search(int(guess), fits), "tries": tries}))


if __name__ == "__main__":
    main(*sys.argv[1:])
