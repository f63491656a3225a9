"""The published settings are handed over whole, and judged on views that they have not."""

import cameras
import mesh_fitting as mf
import meshes
import pytest
import study_published_settings as study
import torch
from press.study import hold


@pytest.fixture(scope="module")
def seen():
    return hold(study.STUDY)


def test_the_fit_has_the_published_settings_and_the_start_takes_no_step(seen):
    assert {name for name, _ in seen} == {"published", "start", "carved"}
    assert seen["published", 0].job.arm.loss == mf.Settings()
    assert seen["start", 0].job.arm.loss.steps == seen["carved", 0].job.arm.loss.steps == 0
    assert seen["carved", 0].job.start == "carving"
    assert study.STUDY.sizes == {"steps": 2000, "car": 5, "held": 8}


def test_photographs_are_of_twenty_even_views_by_the_z_buffer(seen):
    given = seen["published", 0].job.train
    some = slice(0, 20, 6)
    wanted = mf.photographed(meshes.car(2), cameras.around(20)[some], 128)
    assert torch.equal(given.silhouettes[some], wanted.silhouettes)
    assert torch.equal(given.cameras, cameras.around(20))


def test_it_is_judged_on_other_views_at_its_own_size(seen, monkeypatch):
    one = seen["published", 0]
    mesh, held = one.tests["test"]
    for view in held:
        assert (one.job.train.cameras - view).abs().amax((1, 2)).min() > 0.05
    asked = []
    monkeypatch.setattr(mf, "judged", lambda *given: asked.append(given) or {})
    study.judge((mesh[0], mesh[1]), (mesh, held), one.job)
    assert asked[0][4] == 128 and torch.equal(asked[0][3], held)
