"""KServe's protocol v2 over HTTP with binary tensors: what goes over the socket, both ways.

A request is a JSON header, which names tensors with shapes and datatypes, and after it the
tensors' bytes one behind the other, little-endian, rows first.
`Inference-Header-Content-Length` says where the header ends; a tensor's `binary_data_size` how
many bytes are its own. Triton calls this its "binary tensor data extension". Server and client
share this module, and nothing else.

Everything that came over a wire is checked here: a tensor of the right shape without its bytes
is an error, as is a byte too many.
"""

import json
import math

import numpy as np

__all__ = ["DATATYPES", "HEADER", "BadMessage", "pack", "unpack"]

HEADER = "Inference-Header-Content-Length"
DATATYPES = {"FP32": "<f4", "FP64": "<f8", "INT64": "<i8", "INT32": "<i4", "UINT8": "u1"}
NAMES = {np.dtype(value): name for name, value in DATATYPES.items()}


class BadMessage(ValueError):
    """What came is no message of this protocol; the text says what is wrong with it."""


def pack(tensors, key, **more):
    """(body, length of its JSON header) of a message: `key` is "inputs" or "outputs".

    >>> body, header = pack({"patches": np.zeros((2, 48, 48), np.float32)}, "inputs", id="7")

    `tensors`: {name: array}; other entries of the header follow, such as `id`. Raises
    ValueError for a dtype that the protocol has no name for here.
    """
    described, parts = [], []
    for name, values in tensors.items():
        values = np.asarray(values, order="C")
        if values.dtype not in NAMES:
            known = ", ".join(str(dtype) for dtype in NAMES)
            raise ValueError(f"{name}: dtype {values.dtype} came; allowed are {known}")
        size = {"binary_data_size": values.nbytes}
        one = {"name": name, "shape": list(values.shape), "datatype": NAMES[values.dtype]}
        described.append(one | {"parameters": size})
        parts.append(values.tobytes())
    header = json.dumps(more | {key: described}).encode()
    return b"".join([header, *parts]), len(header)


def unpack(body, header_length, key):
    """({name: array}, the other entries of the header) of a message; raises BadMessage.

    Arrays are read-only views of `body`. Tensors may also stand in the header as `data`.
    """
    body = memoryview(body)
    length = len(body) if header_length is None else _length(header_length, len(body))
    try:
        header = json.loads(bytes(body[:length]))
        described = header.pop(key)
        names = [one["name"] for one in described]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadMessage(
            f"no JSON header with {key!r}: {type(error).__name__} {error}"
        ) from None
    if len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
        raise BadMessage(f"{key} {names}: each needs a name of its own")
    found, at = {}, length
    for one in described:
        found[one["name"]], at = _tensor(one, body, at)
    if at != len(body):
        raise BadMessage(f"{len(body) - at} bytes are left behind the last tensor")
    return found, header


def _length(told, whole):
    if not str(told).isdecimal() or int(told) > whole:
        raise BadMessage(f"{HEADER} {told!r}: a number of bytes up to {whole} is needed")
    return int(told)


def _tensor(one, body, at):
    """(array, where the next begins) of one described tensor."""
    name, shape, kind = one["name"], one.get("shape"), one.get("datatype")
    if kind not in DATATYPES:
        raise BadMessage(f"{name}: datatype {kind!r} came; allowed are {', '.join(DATATYPES)}")
    sizes = shape if isinstance(shape, list) else [None]
    if not all(
        isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**40 for n in sizes
    ):
        raise BadMessage(f"{name}: shape {shape!r} came; a list of sizes is needed")
    count, dtype = math.prod(shape), np.dtype(DATATYPES[kind])
    if "data" in one:
        return _listed(name, one["data"], dtype, shape, count), at
    size = (one.get("parameters") or {}).get("binary_data_size")
    if size != count * dtype.itemsize or at + size > len(body):
        need, left = count * dtype.itemsize, len(body) - at
        words = f"{name}: {size!r} bytes are announced, {left} are there"
        raise BadMessage(f"{words}; {need} are needed for {kind} of shape {shape}")
    return np.frombuffer(body[at : at + size], dtype).reshape(shape), at + size


def _listed(name, data, dtype, shape, count):
    try:
        values = np.array(data, dtype)
    except (ValueError, TypeError, OverflowError):
        values = np.zeros(0)
    if values.size != count:
        raise BadMessage(f"{name}: {count} numbers are needed for shape {shape}")
    return values.reshape(shape)
