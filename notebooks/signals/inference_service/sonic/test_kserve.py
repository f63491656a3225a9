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
@given(
    st.dictionaries(st.text("abc_", min_size=1, max_size=5), ARRAYS, max_size=3), st.booleans()
)
def test_what_is_packed_comes_back(tensors, binary):
    body, header = pack(tensors, "inputs", binary, id="7")
    found, more = unpack(body, str(header) if binary else None, "inputs")
    assert more == {"id": "7"} and list(found) == list(tensors)
    for name, values in tensors.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].shape == values.shape


@pytest.mark.parametrize("data", [[1, 2.5, 3, 4], [[1, 2.5], [3, 4]]])
def test_numbers_are_read_flat_and_nested(data):
    body = told(shape=[2, 2], datatype="FP32", data=data)
    for header in (None, len(body)):  # Triton's clients say how long it is, others need not
        found, _ = unpack(body, header, "inputs")
        np.testing.assert_array_equal(found["x"], np.float32([[1, 2.5], [3, 4]]))
        assert found["x"].dtype == np.float32


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
    (told(shape=[2], datatype="FP32", data=[1]), "1 values of type int64 came; 2 of float32"),
    (told(shape=[2], datatype="FP32", data=[[1], [2, 3]]), "2 of float32"),
    (told(shape=[1], datatype="FP32", data=["1"]), "1 of float32"),
    (told(shape=[1], datatype="FP32", data=[True]), "type bool"),
    (told(shape=[1], datatype="FP32", data=[None]), "type object"),
    (told(shape=[1], datatype="INT32", data=[1.5]), "type float64"),
    (told(shape=[1], datatype="UINT8", data=[300]), "1 of uint8"),
    (told(shape=[1], datatype="INT64", data=[2**64]), "1 of int64"),
    (told(shape=[1], datatype="FP32", data={"x": 1}), "type object"),
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
        (GOOD, None, "no JSON header"),
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
        | st.dictionaries(
            st.sampled_from(["name", "shape", "datatype", "parameters", "data"]), inner
        )
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
