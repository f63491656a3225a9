"""Windows: where they lie, what they count, and that slabs equal the whole."""

import math

import numpy as np
import pytest
import sliding_windows as sw
import torch

# shape as stored and spacing of the eight cases, and the shapes that the benchmark's rule gives
CASES = {
    "case_00015": ((75, 512, 512), (3.0, 0.7050781, 0.7050781), (128, 320, 320)),
    "case_00021": ((38, 512, 512), (5.0, 0.8222656, 0.8222656), (128, 320, 320)),
    "case_00037": ((97, 512, 512), (5.0, 0.9375, 0.9375), (320, 384, 384)),
    "case_00038": ((32, 512, 512), (5.0, 0.7792969, 0.7792969), (128, 320, 320)),
    "case_00061": ((29, 512, 512), (5.0, 0.9765625, 0.9765625), (128, 448, 448)),
    "case_00110": ((34, 512, 512), (5.0, 0.8300781, 0.8300781), (128, 384, 384)),
    "case_00148": ((36, 512, 512), (5.0, 0.90625, 0.90625), (128, 384, 384)),
    "case_00152": ((38, 512, 512), (5.0, 0.72265625, 0.72265625), (128, 320, 320)),
}


def mixing(x):
    """Scores that depend on the place in the window, so that weights matter."""
    ramp = torch.linspace(-1, 1, x.shape[-1])
    flat = x[:, 0]
    return torch.stack([flat.roll(1, -1) * ramp, flat**2 - 0.5, flat * ramp[:, None]], 1)


def volume(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", CASES)
def test_the_cases_get_the_benchmark_s_shapes(name):
    shape, spacing, wanted = CASES[name]
    padded, starts = sw.grid(shape, spacing)
    assert padded == wanted
    assert len(starts) == math.prod((size - 64) // 64 for size in wanted)
    assert starts[0] == (0, 0, 0) and starts[-1] == tuple(size - 128 for size in wanted)


def test_seven_of_the_eight_have_one_window_in_depth():
    shapes = [sw.grid(shape, spacing)[0] for shape, spacing, _ in CASES.values()]
    assert sum(shape[0] == 128 for shape in shapes) == 7


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (128, (0, 0, 0)),
        (127, (1, 0, 0)),
        (1, (127, 0, 0)),
        (159, (0, 31, 0)),
        (160, (0, 0, 32)),
        (161, (0, 0, 31)),
        (191, (0, 0, 1)),
        (192, (0, 0, 0)),
    ],
)
def test_less_than_half_a_step_is_cut_and_more_is_padded(size, wanted):
    assert sw.fitted(size, 128, 64) == wanted


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.3, 0.5, 0.75, 0.9])
def test_windows_cover_every_voxel_at_any_overlap(overlap):
    padded, starts = sw.grid((40, 61, 47), (1.6, 1.2, 1.2), window=20, overlap=overlap)
    seen = np.zeros(padded, bool)
    for z, y, x in starts:
        seen[z : z + 20, y : y + 20, x : x + 20] = True
    assert seen.all() and len(set(starts)) == len(starts)


@pytest.mark.parametrize(
    ("shape", "spacing", "more"),
    [
        ((1, 2), (1, 1, 1), {}),
        ((0, 2, 2), (1, 1, 1), {}),
        ((2, 2, 2), (1, 0, 1), {}),
        ((2, 2, 2), (1, math.nan, 1), {}),
        ((2, 2, 2), (1, 1, 1), {"overlap": 1.0}),
        ((2, 2, 2), (1, 1, 1), {"overlap": -0.1}),
        ((2, 2, 2), (1, 1, 1), {"window": 0}),
    ],
)
def test_impossible_sizes_are_refused(shape, spacing, more):
    with pytest.raises(ValueError):
        sw.grid(shape, spacing, **more)


def test_a_shape_of_broken_steps_is_refused():
    with pytest.raises(ValueError, match="whole steps"):
        sw.starts_of((32, 33, 32), 32, 16)


def test_the_weight_is_the_cube_root_of_the_benchmark_s_gaussian():
    at = np.exp(-0.5 * ((np.arange(128) - 63.5) / 16) ** 2)
    cube = np.cbrt(at[:, None, None] * at[:, None] * at)
    one = sw.gaussian(128)
    ours = one[:, None, None] * one[:, None] * one
    assert np.allclose(ours, cube / cube.max(), rtol=1e-12)
    assert ours[0, 0, 0] == pytest.approx(3.8e-4, rel=0.01), "the corner counts little"
    plain = sw.gaussian(128, root=1)
    assert plain[0] ** 3 == pytest.approx(5.5e-11, rel=0.01), "without the root hardly at all"


def test_a_constant_is_the_root_of_infinity():
    assert (sw.gaussian(16, math.inf) == 1).all()


def test_normalised_weights_add_up_to_one():
    first, middle, last = (sw.weights_1d(kind) for kind in ("first", "middle", "last"))
    assert first.shape == middle.shape == last.shape == (128,)
    assert np.allclose(first[64:] + last[:64], 1) and np.allclose(first[64:] + middle[:64], 1)
    assert np.allclose(middle[64:] + last[:64], 1) and np.allclose(first, last[::-1])
    assert (first[:64] == 1).all() and (last[64:] == 1).all()
    assert (sw.weights_1d("single") == 1).all()


@pytest.mark.parametrize(
    ("count", "window", "step"), [(1, 8, 4), (2, 8, 4), (5, 8, 2), (3, 9, 9)]
)
def test_axis_weights_add_up_to_one(count, window, step):
    total = np.zeros((count - 1) * step + window)
    for at, one in enumerate(sw.axis_weights(count, window, step)):
        total[at * step : at * step + window] += one
    assert np.allclose(total, 1)


def test_the_four_kinds_are_those_of_any_number_of_windows():
    for count in (1, 2, 3, 6):
        size = 16 * (count + 1)
        for at, one in enumerate(sw.axis_weights(count, 32, 16)):
            kind = sw.kind_of(16 * at, size, 32)
            assert np.allclose(one, sw.weights_1d(kind, 32))


@pytest.mark.parametrize("kind", ["only", "", None])
def test_other_kinds_are_refused(kind):
    with pytest.raises(ValueError, match="allowed are"):
        sw.weights_1d(kind)


def test_odd_windows_have_no_four_kinds():
    with pytest.raises(ValueError, match="even sizes"):
        sw.weights_1d("middle", window=9)


def test_27_patches_leave_out_the_only_window():
    few, all_of = sw.patches(16), sw.patches(16, sw.KINDS)
    assert len(few) == 27 and len(all_of) == 64
    shape = (16, 32, 32)
    needed = {
        tuple(sw.kind_of(at, size, 16) for at, size in zip(start, shape, strict=True))
        for start in sw.starts_of(shape, 16, 8)
    }
    assert not needed & set(few) and needed <= set(all_of)


@pytest.mark.parametrize("shape", [(16, 16, 16), (16, 24, 40), (40, 16, 24), (24, 24, 24)])
@pytest.mark.parametrize("batch", [1, 3])
def test_slabs_equal_the_benchmark_s_whole_map(shape, batch):
    given = volume(*shape)
    wanted = sw.segment_reference(given.numpy(), mixing, 16)
    found = sw.segment(given, mixing, 16, batch=batch)
    assert found.dtype == torch.uint8 and (found.numpy() == wanted).mean() > 0.9995
    # float32 against float64: equal but for scores that tie within rounding


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.5, 0.75])
def test_scores_that_all_windows_share_come_out_as_they_are(overlap):
    size, _, _ = sw.grid((24, 24, 24), sw.TARGET_MM, 16, overlap)[0]
    given = volume(size, size, size)
    parts = [
        (z, one.clone())
        for z, one in sw.slabs(given, lambda x: x.repeat(1, 3, 1, 1, 1), 16, overlap)
    ]
    assert [z for z, _ in parts] == sorted(z for z, _ in parts)
    whole = torch.cat([one for _, one in parts], 1)
    assert torch.allclose(whole, given.expand(3, -1, -1, -1), atol=1e-6)


def test_dividing_by_the_norm_changes_no_class():
    scores = torch.randn(3, 9, 9, 9, generator=torch.Generator().manual_seed(0))
    norm = torch.rand(9, 9, 9) + 0.1
    assert torch.equal(sw.largest(scores), sw.largest(scores / norm))


def test_the_largest_is_what_argmax_says_ties_too():
    scores = torch.randint(
        0, 3, (3, 7, 7, 7), generator=torch.Generator().manual_seed(1)
    ).float()
    assert torch.equal(sw.largest(scores), torch.from_numpy(scores.numpy().argmax(0)).byte())


@pytest.mark.parametrize("overlap", [0.25, 0.5, 0.75])
def test_slabs_equal_the_whole_map_at_any_overlap_and_side(overlap):
    shape = sw.grid((29, 37, 26), sw.TARGET_MM, 16, overlap)[0]
    given = volume(*shape)
    wanted = sw.segment_reference(given.numpy(), mixing, 16, overlap)
    found = sw.segment(given, mixing, 16, overlap=overlap, batch=5)
    assert (found.numpy() == wanted).mean() > 0.9995


def test_a_second_layer_does_not_write_over_what_the_first_still_owes():
    given = torch.ones(40, 16, 16)
    for z, part in sw.slabs(given, lambda x: x.repeat(1, 3, 1, 1, 1), 16, 0.75):
        assert torch.allclose(part, torch.ones(())), z


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_voxels_that_are_no_numbers_are_refused(broken):
    given = volume(16, 16, 16)
    given[3, 4, 5] = broken
    with pytest.raises(ValueError, match="NaN or infinite"):
        sw.segment(given, mixing, 16)


def test_other_volumes_are_refused():
    with pytest.raises(ValueError, match="floats"):
        sw.segment(torch.zeros(16, 16, 16, dtype=torch.int16), mixing, 16)
    with pytest.raises(ValueError, match="floats"):
        sw.segment(torch.zeros(1, 16, 16, 16), mixing, 16)


def test_a_layer_is_held_and_not_the_volume():
    assert sw.bytes_held((320, 448, 448), 128, whole=True) == 2 * 3 * 4 * 320 * 448 * 448
    assert sw.bytes_held((320, 448, 448), 128) == 3 * 4 * 128 * 448 * (448 + 128)
