"""Light is linear in its sources: sums of tiles against pictures of the whole lamp, and the
balance of direct and indirect.
"""

import light_basis
import path_tracing
import pytest
import rooms
import torch


def test_tiles_cover_the_lamp_that_they_are_cut_from():
    middles, width = light_basis.tiles(3, 0.2, 0.8)
    assert width == pytest.approx(0.2)
    assert middles[0].tolist() == pytest.approx([0.3, 0.3]) and len(middles) == 9


@pytest.mark.parametrize(
    ("centre", "size"), [((0.5, 0.5), 0.25), ((0.31, 0.62), 0.17), ((0.5, 0.5), 0.05)]
)
def test_shares_add_up_to_the_lamps_area(centre, size):
    _, width = light_basis.tiles()
    assert float(light_basis.covered(centre, size).sum()) * width**2 == pytest.approx(size**2)


def test_a_lamp_of_one_tile_lights_that_tile_alone():
    middles, width = light_basis.tiles()
    share = light_basis.covered(tuple(middles[7].tolist()), width)
    assert share.argmax() == 7 and float(share.sum()) == pytest.approx(1)


def test_the_sum_of_tiles_is_the_picture_of_the_whole_lamp():
    held = light_basis.basis(48, 2, size=8, across=3)
    share = light_basis.covered((0.5, 0.5), 0.72, 3)
    summed = light_basis.picture(held, share, (2.0, 2.0, 2.0), [1, 2])
    lamp = rooms.lamp((0.5, 0.5), 0.72, (2.0, 2.0, 2.0), diffuse=rooms.WHITE)
    whole = path_tracing.render_orders(rooms.cornell_box(8, 8, [lamp]), 200, 2, seed=99)[
        1:
    ].sum(0)
    # noise of 200 paths a pixel over 64 pixels is near 0.3 %
    assert float(summed.mean()) == pytest.approx(float(whole.mean()), rel=0.03)


def test_the_lamp_of_a_tile_reflects_as_the_ceiling_does(monkeypatch):
    """Else the room is darker about each lamp, and pictures of tiles do not add up."""
    asked, box = [], rooms.cornell_box
    monkeypatch.setattr(
        light_basis.rooms,
        "cornell_box",
        lambda width, height, lamps: asked.extend(lamps) or box(width, height, lamps),
    )
    light_basis.basis(1, 1, size=2, across=2)
    scene = box(2, 2)
    assert [lamp[3] for lamp in asked] == [pytest.approx(scene.diffuse_Q3[1].tolist())] * 4


def test_bounces_may_be_left_out():
    held = torch.arange(2 * 3.0).reshape(2, 3, 1, 1, 1).expand(2, 3, 4, 4, 3)
    share = torch.tensor([1.0, 0.5])
    assert light_basis.picture(held, share, (1.0, 1.0, 1.0), [1])[0, 0, 0].item() == 1 + 0.5 * 4


def test_equal_parts_keep_the_energy():
    direct, bounces = path_tracing.render(rooms.cornell_box(8, 8), 4, 3)
    assert light_basis.balance_error(direct, bounces, 0.5)[1] == pytest.approx(1, abs=1e-6)


def test_direct_light_alone_counts_it_twice():
    direct, bounces = torch.full((2, 2, 3), 3.0), [torch.full((2, 2, 3), 1.0)]
    assert light_basis.balance_error(direct, bounces, 0.0)[1] == pytest.approx(2 * 3 / 4)


def test_a_tone_curve_of_parts_is_not_that_of_the_sum():
    part = torch.ones(1, 1, 3)
    assert not torch.allclose(2 * light_basis.tone(part), light_basis.tone(2 * part), atol=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: light_basis.tiles(0), "across is 0"),
        (lambda: light_basis.tiles(3, 0.9, 0.1), "low is 0.9"),
        (lambda: light_basis.balance_error(torch.ones(1, 1, 3), [], 1.5), "share is 1.5"),
        (
            lambda: light_basis.picture(
                torch.ones(1, 2, 1, 1, 3), torch.ones(1), (1.0,) * 3, [2]
            ),
            "0 to 1",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
