"""Rays against parallelograms, cameras, and what rooms are made of."""

import pytest
import reflection
import rooms
import scenes
import torch


def rays(count, seed=0):
    """Starts inside the unit cube and unit directions, float64."""
    generator = torch.Generator().manual_seed(seed)
    starts = 0.02 + 0.96 * torch.rand(count, 3, generator=generator, dtype=torch.float64)
    directions = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    return starts, torch.nn.functional.normalize(directions, dim=1)


@pytest.mark.parametrize("room", [rooms.cornell_box, rooms.glossy_plates])
def test_the_nearest_parallelogram_is_that_of_the_loop(room):
    scene = room(4, 4, dtype=torch.float64)
    starts, directions = rays(101)
    distance, number, _, _ = scenes.intersect(scene.frames(), starts, directions)
    expected = [
        scenes.intersect_reference(scene, *ray) for ray in zip(starts, directions, strict=True)
    ]
    torch.testing.assert_close(
        distance, torch.tensor([row[0] for row in expected], dtype=torch.float64)
    )
    hit = torch.isfinite(distance)
    assert number[hit].tolist() == [row[1] for row in expected if row[1] >= 0]


def test_a_hit_lies_where_its_distance_says():
    scene = rooms.closed_room(0.5, 1.0)
    starts, directions = rays(53)
    distance, number, a, b = scenes.intersect(scene.frames(), starts, directions)
    point = (
        scene.corner_Q3[number]
        + a[:, None] * scene.edge_u_Q3[number]
        + b[:, None] * scene.edge_v_Q3[number]
    )
    torch.testing.assert_close(point, starts + distance[:, None] * directions)


def test_what_a_ray_leaves_is_not_met_again():
    scene = rooms.closed_room(0.5, 1.0)
    down = torch.tensor([[0.0, -1.0, 0.0]], dtype=torch.float64)
    start = torch.tensor([[0.5, 1e-9, 0.5]], dtype=torch.float64)
    floor = torch.tensor([0])
    assert scenes.intersect(scene.frames(), start, down)[1].item() == 0
    assert torch.isinf(scenes.intersect(scene.frames(), start, down, floor)[0]).all()


def test_no_ray_leaks_from_a_closed_room_in_float32():
    scene = rooms.closed_room(0.5, 1.0).to(dtype=torch.float32)
    starts, directions = (value.float() for value in rays(20_011))
    assert torch.isfinite(scenes.intersect(scene.frames(), starts, directions)[0]).all()


def test_the_walls_face_inward():
    scene = rooms.closed_room(0.5, 1.0)
    middle = scene.corner_Q3 + (scene.edge_u_Q3 + scene.edge_v_Q3) / 2
    assert (((0.5 - middle) * scene.normal_Q3).sum(1) > 0).all()


def test_the_sides_of_a_block_face_outward():
    camera = scenes.Camera((0, 0, 1), (0, 0, 0), 1, 1, 40.0)
    scene = rooms.build(rooms.block((0.4, 0.6), 0.3, 0.5, 20), camera)
    middle = scene.corner_Q3 + (scene.edge_u_Q3 + scene.edge_v_Q3) / 2
    assert (((middle - torch.tensor((0.4, 0.25, 0.6))) * scene.normal_Q3).sum(1) > 0).all()


def test_each_plate_mirrors_the_lamps_to_the_camera():
    """From the eye to the middle of a plate, mirrored there, a ray meets the row of lamps."""
    scene = rooms.glossy_plates(4, 4, torch.float64)
    eye = torch.tensor([scene.camera.eye], dtype=torch.float64)
    plates = (scene.glossy_Q3[:, 0] > 0).nonzero()[:, 0]
    assert scene.exponent_Q[plates].tolist() == [20, 300, 4000]
    lamps = set((scene.emission_Q3[:, 0] > 0).nonzero()[:, 0].tolist())
    power = scene.emission_Q3[:, 0] * scene.area_Q
    torch.testing.assert_close(power[list(lamps)], torch.full((3,), 0.5, dtype=torch.float64))
    side = torch.linspace(0, 1, 201, dtype=torch.float64)  # finer than the small lamp
    a, b = (one.reshape(-1) for one in torch.meshgrid(side, side, indexing="ij"))
    for plate in plates.tolist():
        at = torch.full(a.shape, plate)
        point = scenes.point_on(scene, at, a, b)
        out = torch.nn.functional.normalize(eye - point, dim=1)
        back = reflection.mirror(scene.normal_Q3[at], out)
        distance, met, _, _ = scenes.intersect(scene.frames(), point, back, at)
        assert lamps <= set(met[torch.isfinite(distance)].tolist()), plate


def test_the_middle_of_the_picture_looks_at_the_target():
    camera = scenes.Camera((1.0, 2.0, 3.0), (0.0, 0.5, 0.0), 1, 1, 50.0)
    _, direction = scenes.camera_rays(camera, torch.tensor([0]), torch.full((1, 2), 0.5))
    expected = torch.nn.functional.normalize(torch.tensor([[-1.0, -1.5, -3.0]]), dim=1)
    torch.testing.assert_close(direction, expected)


def test_rows_run_down_and_columns_run_right():
    camera = scenes.Camera((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 2, 2, 50.0)
    _, direction = scenes.camera_rays(camera, torch.arange(4), torch.full((4, 2), 0.5))
    assert (direction[:, 0] > 0).tolist() == [False, True, False, True]
    assert (direction[:, 1] > 0).tolist() == [True, True, False, False]


def test_jitter_moves_a_ray_within_its_pixel():
    camera = scenes.Camera((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 2, 2, 90.0)
    jitter = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    _, corners = scenes.camera_rays(camera, torch.tensor([0, 0]), jitter)
    torch.testing.assert_close(
        corners / -corners[:, 2:], torch.tensor([[-1.0, 1.0, -1.0], [0.0, 0.0, -1.0]])
    )


def quad(diffuse, emission=rooms.BLACK, edge_v=(0, 1, 0)):
    """A scene of one parallelogram."""
    camera = scenes.Camera((0, 0, 1), (0, 0, 0), 1, 1, 40.0)
    return rooms.build([((0, 0, 0), (1, 0, 0), edge_v, diffuse, emission)], camera)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quad((1.1, 0.0, 0.0)), "reaches 1.1"),
        (lambda: quad((-0.1, 0.0, 0.0)), "at least 0"),
        (lambda: quad((0.5, 0.5, 0.5), (float("nan"), 0.0, 0.0)), "not finite"),
        (lambda: quad((0.5, 0.5, 0.5), edge_v=(2, 0, 0)), "no area"),
    ],
)
def test_a_scene_that_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
