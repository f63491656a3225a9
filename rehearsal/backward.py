"""A mistake in a backward pass comes to whoever called it, as on a card.

Autograd asks the device's guard, which is Python here, while it leaves the step that failed, with the error still set;
an answer with an error set ends the process. So the guard takes the error away first, and `backward` raises it.
"""

import ctypes

import torch

_PLACES = [ctypes.c_void_p() for _ in range(3)]  # the error's class, the error, its traceback
_HERE = [ctypes.byref(place) for place in _PLACES]  # made before: nothing is called while an error is set
_take = ctypes.pythonapi.PyErr_Fetch
_take.restype = None
_failed: list[BaseException] = []


class Guard(torch._C._acc.DeviceGuard):
    """The guard of the pretended device."""

    def type_(self):
        """Its kind, whatever error is set; that one is kept."""
        _take(*_HERE)
        kind, value = (place.value and ctypes.cast(place.value, ctypes.py_object).value for place in _PLACES[:2])
        if kind is not None:
            _failed.append(value if isinstance(value, BaseException) else kind(value))
        return torch._C._autograd.DeviceType.PrivateUse1


def install() -> None:
    """Let `backward` and `grad` raise what was kept."""
    original = torch.autograd.graph._engine_run_backward

    def run(*args, **kwargs):
        _failed.clear()
        try:
            return original(*args, **kwargs)
        except SystemError:
            if not _failed:
                raise
            raise _failed.pop(0) from None

    torch.autograd._engine_run_backward = torch.autograd.graph._engine_run_backward = run
