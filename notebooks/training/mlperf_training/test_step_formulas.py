"""Known answers of the predictions."""

import pytest
import step_formulas as f


def test_a_pass_costs_its_bytes_and_a_product_the_longer_of_both():
    assert f.seconds(312e12, 0) == 1 and f.seconds(0, 1.555e12) == 1
    assert f.seconds(312e12, 2 * 1.555e12) == 2
    # inner 1: the product is bound by its bytes, 2 (100 + 100 + 10,000), and a pass is 20,000
    assert f.passes_saved(100, 1, 100, 1) == pytest.approx(20_000 / (20_400 + 20_000))
    assert f.passes_saved(100, 1, 100, 0) == 0


@pytest.mark.parametrize(
    ("size", "tile", "share"), [(32, 64, 0.5), (64, 64, 0), (65, 64, 63 / 128), (32, 32, 0)]
)
def test_tiles_that_are_not_full(size, tile, share):
    assert f.tile_share(size, tile) == share


def test_side_by_side():
    assert (
        f.together(36, 36, 36) == 3
        and f.together(108, 108) == 1
        and f.together(109, 107) == 1.5
    )
    assert f.overlapped(1, 1) == 2 and f.overlapped(3, 1) == pytest.approx(4 / 3)


def test_a_tile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="1 or more"):
        f.tile_share(0, 64)
