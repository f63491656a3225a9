"""Leaks as people write them, and the tool that shows each: what grows from step to step.

A training loop should hold after each step what it held after the one before. `growth` runs a
loop's body and counts the bytes of the live tensors, found by the garbage collector and by the
graphs that hang on them. Each leak here has a cure that keeps the numbers the same.

A worker process of a data loader leaks in another way. It is forked and shares its parent's
pages, but reading a Python object writes its count of references, and a page that is written is
copied. A list of many small objects is so copied into each worker, page by page, as an epoch
goes on. `worker_growth` shows it; one array in the place of the list is the cure.
"""

import gc
import os
import re
import select
import signal
from pathlib import Path

import torch


def live_bytes():
    """Bytes of all storages that a reachable tensor or a saved tensor of its graph holds."""
    storages, nodes, seen = {}, [], set()
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor):
            storage = thing.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
            nodes.append(thing.grad_fn)
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes += [parent for parent, _ in node.next_functions]
        for tensor in saved(node):
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return sum(storages.values())


def saved(node):
    """The tensors that one node of a graph keeps for backward, a function of one's own too;
    none once they are freed."""
    names = [name for name in dir(node) if name.startswith(("_saved_", "saved_tensors"))]
    found = []
    for name in names:
        try:
            value = getattr(node, name)
        except RuntimeError:  # backward has freed them
            continue
        values = value if isinstance(value, tuple | list) else (value,)
        found += [one for one in values if torch.is_tensor(one)]
    return found


def growth(body, steps=4):
    """Bytes by which the live tensors grow a step, after a first step that may allocate.

    body(step): one pass of a loop. Raises ValueError for fewer than two steps.
    """
    if steps < 2:
        raise ValueError(
            f"steps is {steps}: allowed is 2 or more, since growth needs two counts"
        )
    gc.collect()
    gc.freeze()  # what was there before is not looked at, since it cannot grow
    try:
        body(0)
        gc.collect()
        first = live_bytes()
        for step in range(1, steps):
            body(step)
        gc.collect()
        return (live_bytes() - first) / (steps - 1)
    finally:
        gc.unfreeze()


def kept_losses(model, x, cured=False):
    """A loop's body that keeps each loss for a curve: with its graph, or cured, its number."""
    losses = []

    def body(step):
        loss = model(x).square().mean()
        losses.append(loss.item() if cured else loss)

    return body


def growing_graph(model, x, cured=False):
    """A body whose running mean is a tensor in the graph: each step hangs on all before."""
    running = [torch.zeros(())]

    def body(step):
        loss = model(x).square().mean()
        running[0] = 0.9 * running[0] + 0.1 * (loss.detach() if cured else loss)

    return body


def closures(model, x, cured=False):
    """A body that leaves a report for later, whose closure holds the step's output."""
    reports = []

    def body(step):
        y = model(x).detach()
        peak = y.abs().max().item()
        reports.append((lambda: peak) if cured else (lambda: y.abs().max().item()))

    return body


def hooks(model, x, cured=False):
    """A body that adds a forward hook a step to look at activations, and never removes it."""
    seen = []

    def body(step):
        handle = model.register_forward_hook(lambda layer, inputs, y: seen.append(y.detach()))
        model(x)
        if cured:
            handle.remove()
            seen.clear()

    return body


LEAKS = {
    "kept losses": kept_losses,
    "growing graph": growing_graph,
    "closures": closures,
    "hooks": hooks,
}


def private_bytes():
    """Bytes of this process's pages that it has written and shares with no other (Linux)."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return 1024 * int(re.search(r"Private_Dirty:\s+(\d+)", text)[1])


def worker_growth(items):
    """Bytes that a forked worker comes to own by reading each of the items once.

    items: what a data set holds in its parent, a list or an array.
    """

    def read():
        for item in items:
            del item

    return private_growth(read)


def private_growth(body, seconds=60):
    """Bytes that a fork of this process owns more when body() is over, what it returns
    included. The parent's collector is frozen for the while: a collection writes into every
    object, too.

    Raises TimeoutError, and ends the fork, after `seconds`: threads do not survive a fork, so
    a body that computes with torch may wait for them for ever.
    """
    reader, writer = os.pipe()
    gc.collect()
    gc.freeze()
    child = os.fork()
    if child == 0:
        try:
            before = private_bytes()
            held = body()
            os.write(writer, str(private_bytes() - before).encode())
            del held
        finally:
            os._exit(0)
    gc.unfreeze()
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        if late := not select.select([pipe], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
        told = pipe.read()
    os.waitpid(child, 0)
    if late:
        raise TimeoutError(
            f"the fork was not done after {seconds} s; with torch, threads are lost"
        )
    if not told:
        raise RuntimeError("the worker ended before it had counted its pages")
    return int(told)
