"""The protocol: what is packed comes back, and what is wrong is said."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from .kserve import DATATYPES, BadMessage, pack, unpack

ARRAYS = st.sampled_from(sorted(DATATYPES.values())).flatmap(
    lambda dtype: some.arrays(
        np.dtype(dtype), some.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    )
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text("abc_", min_size=1, max_size=5), ARRAYS, max_size=3))
def test_what_is_packed_comes_back(tensors):
    body, header = pack(tensors, "inputs", id="7")
    found, more = unpack(body, str(header), "inputs")
    assert more == {"id": "7"} and list(found) == list(tensors)
    for name, values in tensors.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].shape == values.shape


def told(**one):
    return json.dumps({"inputs": [{"name": "x"} | one]}).encode()


BROKEN = [
    (b"[" * 100_000, "no JSON header"),
    (b'{"inputs": 3}', "no JSON header"),
    (b'{"inputs": [{"name": "x"}, {"name": "x"}]}', "name of its own"),
    (told(shape=[-1], datatype="FP32"), "list of sizes"),
    (told(shape=[True], datatype="FP32"), "list of sizes"),
    (told(shape=3, datatype="FP32"), "list of sizes"),
    (told(shape=[1], datatype="BYTES"), "allowed are"),
    (told(shape=[2**40, 2**40], datatype="FP32"), "are needed"),
    (told(shape=[1], datatype="FP32", parameters=[1]), "are announced"),
    (told(shape=[1], datatype="FP32", parameters={"binary_data_size": 4.0}), "are announced"),
    (told(shape=[1], datatype=[]), "allowed are"),
    (told(shape=[1], datatype="FP32", data=[1]), "are announced"),
]
GOOD, HEADER = pack({"x": np.zeros((2, 3), np.float32)}, "inputs")


@pytest.mark.parametrize(
    "body, header, words",
    [
        (GOOD[:-1], HEADER, "24 are needed"),  # cut: the right shape without its data
        (GOOD + b"!", HEADER, "left behind"),
        (GOOD, HEADER - 3, "no JSON header"),
        (GOOD, "-1", "a number of bytes"),
        (GOOD, 10**9, "a number of bytes"),
        (GOOD, None, "a number of bytes"),
        *[(body, len(body), words) for body, words in BROKEN],
    ],
)
def test_what_is_wrong_is_said(body, header, words):
    with pytest.raises(BadMessage, match=words):
        unpack(body, header, "inputs")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["FP32", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "shape", "datatype", "parameters"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_any_header_gives_arrays_or_a_reason(one):
    body = json.dumps({"inputs": one}).encode()
    try:
        unpack(body, len(body), "inputs")
    except BadMessage as error:
        assert str(error)


def test_a_dtype_without_a_name_is_refused():
    with pytest.raises(ValueError, match="complex128 came"):
        pack({"x": np.zeros(2, complex)}, "inputs")
