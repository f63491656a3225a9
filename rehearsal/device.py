"""`install()`: from then on this process has a pretended CUDA device, for good.

It stands on three things inside torch, checked first: the Python backend on PrivateUse1, the table of device guards
in libc10 (its slot of CUDA gets PrivateUse1's guard, so that factories accept "cuda"), and fallbacks of dispatch keys.
"""

import contextlib
import ctypes
from pathlib import Path

import torch
from torch.optim.optimizer import _foreach_supported_types as of_optimisers
from torch.utils._foreach_utils import _foreach_supported_types as of_lists

from . import autocast, backward, refused, stand_ins
from .counts import Counts, ledger
from .dispatch import run
from .streams import now
from .tensor import CARD, DEVICE, NAME, Pretended, reading_to_host, rebuilt

TRIED = "2.13."  # versions of torch with these insides
GUARDS = "_ZN3c104impl26device_guard_impl_registryE"
CUDA_SLOT, PRIVATE_SLOT, SLOTS = 1, 20, 22  # c10::DeviceType's numbers
EXPLICIT = ("empty.memory_format", "empty_strided", "_to_copy", "copy_", "_copy_from", "_copy_from_and_resize")
KEYS = tuple(f"{kind}{key}" for kind in ("", "Sparse", "SparseCsr") for key in ("CUDA", "PrivateUse1"))
_kept = []  # libraries whose registrations last as long as they do


def install() -> None:
    """Pretend a CUDA device; twice is once. RuntimeError beside a real one or another torch."""
    if _kept:
        return
    if torch.cuda.is_available():
        raise RuntimeError("torch sees a GPU here: nothing needs to be pretended")
    if not torch.__version__.startswith(TRIED):
        raise RuntimeError(f"the pretended device knows the insides of torch {TRIED}x, and this is {torch.__version__}")
    _backend()
    _operations()
    stand_ins.install()
    backward.install()
    autocast.install()
    refused.install(lambda x: isinstance(x, Pretended))
    _modules()
    _files()
    _no_receipts()


def installed() -> bool:
    """Whether this process pretends."""
    return bool(_kept)


@contextlib.contextmanager
def counted():
    """The Counts of what runs inside, filled in at the end; the peak is of all that was live inside."""
    before, found = ledger.counts.copy(), Counts()
    ledger.counts.peak_bytes = ledger.live
    yield found
    found.__dict__.update((ledger.counts - before).__dict__)
    ledger.counts.peak_bytes = max(before.peak_bytes, found.peak_bytes)


@contextlib.contextmanager
def by_shapes(wanted: bool = True):
    """Tensors made on the device inside have shapes and no values, so that any size is counted in no time.

    What the host reads there is NaN; where it would read whole numbers or decide (`if`, `nonzero`, masks), it raises.
    The card's memory has no end inside, whether `wanted` or not: the peak says what would be needed.
    """
    memory, CARD.total_memory, type(now).shapes = CARD.total_memory, 10**18, wanted
    try:
        yield
    finally:
        CARD.total_memory, type(now).shapes = memory, False


@contextlib.contextmanager
def as_capable_as(major: int, minor: int):
    """The pretended card says inside that it has this compute capability; below 8.0 it has no bfloat16 units."""
    before = CARD.major, CARD.minor
    CARD.major, CARD.minor = major, minor
    try:
        yield
    finally:
        CARD.major, CARD.minor = before


def _backend() -> None:
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(NAME, device_guard=backward.Guard())
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    try:
        guards = (ctypes.c_void_p * SLOTS).in_dll(library, GUARDS)
    except ValueError:
        raise RuntimeError(f"libc10 of torch {torch.__version__} exports no table of device guards") from None
    if guards[CUDA_SLOT] is not None or guards[PRIVATE_SLOT] is None:
        raise RuntimeError("the table of device guards is not as expected")
    guards[CUDA_SLOT] = guards[PRIVATE_SLOT]


def _operations() -> None:
    Pretended.run = staticmethod(run)
    for key in KEYS:
        library = torch.library.Library("_", "IMPL")
        library.fallback(run, key)
        _kept.append(library)
        library = torch.library.Library("aten", "IMPL")
        for name in EXPLICIT:  # they have kernels of their own, which a fallback does not replace
            packet, _, overload = name.partition(".")
            operation = getattr(getattr(torch.ops.aten, packet), overload or "default")
            library.impl(operation, _bound(operation), key)
        _kept.append(library)


def _bound(operation):
    return lambda *args, **kwargs: run(operation, *args, **kwargs)


def _modules() -> None:
    """Modules swap their parameters on the way to the device; one that was used before gets new ones instead."""
    swap = torch.__future__.set_swap_module_params_on_conversion
    swap(True)
    original = torch.nn.Module._apply

    def _apply(self, fn, recurse=True):
        try:
            return original(self, fn, recurse)
        except RuntimeError as error:
            if "Couldn't swap" not in str(error):
                raise
        swap(False)
        try:
            return original(self, fn, recurse)
        finally:
            swap(True)

    torch.nn.Module._apply = _apply
    ctc_loss = torch.nn.functional.ctc_loss

    def with_lengths(log_probs, targets, input_lengths, target_lengths, *args, **kwargs):
        if isinstance(log_probs, Pretended):  # a card takes lengths from either side
            input_lengths, target_lengths = map(_there, (input_lengths, target_lengths))
        return ctc_loss(log_probs, targets, input_lengths, target_lengths, *args, **kwargs)

    torch.nn.functional.ctc_loss = with_lengths
    for known in (of_optimisers, of_lists):
        known.append(Pretended)  # optimisers take a card's path: one operation for many parameters


def _there(lengths):
    return lengths.to(DEVICE) if isinstance(lengths, torch.Tensor) else lengths


def _files() -> None:
    """Files are read on the CPU, then their tensors go to the device that was asked for."""
    torch.serialization.add_safe_globals([rebuilt])
    original = torch.load

    def load(file, map_location=None, **options):
        place = torch.device(map_location) if isinstance(map_location, str | torch.device) else None
        if place is None:
            return original(file, map_location=map_location, **options)
        reading_to_host.append(True)
        try:
            found = original(file, map_location="cpu", **options)
        finally:
            reading_to_host.pop()
        return torch.utils._pytree.tree_map(lambda x: x.to(place) if isinstance(x, torch.Tensor) else x, found)

    torch.load = load


def _no_receipts() -> None:
    """No receipt comes from a rehearsal: its seconds mean nothing."""
    from helpers import receipts

    def write(self, name=None):
        """None; nothing is written."""
        return None

    receipts.Receipt.write = write
