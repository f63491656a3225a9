"""The fit: what it is handed, what it moves, and that it covers views that it has not seen."""

from dataclasses import replace

import cameras
import hard_raster
import mesh_fitting as mf
import mesh_losses as ml
import meshes
import pytest
import soft_raster
import torch

SETTINGS = mf.small(level=2, size=24, views=4, steps=40, rate=0.3)


@pytest.fixture(scope="module")
def given():
    return mf.photographed(meshes.car(2), cameras.around(4), 24)


@pytest.fixture(scope="module")
def found(given):
    return mf.fit(given, SETTINGS, looks=(0, 10))


def test_the_published_settings_are_the_defaults():
    own = mf.Settings()
    assert (own.level, own.size, own.views, own.at_once, own.steps) == (4, 128, 20, 2, 2000)
    assert (own.sigma, own.most, own.rate, own.momentum) == (1e-4, 50, 1.0, 0.9)
    assert own.weights == {
        "silhouette": 1, "colour": 1, "edge": 1, "normal": 0.01, "laplacian": 1,
    }  # fmt: skip


def test_the_small_form_differs_in_its_sizes_alone():
    small, own = mf.small(), mf.Settings()
    assert (small.level, small.size, small.views) == (3, 64, 12)
    assert replace(small, level=4, size=128, views=20, steps=2000) == own


def test_a_fit_covers_unseen_views_better_than_the_sphere(found):
    car, held = meshes.car(2), cameras.around(5, seed=9)
    before = mf.judged(*meshes.icosphere(2), car, held, 24)
    after = mf.judged(found.vertices, found.faces, car, held, 24)
    assert after["iou"] > before["iou"] + 0.2 and after["chamfer"] < before["chamfer"] / 3


def test_the_car_is_its_own_best_fit():
    car, held = meshes.car(2), cameras.around(3, seed=9)
    best = mf.judged(*car[:2], car, held, 24)
    assert best["iou"] == 1 and best["self_iou"] == 1 and best["chamfer"] < 1e-3


def test_each_score_comes_from_the_renderer_of_its_name():
    (vertices, faces, colours), held = meshes.car(3), cameras.around(3, seed=9)
    mesh, fat = (vertices, faces, colours), vertices * 1.1
    found = mf.judged(fat, faces, mesh, held, 48)
    hard = [hard_raster.render(one, faces, held, 48)[0] for one in (fat, vertices)]
    soft = [soft_raster.render(one, faces, held, 48)[0] for one in (fat, vertices)]
    assert found["iou"] == float(ml.iou(*hard)) != found["self_iou"]
    assert found["self_iou"] == float(ml.iou(*soft))


def test_roughness_is_the_fit_s_own():
    car, held = meshes.car(2), cameras.around(1, seed=9)
    sphere, faces = meshes.icosphere(2)
    found = mf.judged(sphere, faces, car, held, 16)["roughness"]
    wanted = float(ml.normal_consistency(sphere, faces, meshes.neighbours(faces)))
    assert found == pytest.approx(wanted) and found < 0.05


def test_the_losses_have_their_names_and_signs():
    vertices, faces, colours = meshes.car(2)
    sides, beside = meshes.edges(faces), meshes.neighbours(faces)
    black, white = (torch.full((1, 4, 4), one) for one in (1.0, 0.0))
    pictures = [one[..., None].expand(1, 4, 4, 3) * 0.5 for one in (black, white)]
    found = mf.losses_of(
        vertices, faces, sides, beside, (black, pictures[0]), (white, pictures[1])
    )
    told = {name: float(one) for name, one in found.items()}
    assert told["silhouette"] == 1 and told["colour"] == 0.25
    assert told["edge"] == float(ml.edge_length(vertices, sides)) > 0
    assert told["normal"] == float(ml.normal_consistency(vertices, faces, beside)) > 0
    assert told["laplacian"] == float(ml.laplacian(vertices, faces)) > 0


def test_softness_views_a_step_and_triangles_a_pixel_reach_the_rasteriser(given, monkeypatch):
    asked, draw = [], soft_raster.render
    monkeypatch.setattr(
        soft_raster,
        "render",
        lambda *rest, **how: asked.append((len(rest[2]), how)) or draw(*rest, **how),
    )
    mf.fit(given, replace(SETTINGS, steps=1, sigma=3e-4, most=7, at_once=3))
    views, how = asked[0]
    assert (views, how["sigma"], how["most"]) == (3, 3e-4, 7)


def test_colours_alone_take_their_own_rate(given):
    short = replace(SETTINGS, steps=1)
    slow, quick = (mf.fit(given, replace(short, colour_rate=rate)) for rate in (None, 5.0))
    assert torch.equal(slow.vertices, quick.vertices)
    far = [float((one.colours - 0.5).abs().mean()) for one in (slow, quick)]
    assert far[1] > 5 * far[0] > 0


def test_corners_move_and_triangles_stay(found):
    sphere, faces = meshes.icosphere(2)
    assert torch.equal(found.faces, faces) and not torch.allclose(
        found.vertices, sphere, atol=0.1
    )
    assert torch.equal(found.looks[0][0], sphere) and (found.looks[0][1] == 0.5).all()
    assert float(found.colours.min()) >= 0 and float(found.colours.max()) <= 1
    assert all(len(values) == 40 for values in found.losses.values())


def test_the_same_seed_gives_the_same_fit(given, found):
    short = replace(SETTINGS, steps=4)
    one, other, third = (mf.fit(given, short, seed) for seed in (1, 1, 2))
    assert torch.equal(one.vertices, other.vertices)
    assert not torch.equal(one.vertices, third.vertices), "another order of views"


@pytest.mark.parametrize("name", ["silhouette", "colour", "edge", "normal", "laplacian"])
def test_every_weight_reaches_the_fit(given, name):
    short = replace(SETTINGS, steps=3)
    off = replace(short, weights={**short.weights, name: 0.0})
    assert not torch.equal(mf.fit(given, short).vertices, mf.fit(given, off).vertices)


def test_photographs_come_from_the_renderer_of_their_name():
    car, views = meshes.car(3), cameras.around(3)
    hard, soft = (mf.photographed(car, views, 64, name) for name in ("hard", "soft"))
    fat = (soft.silhouettes > 0.5).sum() / (hard.silhouettes > 0.5).sum()
    assert 1.03 < float(fat) < 1.2, "near its outline two triangles count half each"
    with pytest.raises(ValueError, match="there are hard and soft"):
        mf.photographed(car, views, 24, "other")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"views": 5}, "4 pictures; the settings ask for 5 views"),
        ({"views": 3}, "4 pictures; the settings ask for 3 views"),
        ({"steps": -1}, "-1 steps"),
        ({"size": 32}, "pictures of 24 pixels; settings say 32"),
        ({"at_once": 0}, "1 to all of them"),
        ({"at_once": 5}, "1 to all of them"),
        ({"weights": {"silhouette": 1.0}}, "are missing or unknown"),
    ],
)
def test_settings_that_do_not_fit_the_pictures_are_refused(given, other, why):
    with pytest.raises(ValueError, match=why):
        mf.fit(given, replace(SETTINGS, **other))


def test_pictures_of_odd_shapes_are_refused(given):
    with pytest.raises(ValueError, match="have the shapes"):
        mf.Pictures(given.cameras[:3], given.silhouettes, given.pictures)
    with pytest.raises(ValueError, match="have the shapes"):
        mf.Pictures(given.cameras, given.silhouettes, given.pictures[..., :1])
    with pytest.raises(ValueError, match="have the shapes"):
        mf.Pictures(given.cameras, given.silhouettes[:, :9], given.pictures[:, :9])


@pytest.mark.parametrize("wrong", [float("nan"), 255.0])
def test_pictures_of_other_numbers_are_refused(given, wrong):
    with pytest.raises(ValueError, match="numbers from 0 to 1"):
        mf.fit(replace(given, silhouettes=given.silhouettes.clone().fill_(wrong)), SETTINGS)
    with pytest.raises(ValueError, match="numbers from 0 to 1"):
        mf.fit(replace(given, pictures=given.pictures.clone().fill_(wrong)), SETTINGS)


def test_a_fit_that_diverges_says_so(given):
    with pytest.raises(
        (FloatingPointError, ValueError), match="diverged|behind a camera|no finite"
    ):
        mf.fit(given, replace(SETTINGS, rate=1e4))
