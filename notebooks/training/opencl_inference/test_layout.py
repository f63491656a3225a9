"""The proof: slices come back whole, and the bytes are those of the form that is used."""

import layout
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(1, 13), st.integers(1, 5), st.integers(1, 5))
def test_slices_come_back_whole(channels, height, width):
    image = torch.arange(1.0, 1 + channels * height * width).view(channels, height, width)
    assert torch.equal(layout.from_slices(layout.to_slices(image), channels), image)


def test_the_padding_is_zero():
    assert layout.to_slices(torch.ones(5, 1, 1)).flatten().tolist() == [1, 1, 1, 1, 1, 0, 0, 0]


def test_four_channels_of_a_point_are_neighbours():
    image = torch.arange(16.0).view(4, 2, 2)
    assert layout.to_slices(image)[0, 0, 1].tolist() == [1, 5, 9, 13]


@pytest.mark.parametrize(
    ("inputs", "outputs", "dot"),
    [
        (3, 8, False),
        (8, 3, True),
        (1, 5, False),
        (3, 5, True),
        (5, 1, True),
        (1, 1, False),
        (3, 3, False),
        (5, 5, False),
    ],
)
def test_the_cheaper_form_is_used(inputs, outputs, dot):
    assert layout.dot_is_better(inputs, outputs) is dot


@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel", "precision", "size"),
    [
        (3, 8, (3, 3), "float32", 3 * 8 * 9 * 4),
        (1, 5, (1, 1), "float32", 1 * 8 * 4),  # only the outputs are padded
        (3, 5, (1, 1), "float32", 5 * 4 * 4),  # dot product: only the inputs are
        (8, 3, (1, 1), "float32", 3 * 8 * 4),  # dot product: 3 outputs, not 4
        (6, 1, (3, 1), "float16", 1 * 8 * 3 * 2),  # only the inputs are padded
        (3, 8, (3, 3), "mixed", 3 * 8 * 9 * 2),
    ],
)
def test_one_side_is_padded(inputs, outputs, kernel, precision, size):
    assert layout.constant_bytes(inputs, outputs, kernel, precision) == size


def test_the_limit_depends_on_the_family():
    first = (3, 32, (3, 3), "float32")  # 3,456 bytes
    fits = [family for family in layout.CONSTANT_LIMITS if layout.fits_constant(*first, family)]
    assert fits == ["adreno", "amd"]


def test_more_than_eight_output_slices_never_fit():
    assert layout.fits_constant(1, 32, (1, 1), "float16") and not layout.fits_constant(
        1, 33, (1, 1), "float16"
    )


def test_groups_never_fit():
    assert not layout.fits_constant(4, 4, (1, 1), "float32", groups=2)


def test_an_unknown_precision_is_refused():
    with pytest.raises(ValueError, match="float32, float16, mixed is allowed"):
        layout.constant_bytes(3, 8, (3, 3), "bfloat16")


def test_an_unknown_family_is_refused():
    with pytest.raises(ValueError, match="'mali'; one of"):
        layout.fits_constant(3, 8, (3, 3), "float32", "mali")


@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel"), [(0, 1, (1, 1)), (1, 0, (1, 1)), (1, 1, (0, 1))]
)
def test_empty_convolutions_are_refused(inputs, outputs, kernel):
    with pytest.raises(ValueError, match="allowed"):
        layout.constant_bytes(inputs, outputs, kernel, "float32")


def test_slices_that_hold_another_number_are_refused():
    with pytest.raises(ValueError, match=r"for 5 channels; \(2, H, W, 4\)"):
        layout.from_slices(torch.zeros(1, 2, 2, 4), 5)


def test_an_image_of_two_axes_is_refused():
    with pytest.raises(ValueError, match="channels, height, width"):
        layout.to_slices(torch.zeros(2, 2))


@pytest.mark.parametrize(
    ("sizes", "family", "groups", "form"),
    [
        ((3, 8, (3, 3)), "other", 1, "constant"),
        ((8, 3, (1, 1)), "other", 1, "dot"),
        ((96, 576, (1, 1)), "amd", 1, "sliced"),
        ((8, 8, (3, 3)), "other", 8, "depthwise"),
        ((1, 1, (3, 3)), "other", 1, "constant"),
    ],
)
def test_the_form_follows_the_rules(sizes, family, groups, form):
    assert layout.form_of(*sizes, "float32", family, groups) == form


def test_some_groups_have_no_form():
    with pytest.raises(ValueError, match="2 groups for 8 inputs and 8 outputs"):
        layout.form_of(8, 8, (3, 3), "float32", groups=2)
