"""The tensor that says cuda:0 and keeps its values in a tensor of the CPU.

C++ sees it on PrivateUse1, the key that torch leaves to others; Python sees `cuda:0`. Every operation on it comes to
`Pretended.run`, which is `dispatch.run` once a device is installed.
"""

import contextlib
import weakref
from types import SimpleNamespace

import torch

from .counts import ledger, rounded
from .streams import in_backward, in_flight, now
from .traffic import parts_of

DEVICE = torch.device("cuda", 0)
NAME = "pretended"  # of PrivateUse1 in this process
CARD = SimpleNamespace(
    name="Pretended CUDA device (no GPU)",
    major=8,
    minor=0,
    total_memory=16 * 10**9,
    multi_processor_count=40,
    warp_size=32,
)
KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)  # so that torch.autocast("cuda") sees it
reading_to_host: list[bool] = []  # not empty while a file's tensors belong on the CPU
NORMAL = contextlib.nullcontext()


class Held:
    """The bytes of one storage, as long as any tensor shares it; the storage is kept, so its address is its own.

    `stream`: where it was made, and its memory goes back to; `recorded`: the streams that `record_stream` named.
    """

    def __init__(self, storage, size: int):
        self.storage, self.key, self.size, self.recorded = storage, storage._cdata, 0, set()
        self.stream = None if in_backward() else now.stream  # autograd's threads do not know the forward's stream
        if ledger.live + rounded(size) > CARD.total_memory:
            free = f"{CARD.total_memory - ledger.live:,} of {CARD.total_memory:,} bytes are free"
            raise torch.OutOfMemoryError(f"CUDA out of memory on the pretended device: {size:,} bytes wanted, {free}")
        in_flight.given(self.stream, rounded(size))
        self.size = rounded(size)
        ledger.hold(self.size)

    def __del__(self):
        in_flight.freed(self.key, self.stream, self.size, self.recorded)
        ledger.release(self.size)


_held: "weakref.WeakValueDictionary[int, Held]" = weakref.WeakValueDictionary()


def held(inner: torch.Tensor) -> Held:
    """The record of a tensor's storage, made anew where there is none or its size has changed."""
    storage = inner.untyped_storage()
    key, size = storage._cdata, storage.nbytes()
    found = _held.get(key)
    if found is None:
        found = _held[key] = Held(storage, size)
    elif rounded(size) > found.size:
        ledger.hold(rounded(size) - found.size)
        found.size = rounded(size)
    return found


class Pretended(torch.Tensor):
    """A tensor on the pretended device around `inner`, a tensor of the CPU; `held`: the storages of its parts."""

    run = None  # what executes an operation; the device puts it here

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        how = {"dtype": inner.dtype, "device": torch.device(NAME, 0), "requires_grad": requires_grad}
        how |= {"_extra_dispatch_keys": KEYS}
        inside = torch.inference_mode(False) if torch.is_inference_mode_enabled() else NORMAL
        with inside:  # what is made in inference mode could not be written later
            if inner.layout is not torch.strided:
                compressed = inner.layout is not torch.sparse_coo  # C++ asks for its layout, and gets it by `run`
                how |= {"layout": inner.layout, "dispatch_layout": compressed}
                return torch.Tensor._make_wrapper_subclass(cls, inner.shape, **how)
            how |= {"strides": inner.stride(), "storage_offset": inner.storage_offset()}
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, **how)

    def __init__(self, inner, requires_grad=False):
        self.inner = inner
        if inner.is_conj():  # lazy bits: C++ looks at ours, not at the inner tensor's
            torch._C._set_conj(self, True)
        if inner.is_neg():
            torch._C._set_neg(self, True)
        self.held = tuple(held(part) for part in parts_of(inner))

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return cls.run(operation, *args, **(kwargs or {}))

    device = property(lambda self: DEVICE)
    is_cuda = property(lambda self: True)

    def get_device(self):
        """0, the only device."""
        return 0

    def to(self, *args, **kwargs):
        """As torch's, with "cuda" spelled as C++ knows this device here."""
        return torch.Tensor.to(self, *map(_inside, args), **{name: _inside(value) for name, value in kwargs.items()})

    def cuda(self, device=None, non_blocking=False, memory_format=None):
        """Itself."""
        return self

    def cpu(self, memory_format=torch.preserve_format):
        """A copy on the host, which waits for it."""
        return torch.Tensor.to(self, "cpu", memory_format=memory_format)

    def numpy(self, *, force=False):
        """Refused, as on a card, unless forced."""
        if not force:
            told = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy it to host memory first."
            raise TypeError(told)
        return self.detach().cpu().resolve_conj().resolve_neg().numpy()

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def tolist(self):
        """The values as numbers of Python, after one copy to the host."""
        return self.detach().cpu().tolist()

    def __repr__(self, *, tensor_contents=None):
        ledger.wait("a tensor is printed")
        return repr(self.inner.detach()).removesuffix(")") + ", device='cuda:0')"

    def __format__(self, spec):
        return self.item().__format__(spec) if self.dim() == 0 and spec else repr(self)

    @property
    def data(self):
        """The same values without their history; another tensor of the device may take their place."""
        return torch.Tensor.data.__get__(self)

    @data.setter
    def data(self, new):
        if not isinstance(new, Pretended):
            raise RuntimeError("set_data: the tensor lies on cuda:0 and its new values do not")
        self.take(new)

    def take(self, new: "Pretended") -> None:
        """Become a tensor of `new`'s values, shape and strides."""
        self.inner, self.held = new.inner, new.held
        torch.Tensor.data.__set__(self, new)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError("only leaf tensors, made by the user, can be copied deeply")
        own = memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
        own._is_param = getattr(self, "_is_param", False)
        own.grad = None if self.grad is None else self.grad.__deepcopy__(memo)
        return own

    def __reduce_ex__(self, protocol):
        return rebuilt, (self.detach().cpu(), self.requires_grad)


def rebuilt(values: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """A tensor as a file keeps it: on the device, unless the file is being read to the host."""
    return values.requires_grad_(requires_grad) if reading_to_host else values.to(DEVICE).requires_grad_(requires_grad)


def _inside(value):
    """A device argument as C++ knows it: this device's own name for "cuda"."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = torch.device("cuda", value)
    if isinstance(value, str | torch.device) and torch.device(value).type == "cuda":
        only_one(torch.device(value))
        return torch.device(NAME, 0)
    return value


def only_one(device: torch.device) -> None:
    """Raise where a second card is asked for."""
    if device.index:
        raise RuntimeError(f"CUDA error: invalid device ordinal: {device}, and one device is pretended")
