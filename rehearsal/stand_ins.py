"""What stands in for `torch.cuda`, for its generators and for pinned memory while a device is pretended.

Events keep the host's clock, so that code which asks for milliseconds gets a number; it means nothing.
"""

import contextlib
import time

import torch
from torch.utils._device import _device_constructors

from .counts import ledger
from .dispatch import is_pinned
from .refused import refuse
from .streams import in_flight, now
from .tensor import CARD, DEVICE, Pretended, only_one

_Native = torch._C.Generator


class _AnyGenerator(type(_Native)):
    def __instancecheck__(cls, value):
        return type.__instancecheck__(_Native, value)


class Generator(_Native, metaclass=_AnyGenerator):
    """torch.Generator; one of "cuda" draws the CPU's numbers, which differ from a card's."""

    def __new__(cls, device="cpu"):
        made = _Native.__new__(cls)
        made._place = torch.device(device)
        if made._place.type == "cuda":
            now.generators[made._cdata] = made
        return made

    @property
    def device(self):
        """Where it draws."""
        return DEVICE if self._place.type == "cuda" else self._place


class Stream:
    """A queue of the device: work is done at once, what it may rely on is kept in `streams`."""

    cuda_stream = stream_id = 0

    def __init__(self, device=None, priority=0, **_):
        self.device, self.priority = DEVICE, priority
        in_flight.streams += 1

    def wait_stream(self, other):
        """Later work here follows what `other` has now."""
        in_flight.wait(self, in_flight.mark(other))
        ledger.counts.notes["waits between streams"] += 1

    def wait_event(self, event):
        """Later work here follows the event."""
        in_flight.wait(self, event.stands_for)
        ledger.counts.notes["waits between streams"] += 1

    def record_event(self, event=None):
        """An event after all work so far."""
        event = event or Event()
        event.record(self)
        return event

    def synchronize(self):
        """Wait on the host for all work so far."""
        ledger.wait("a stream is synchronised")
        in_flight.finish(self)

    def query(self):
        """True: all work is done; whoever asks has waited."""
        in_flight.finish(self)
        return True

    def is_capturing(self):
        """False: graphs are refused."""
        return False

    def __enter__(self):
        self.before = [*getattr(self, "before", ()), now.stream]
        now.stream = self
        return self

    def __exit__(self, *_):
        now.stream = self.before.pop()


class Event:
    """A mark in a stream."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, device=None):
        self.timing, self.at, self.stands_for = enable_timing, None, ([], [])

    def record(self, stream=None):
        """Stand for all work of the stream so far."""
        self.at, self.stands_for = time.perf_counter(), in_flight.mark(stream or now.stream)

    def wait(self, stream=None):
        """Later work of the stream follows."""
        (stream or now.stream).wait_event(self)

    def synchronize(self):
        """Wait on the host."""
        ledger.wait("an event is waited for")
        in_flight.passed(self.stands_for)

    def query(self):
        """True: all work is done; whoever asks has waited."""
        in_flight.passed(self.stands_for)
        return True

    def elapsed_time(self, other):
        """Milliseconds of the host's clock between two events, which say nothing about a card."""
        if not (self.timing and other.timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.at is None or other.at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (other.at - self.at) * 1e3


def _pin(self, device=None):
    if isinstance(self, Pretended):
        raise RuntimeError(f"cannot pin a tensor of {DEVICE}; only dense CPU tensors can be pinned")
    if is_pinned(self):
        return self
    made = self.clone()
    made.untyped_storage().is_pretended_pinned = True  # torch keeps what hangs on a storage as long as the storage
    return made


def _cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
    place = torch.device("cuda", device) if isinstance(device, int) else torch.device(device or "cuda")
    return self.to(place, non_blocking=non_blocking, memory_format=memory_format)


def _synchronize(device=None):
    ledger.wait("the device is synchronised")
    in_flight.finish()


def _record_stream(self, stream):
    for part in self.held:
        part.recorded.add(stream)
    ledger.counts.notes["record_stream"] += 1


def _reset_peak(device=None):
    ledger.counts.peak_bytes = ledger.live


def _seed(seed):
    now.generator.manual_seed(seed)


def _device(device=None):
    return contextlib.nullcontext()


def _own_generator(draw):
    """A function that draws, refusing a generator of the device for numbers of the host."""

    def checked(*args, **kwargs):
        found, generator = draw(*args, **kwargs), kwargs.get("generator")
        if generator is not None and generator._cdata in now.generators and not isinstance(found, Pretended):
            raise RuntimeError("Expected a 'cpu' device type for generator but found 'cuda'")
        return found

    return checked


_Of = {
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "init": lambda: None,
    "_lazy_init": lambda: None,
    "_is_in_bad_fork": lambda: False,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "set_device": lambda device: only_one(torch.device("cuda", device) if isinstance(device, int) else device),
    "device": _device,
    "get_device_properties": lambda device=None: CARD,
    "get_device_name": lambda device=None: CARD.name,
    "get_device_capability": lambda device=None: (CARD.major, CARD.minor),
    "is_bf16_supported": lambda including_emulation=True: including_emulation or CARD.major >= 8,
    "synchronize": _synchronize,
    "Stream": Stream,
    "Event": Event,
    "stream": lambda stream: stream if stream is not None else contextlib.nullcontext(),
    "set_stream": lambda stream: setattr(now, "stream", stream),
    "current_stream": lambda device=None: now.stream,
    "memory_allocated": lambda device=None: ledger.live,
    "memory_reserved": lambda device=None: ledger.live,
    "max_memory_allocated": lambda device=None: ledger.counts.peak_bytes,
    "max_memory_reserved": lambda device=None: ledger.counts.peak_bytes,
    "reset_peak_memory_stats": _reset_peak,
    "reset_max_memory_allocated": _reset_peak,
    "memory_stats": lambda device=None: {
        "allocated_bytes.all.current": ledger.live,
        "allocated_bytes.all.peak": ledger.counts.peak_bytes,
    },
    "mem_get_info": lambda device=None: (CARD.total_memory - ledger.live, CARD.total_memory),
    "empty_cache": lambda: None,
    "ipc_collect": lambda: None,
    "manual_seed": _seed,
    "manual_seed_all": _seed,
    "seed": lambda: now.generator.seed(),
    "initial_seed": lambda: now.generator.initial_seed(),
    "get_rng_state": lambda device=None: now.generator.get_state(),
    "set_rng_state": lambda state, device=None: now.generator.set_state(state),
}

_OF_ACCELERATOR = {  # torch's names for whatever device there is, where they are not those above
    "current_accelerator": lambda check_available=False: torch.device("cuda"),
    "current_device_index": lambda: 0,
    "current_device_idx": lambda: 0,
    "set_device_index": _Of["set_device"],
    "set_device_idx": _Of["set_device"],
    "device_index": _device,
    "empty_host_cache": lambda: None,
    "get_memory_info": _Of["mem_get_info"],
    "get_device_capability": lambda device=None: refuse("the kinds of numbers that a card knows"),
    "reset_accumulated_memory_stats": lambda device=None: None,
    "Graph": lambda *_, **__: refuse("CUDA graphs"),
}


def install() -> None:
    """Replace what torch offers for CUDA."""
    torch.Generator = Generator
    _device_constructors()  # it remembers the functions as they were
    for name in ("rand", "randn", "randint", "randperm", "normal", "multinomial", "bernoulli"):
        setattr(torch, name, _own_generator(getattr(torch, name)))
    for name in ("normal_", "uniform_", "random_", "bernoulli_", "exponential_"):
        setattr(torch.Tensor, name, _own_generator(getattr(torch.Tensor, name)))
    type(now).generator = Generator("cuda")
    type(now).stream = default = Stream()
    in_flight.streams = 1
    for name, value in _Of.items():
        setattr(torch.cuda, name, value)
    for name in torch.accelerator.__all__:
        setattr(torch.accelerator, name, {**_Of, **_OF_ACCELERATOR}[name])
    torch.cuda.default_stream = lambda device=None: default
    torch.cuda.default_generators = (now.generator,)
    torch.Stream, torch.Event = Stream, Event
    torch._C._cuda_getDevice = lambda: 0
    torch.Tensor.pin_memory, torch.Tensor.is_pinned = _pin, is_pinned
    torch.Tensor.cuda = _cuda
    Pretended.record_stream = _record_stream
    Pretended.data_ptr = lambda self: refuse("a pointer to device memory")
    Pretended.__cuda_array_interface__ = property(lambda self: refuse("a pointer to device memory"))
    Pretended.__dlpack__ = lambda self, **_: refuse("DLPack")
    Pretended.share_memory_ = lambda self: refuse("sharing a device tensor with another process")
