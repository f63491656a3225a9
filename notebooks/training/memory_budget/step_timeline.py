"""Follow the bytes of a step through time, and see why the peak is not the sum of the account.

Forward adds what each layer keeps. Backward gives it back, last layer first, while the
gradients of weights are made: the first layers' gradients come when the last layers'
activations are gone. What the sum leaves out are the passing tensors: a layer's output that
nobody keeps, and in backward the gradients of its output and its input. Adam's step makes two
passing tensors of the size of the weight that it updates, one weight after the other. The
convolution library's workspace is left out here too. `measured_peak` counts what PyTorch really
allocated in a step, and a test holds the prediction against it on a CPU. On a GPU the libraries
ask PyTorch's allocator for their workspace, so that what is measured lies above the prediction.
"""

import itertools
import math
import os
from typing import NamedTuple

import torch
from byte_account import by_layer, bytes_of, counts_steps, state


class Moment(NamedTuple):
    """What a step does, the bytes that it holds while it does so, and of these: activations,
    gradients of weights, and what passes. The rest lives through the step."""

    phase: str
    layer: str
    held: int
    activations: int
    gradients: int
    passing: int


def timeline(model, input_shape, optimizer):
    """The `Moment`s of a step after the first, whose optimiser's state exists, in order.

    It begins without gradients: they were set to None. Raises as `account` does.
    """
    rows = by_layer(model, input_shape)
    base = lasting(model, optimizer)
    made = bytes_of(p for p in model.parameters() if p.requires_grad)
    size = next((p.element_size() for p in model.parameters()), 4)
    images = size * math.prod(input_shape)
    return [*moments_of(rows, base), update(model, optimizer, base, made, images)]


def lasting(model, optimizer):
    """Bytes that live through the step: weights, buffers, the optimiser's state."""
    total = state(model, optimizer)
    return sum(total.values()) - total["gradients"]


def moments_of(rows, base, made=0):
    """The `Moment`s of forward and backward over these rows, beside `base` bytes; made: bytes
    of gradients of an earlier part, to which this one's are added, layer by layer."""
    moments, held, before = [], 0, made > 0

    def note(phase, name, passing):
        parts = (held, made, passing)
        moments.append(Moment(phase, name, base + sum(parts), *parts))

    for row, after in zip(rows, [*rows[1:], None], strict=True):
        held += row.kept
        # An output that the next layer keeps is counted there, from the next moment on.
        note("forward", row.name, row.outputs if after else 0)
    for row in reversed(rows):
        made += 0 if before else row.gradients
        note("backward", row.name, row.passing + (row.gradients if before else 0))
        held -= row.kept
    return moments


def update(model, optimizer, base, made, images):
    """The `Moment` of the optimiser's step beside `base` bytes, `made` of gradients, and the
    input, which a loop still holds: of the activations it alone is left."""
    passing = optimizer_passing(model, optimizer)
    return Moment("optimizer", "", base + images + made + passing, images, made, passing)


def optimizer_passing(model, optimizer):
    """Bytes of the passing tensors in the optimiser's step, none for SGD. Adam weight by weight
    (a name, and the default on a CPU): the second moment's root and its quotient, of the
    largest weight. With `foreach=True`, the default on a GPU: the root of all weights at once.
    With `fused=True`: none."""
    trained = [bytes_of([p]) for p in model.parameters() if p.requires_grad]
    options = getattr(optimizer, "defaults", {})
    if not counts_steps(optimizer) or options.get("fused"):
        return 0
    at_once = options.get("foreach")
    if at_once is None and options:  # PyTorch's own choice
        at_once = all(p.is_cuda for p in model.parameters())
    return sum(trained) if at_once else 2 * max(trained, default=0)


def peak(model, input_shape, optimizer):
    """The `Moment` that holds the most."""
    return max(timeline(model, input_shape, optimizer), key=lambda moment: moment.held)


def largest_batch(model, input_shape, optimizer, room_bytes):
    """The largest batch whose peak fits the room, 0 where one image does not.

    input_shape: its batch is ignored. room_bytes: the card's, less the driver's context, the
    workspace and other processes. The peak grows with the batch: doubled, then halved.
    """

    def fits(batch):
        return peak(model, (batch, *input_shape[1:]), optimizer).held <= room_bytes

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def allocations(body, device="cpu"):
    """Bytes that PyTorch's allocator held during body(), above what it held before, after each
    of its changes in order.

    On a CPU they are the profiler's events of its memory, on a GPU those of the allocator's own
    snapshot. A library's scratch memory that does not come from PyTorch is not seen on a CPU.
    """
    if torch.device(device).type == "cuda":
        if not hasattr(torch._C, "_cuda_record_memory_history"):  # a pretended card
            return [measured_peak(body, device)]
        torch.cuda.memory._record_memory_history(max_entries=1_000_000)
        try:
            body()
            snapshot = torch.cuda.memory._snapshot(device)
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)
        return running(snapshot["device_traces"][torch.cuda.current_device()])
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # its starts and stops go to stderr
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        body()
    events = profiler.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    return list(itertools.accumulate(change for _, change in changes))


def running(trace):
    """The bytes held after each allocation and each free of a GPU snapshot's trace."""
    signs = {"alloc": 1, "free_completed": -1}
    changes = (signs[e["action"]] * e["size"] for e in trace if e["action"] in signs)
    return list(itertools.accumulate(changes))


def measured_peak(body, device="cpu"):
    """The most of `allocations`, 0 where nothing is allocated; on a GPU by its counters."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        body()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    return max([0, *allocations(body, device)])
