from pathlib import Path

import pytest
import storage_sites
import torch
from fourier_operator import FNO, UFNO, UNet
from fourier_operator.networks import Pointwise
from two_phase import Grid

from . import mass
from .runtime import Compiled, deployed
from .surrogate import Surrogate, pick

GRID = Grid.reduced()


@pytest.fixture(scope="module")
def sites():
    return storage_sites.load(Path(__file__).parents[1] / "sample_cases")


@pytest.fixture(autouse=True)
def any_mass(monkeypatch):
    """Untrained networks hold anything; what is refused for that, `test_mass` says."""
    monkeypatch.setattr(mass, "LEAK", float("inf"))


def surrogate(kind):
    torch.manual_seed(0)
    return Surrogate(kind.reduced().eval(), GRID)


@pytest.fixture(scope="module")
def ufno(sites):
    """(model, the same compiled, what the model's weights were before)."""
    model = surrogate(UFNO)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    return model, Compiled(model, sites), before


def close(compiled, model, asked):
    found, wanted = compiled.predict(asked), model.predict(asked)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)
        assert not one[0][:, ~asked["mask"][0]].any()


def test_answers_as_pytorch_does(ufno, sites):
    model, compiled, _ = ufno
    close(compiled, model, pick(sites, [0, 7, 3]))
    close(compiled, model, pick(sites, [5]))


@pytest.mark.parametrize("kind", [FNO, UNet])
def test_the_other_networks_do_as_well(kind, sites):
    model = surrogate(kind)
    close(Compiled(model, sites), model, pick(sites, [0, 7]))


def test_three_axes_do_as_well(sites):
    torch.manual_seed(0)
    net = UFNO(outputs=2, width=3, modes=(2, 3, 2), layers=1, u_layers=1, pad=(0, 8, 4), head=7)
    model = Surrogate(net.eval(), GRID)
    close(Compiled(model, sites), model, pick(sites, [4]))


def test_maps_of_the_channels_are_drawn_into_convolutions(sites):
    net = deployed(surrogate(UFNO), (pick(sites, [0]),)).surrogate.net
    assert not any(isinstance(part, Pointwise) for part in net.modules())
    assert not any([*layer.local.parameters()] for layer in net.layers)


def test_the_model_that_is_compiled_stays_as_it_was(ufno):
    model, _, before = ufno
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_many_sites_keep_their_order(ufno, sites):
    model = ufno[1]
    together = model.predict(sites)
    for n in (0, 11, 19):
        alone = model.predict(pick(sites, [n]))
        assert all(torch.equal(a[0], b[n]) for a, b in zip(alone, together, strict=True))


def test_bad_sites_are_refused_as_ever(ufno, sites):
    model, one = ufno[1], pick(sites, [0])
    with pytest.raises(ValueError, match="porosity"):
        model.predict(one | {"porosity": one["porosity"] - 0.5})
    with pytest.raises(ValueError, match="training drew from"):
        model.predict(one | {"rate": one["rate"] + 4})
    assert model.predict(one | {"rate": one["rate"] + 4}, trained=False)[0].isfinite().all()
