"""What callers hand in, made ready: arrays of any library as tensors, and checked queries.

Legend: K queries, M query length, N stream length.
"""

import warnings
from typing import NamedTuple

import numpy as np
import torch


class Query(NamedTuple):
    """A query in the forms that the equations need."""

    raw_M: torch.Tensor  # float64
    mean: float
    norm: float  # of the query less its mean
    unit_M: torch.Tensor  # that difference scaled to length 1, in the stream's dtype


def queries_of(query, device, dtype):
    """A list of `Query`, and whether a single one (M,) came instead of a stack (K, M).

    Raises ValueError for a query on another device, an empty one, and one that is not finite.
    """
    raw_KM, _, _ = as_tensor(query, "query", axes=(1, 2))
    if isinstance(query, torch.Tensor) and raw_KM.device != device:
        raise ValueError(
            f"query is on {raw_KM.device} and stream on {device}: one device is needed"
        )
    raw_KM = raw_KM.to(device, torch.float64)
    if raw_KM.numel() == 0 or not raw_KM.isfinite().all():
        raise ValueError(
            "query must hold at least one point and finite values only, "
            f"got shape {tuple(raw_KM.shape)}"
        )
    queries = []
    for raw_M in torch.atleast_2d(raw_KM):
        norm = float((centred_M := normalise("mdist", raw_M)).norm())
        unit_M = (centred_M / (norm or 1.0)).to(dtype)
        queries.append(Query(raw_M, float(raw_M.mean()), norm, unit_M))
    return queries, raw_KM.ndim == 1


def as_tensor(values, name, axes=(1,)):
    """A tensor on the caller's memory, the dtype to compute in, and the way back.

    The way back turns a result into NumPy's kind, or leaves it a tensor, which any library
    takes through DLPack. Raises ValueError for what is not real, or has other axes.
    """
    give_back = torch.Tensor.detach
    if isinstance(values, torch.Tensor):
        tensor = values.detach()
    elif hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray):
        tensor = torch.from_dlpack(values)
    else:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}")
        array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            tensor, give_back = torch.from_numpy(array), torch.Tensor.numpy
    if tensor.ndim not in axes or tensor.is_complex():
        allowed = " or ".join(map(str, axes))
        raise ValueError(
            f"{name} must be real with {allowed} axis, "
            f"got shape {tuple(tensor.shape)} of {tensor.dtype}"
        )
    dtype = torch.float32 if tensor.is_floating_point() else torch.float64
    if tensor.dtype in (torch.float32, torch.float64):
        dtype = tensor.dtype
    return tensor, dtype, give_back


def check_lengths(window, total):
    """None, if windows of this length fit into the stream; else ValueError."""
    if not 1 <= window <= total:
        raise ValueError(
            f"query (or window) must have 1 to {total} points, as the stream has, got {window}"
        )


def normalise(measure, values):
    """Windows (..., M) as `measure` compares them: raw, less their mean, or z-normalised."""
    if measure == "sdist":
        return values
    centred = values - values.mean(-1, keepdim=True)
    if measure == "zdist":
        centred /= centred.square().mean(-1, keepdim=True).sqrt()
    return centred.masked_fill_(
        values.amax(-1, keepdim=True) == values.amin(-1, keepdim=True), 0.0
    )
