"""Losses and errors with known answers, refusals, and networks that come back from a file."""

import pytest
import torch
from fourier_operator import FNO, UFNO
from two_phase import Grid

from . import mass, training
from .surrogate import Surrogate, case_errors, check_cases, pick
from .training import field_loss, targets, train

GRID = Grid.reduced(rows=8, rings=16, reports=3)
SMALL = {"outputs": 2, "width": 6, "modes": (2, 3), "layers": 2, "head": 8, "times": 3}


def cases(B=6):
    generator = torch.Generator().manual_seed(0)

    def drawn(low, high, *shape):
        return low + (high - low) * torch.rand(B, *shape, generator=generator)

    mask = torch.ones(B, 8, 16, dtype=torch.bool)
    mask[1, 5:] = False
    opened = torch.zeros(B, 8, dtype=torch.bool)
    opened[:, 1:4] = True
    gas = torch.linspace(1, 0, 16) * torch.linspace(0.2, 0.8, 3)[:, None, None]
    rate = drawn(0.3, 1.9)
    return {
        "permeability": drawn(50, 150, 8, 16) * mask,
        "porosity": drawn(0.1, 0.3, 8, 16) * mask,
        "kv_kh": drawn(0.1, 0.9),
        "thickness": torch.full((B,), 200.0),
        "depth": drawn(1100, 2400),
        "rate": rate,
        "swi": drawn(0.1, 0.3),
        "lam": drawn(0.3, 0.7),
        "mask": mask,
        "perforation_mask": opened,
        "saturation": gas.expand(B, 3, 8, 16) * mask[:, None],
        "pressure": (20 * rate.view(-1, 1, 1, 1) * gas) * mask[:, None],
    }


@pytest.fixture(autouse=True)
def any_mass(monkeypatch):
    """Untrained networks hold anything; what is refused for that, `test_mass` says."""
    monkeypatch.setattr(mass, "LEAK", float("inf"))


def surrogate(seed=0, kind=FNO, **extra):
    torch.manual_seed(seed)
    return Surrogate(kind(**SMALL, **extra), GRID)


def test_the_loss_ignores_what_lies_outside_of_the_rock():
    data = cases()
    true = targets(data, GRID)
    off = true + 9 * ~data["mask"][:, None, :, :, None]
    assert field_loss(off, true, data["mask"]).item() == 0
    assert field_loss(true + 1, true, data["mask"]).item() > 0


def test_the_loss_counts_slopes_on_top_of_the_field():
    data = cases()
    true = targets(data, GRID)
    plain = field_loss(true * 1.2, true, data["mask"], derivative=0)
    both = field_loss(true * 1.2, true, data["mask"], derivative=0.5)
    assert plain.item() == pytest.approx(0.2, abs=1e-5)
    assert both.item() == pytest.approx(0.3, abs=1e-5)


def test_the_loss_refuses_other_shapes():
    with pytest.raises(ValueError, match="truths of"):
        field_loss(torch.zeros(1, 2, 8, 16, 3), torch.zeros(1, 2, 8, 16, 2), None)


def test_errors_of_a_constant_offset():
    data = cases()
    inside = data["mask"][:, None]
    found = case_errors(
        (data["saturation"] + 0.1) * inside, (data["pressure"] + 2) * inside, data
    )
    largest = data["pressure"].flatten(1).amax(1)
    assert torch.allclose(found.plume, torch.full((6,), 0.1), atol=1e-6)
    assert torch.allclose(found.pressure, 2 / largest, atol=1e-6)


def test_gas_predicted_where_none_is_counts():
    data = cases(2)
    data["saturation"] = torch.zeros_like(data["saturation"])
    predicted = torch.zeros_like(data["saturation"])
    predicted[:, :, 0, :4] = 0.5
    assert torch.allclose(
        case_errors(predicted, data["pressure"], data).plume, torch.tensor(0.5)
    )


def test_pressure_is_learnt_in_units_that_follow_the_rate():
    data = cases()
    doubled = data | {"rate": 2 * data["rate"], "pressure": 2 * data["pressure"]}
    both = [targets(one, GRID)[:, 1] for one in (data, doubled)]
    assert torch.allclose(*both)


@pytest.mark.parametrize("decoupled", [False, True])
def test_training_decays_as_it_is_asked(monkeypatch, decoupled):
    asked = []
    monkeypatch.setattr(training, "descend", lambda *how, **more: asked.append((how, more)))
    train(surrogate().net, cases(), GRID, 3, 7, 4, 0.01, decoupled=decoupled)
    (((_, _, *how), more),) = asked
    assert (how, more) == ([6, 3, 7, 4, 0.01], {"decoupled": decoupled})


def test_training_repeats_itself():
    first, again = (train(surrogate().net, cases(), GRID, 3, batch=3) for _ in range(2))
    assert first == again


def test_training_learns():
    data, one = cases(), surrogate()
    losses = train(one.net, data, GRID, 60, batch=3, rate=0.02)
    assert losses[-1] < losses[0] / 2
    with torch.inference_mode():
        errors = case_errors(*one.unbalanced(data), data)  # these fields hold any mass
    assert errors.plume.mean() < 0.1


def test_training_stops_where_the_loss_is_lost():
    one = surrogate()
    torch.nn.init.constant_(one.net.lift.bias, float("nan"))
    with pytest.raises(FloatingPointError, match="loss of epoch 0"):
        train(one.net, cases(), GRID, 1)


def test_predictions_keep_to_the_rock_and_to_saturations():
    data = cases()
    saturation, pressure = surrogate().predict(data, batch=4)
    outside = ~data["mask"][:, None].expand_as(saturation)
    assert (saturation[outside] == 0).all() and (pressure[outside] == 0).all()
    assert saturation.min() >= 0 and saturation.max() <= 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_surrogate_on_a_gpu_answers_sites_that_lie_on_the_cpu():
    data, here = cases(), surrogate()
    wanted = here.predict(data)
    for found, own in zip(here.to("cuda").predict(data), wanted, strict=True):
        assert found.device.type == "cpu"
        torch.testing.assert_close(found, own, rtol=1e-4, atol=1e-3)


def test_one_case_at_a_time_is_the_same_as_all():
    data, one = cases(), surrogate()
    for batched, single in zip(one.predict(data), one.predict(data, batch=1), strict=True):
        assert torch.allclose(batched, single, rtol=1e-4, atol=1e-5)


def test_a_saved_network_answers_as_before_within_half_precision(tmp_path):
    one = surrogate(kind=UFNO, u_layers=1, inner=3, normalise=False)
    path = one.save(tmp_path / "net.safetensors")
    again = Surrogate.load(
        path, surrogate(5, UFNO, u_layers=1, inner=3, normalise=False).net, GRID
    )
    for before, after in zip(one.predict(cases()), again.predict(cases()), strict=True):
        assert torch.allclose(before, after, rtol=0, atol=0.01 * before.abs().max().item())


def test_a_file_of_another_network_is_refused(tmp_path):
    path = surrogate().save(tmp_path / "net.safetensors")
    wider = FNO(**SMALL | {"width": 7})
    with pytest.raises(ValueError, match="another network"):
        Surrogate.load(path, wider, GRID)
    with pytest.raises(ValueError, match="another network"):
        Surrogate.load(path, UFNO(**SMALL, u_layers=1, normalise=False), GRID)


@pytest.mark.parametrize(
    "name, value, told",
    [
        ("porosity", -0.1, "porosity = -0.1: training drew from 0.05 to 0.35"),
        ("permeability", 1e-3, "permeability = 0.001: training drew from 0.01"),
        ("porosity", float("nan"), "every number must be finite"),
        ("permeability", 0.0, "permeability = 0"),
        ("rate", 3.0, "training drew from 0.2 to 2"),
        ("depth", 200.0, "training drew from 1000"),
        ("thickness", float("inf"), "finite"),
    ],
)
def test_cases_that_no_network_should_answer_are_refused(name, value, told):
    data = cases()
    data[name] = data[name].clone()
    data[name][2] = value
    with pytest.raises(ValueError, match=told):
        surrogate().predict(data)


@pytest.mark.parametrize(
    "change, told",
    [
        ({"permeability": 0.1}, "geometric mean of 9.33 mD"),
        ({"permeability": 50.0}, "geometric mean of [0-9.e+]+ mD"),
        ({"permeability": 0.3, "rate": 1.05}, "would raise the pressure by about"),
    ],
)
def test_rock_and_wells_unlike_all_of_training_are_refused(change, told):
    data = cases()
    with pytest.raises(ValueError, match=told):
        surrogate().predict(data | {name: data[name] * by for name, by in change.items()})


def test_cases_outside_of_training_pass_when_asked_for():
    data = cases() | {"rate": torch.full((6,), 3.0)}
    check_cases(data, GRID, trained=False)
    with pytest.raises(ValueError, match="must be positive"):
        check_cases(data | {"rate": torch.full((6,), -3.0)}, GRID, trained=False)


def test_another_grid_and_a_well_without_rock_are_refused():
    with pytest.raises(ValueError, match="this grid has"):
        check_cases(cases(), Grid.reduced())
    data = cases()
    with pytest.raises(ValueError, match="open over no row"):
        check_cases(data | {"perforation_mask": torch.zeros(6, 8, dtype=torch.bool)}, GRID)
    deep = data["perforation_mask"].clone()
    deep[1, 6] = True
    with pytest.raises(ValueError, match="below the aquifer"):
        check_cases(data | {"perforation_mask": deep}, GRID)


def test_pick_takes_the_same_cases_of_every_tensor():
    data = pick(cases(), [4, 1])
    assert all(len(values) == 2 for values in data.values())
    assert torch.equal(data["rate"][1], cases()["rate"][1])
