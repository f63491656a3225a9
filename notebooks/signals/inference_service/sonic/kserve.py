"""KServe's protocol v2 over HTTP: what goes over the socket, both ways.

A message is a JSON header, which names tensors with shapes and datatypes. Their values stand in
it as numbers (`data`), or behind it as bytes, one tensor after the other, little-endian, rows
first: then `Inference-Header-Content-Length` says where the header ends, and a tensor's
`binary_data_size` how many bytes are its own (Triton's "binary tensor data extension").
Everything that came over a wire is checked: bytes that lack are an error, as is one too many.
"""

import json
import math

import numpy as np

HEADER = "Inference-Header-Content-Length"
DATATYPES = {"FP32": "<f4", "FP64": "<f8", "INT64": "<i8", "INT32": "<i4", "UINT8": "u1"}
NAMES = {np.dtype(value): name for name, value in DATATYPES.items()}


class BadMessage(ValueError):
    """What came is no message of this protocol; the text says what is wrong with it."""


def pack(tensors, key, binary=True, **more):
    """(body, length of its JSON header) of a message: `key` is "inputs" or "outputs".

    >>> body, header = pack({"patches": np.zeros((2, 48, 48), np.float32)}, "inputs", id="7")

    `tensors`: {name: array}, as bytes, or as numbers unless `binary`; `more` goes into the
    header. Raises ValueError for a dtype that the protocol has no name for here.
    """
    described, parts = [], []
    for name, values in tensors.items():
        values = np.asarray(values, order="C")
        if values.dtype not in NAMES:
            known = ", ".join(str(dtype) for dtype in NAMES)
            raise ValueError(f"{name}: dtype {values.dtype} came; allowed are {known}")
        one = {"name": name, "shape": list(values.shape), "datatype": NAMES[values.dtype]}
        sized = {"parameters": {"binary_data_size": values.nbytes}}
        described.append(one | (sized if binary else {"data": values.ravel().tolist()}))
        parts.append(values.tobytes() if binary else b"")
    header = json.dumps(more | {key: described}).encode()
    return b"".join([header, *parts]), len(header)


def unpack(body, header_length, key):
    """({name: array}, the other entries of the header) of a message; raises BadMessage. Without
    a header's length all of it is JSON. Arrays of bytes are read-only views of `body`."""
    body = memoryview(body)
    at = len(body) if header_length is None else header_length
    if not str(at).isdecimal() or int(at) > len(body):
        limit = f"a number of bytes up to {len(body)} is needed"
        raise BadMessage(f"{HEADER} {at!r}: {limit}")
    at = int(at)
    try:
        header = json.loads(bytes(body[:at]))
        described = header.pop(key)
        names = [one["name"] for one in described]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        words = f"no JSON header with {key!r}: {type(error).__name__} {error}"
        raise BadMessage(words) from None
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise BadMessage(f"{key} {names}: each needs a name of its own")
    found = {}
    for one in described:
        found[one["name"]], at = _tensor(one, body, at)
    if at != len(body):
        raise BadMessage(f"{len(body) - at} bytes are left behind the last tensor")
    return found, header


def _tensor(one, body, at):
    """(array, where the next begins) of one described tensor."""
    name, shape, kind = one["name"], one.get("shape"), one.get("datatype")
    if not isinstance(kind, str) or kind not in DATATYPES:
        raise BadMessage(f"{name}: datatype {kind!r} came; allowed are {', '.join(DATATYPES)}")
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise BadMessage(f"{name}: shape {shape!r} came; a list of sizes is needed")
    need, more = math.prod(shape) * np.dtype(DATATYPES[kind]).itemsize, one.get("parameters")
    size = more.get("binary_data_size") if isinstance(more, dict) else None
    if size is None and "data" in one:
        return _numbers(one, np.dtype(DATATYPES[kind])), at
    if type(size) is not int or size != need or at + need > len(body):
        words = f"{name}: {size!r} bytes are announced, {len(body) - at} are there"
        raise BadMessage(f"{words}; {need} are needed for {kind} of shape {shape}")
    return np.frombuffer(body[at : at + need], DATATYPES[kind]).reshape(shape), at + need


def _numbers(one, dtype):
    """The array of a tensor whose values are JSON numbers, flat or nested."""
    try:
        came = np.array(one["data"])
    except ValueError:  # rows of different lengths
        came = np.array(None)
    right = came.dtype.kind in ("iuf" if dtype.kind == "f" else "iu") or not came.size
    with np.errstate(over="ignore"):
        values = came.astype(dtype) if right else came
    whole = dtype.kind == "f" or (values == came).all()  # an integer that fits
    if not (right and whole and came.size == math.prod(one["shape"])):
        words = f"{one['name']}: {came.size} values of type {came.dtype} came"
        raise BadMessage(f"{words}; {math.prod(one['shape'])} of {dtype} are needed")
    return values.reshape(one["shape"])
