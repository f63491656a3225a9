"""Darcy flow: what is fed, what is measured, and that a short training learns something."""

import pytest
import torch

from . import darcy
from .darcy import Flow, errors, fit, inputs
from .networks import FNO, parameters

SMALL = {"channels": 3, "outputs": 1, "times": 1, "pad": (0, 0, 0), "head": 8}


def flow(n=16, samples=24):
    """Smooth answers that a few modes can give."""
    generator = torch.Generator().manual_seed(0)
    a = (torch.rand(samples, n, n, generator=generator) > 0.5).float()
    z = torch.arange(n) / n
    u = (
        torch.sin(torch.pi * z)[:, None] * torch.sin(torch.pi * z)
        + a.mean((1, 2))[:, None, None]
    )
    return Flow(a, u)


def net():
    torch.manual_seed(0)
    return FNO(width=6, modes=(3, 3), layers=2, **SMALL)


def test_a_place_has_the_same_coordinates_on_every_grid():
    coarse, fine = (inputs(torch.zeros(1, n, n)) for n in (16, 32))
    assert torch.equal(coarse[:, 1:], fine[:, 1:, ::2, ::2])
    assert (coarse[:, 0] == -1).all()


@pytest.fixture(scope="module")
def trained():
    """(network, its losses) after a short training."""
    one = net()
    return one, fit(one, flow(), epochs=30, batch=8)


def test_training_learns_and_answers_in_units_of_pressure(trained):
    one, losses = trained
    assert losses[-1] < losses[0] / 2
    assert errors(one, flow()).mean() < 1.5 * losses[-1]


def test_a_trained_network_answers_on_a_finer_grid(trained):
    assert errors(trained[0], flow(32)).mean() < 0.3


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match="no samples"):
        fit(net(), Flow(torch.zeros(0, 16, 16), torch.zeros(0, 16, 16)))


def test_a_file_of_another_kind_is_refused(tmp_path):
    torch.save(
        {"x": torch.zeros(2, 16, 16), "y": torch.zeros(2, 8, 8)}, tmp_path / "darcy_train_16.pt"
    )
    with pytest.raises(ValueError, match="of one shape are needed"):
        darcy.load(tmp_path)


def test_contestants_are_about_equally_large():
    sizes = {name: parameters(one)[1] for name, one in darcy.contestants().items()}
    assert sizes["U-Net"] > 0.9 * sizes["FNO"] and sizes["U-Net"] < 1.4 * sizes["FNO"]
