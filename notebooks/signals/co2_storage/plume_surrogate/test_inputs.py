"""Channels: what each is, bounded, and zero below the aquifer."""

import pytest
import torch
from fourier_operator.networks import INPUTS
from two_phase import Grid

from .inputs import CHANNELS, encode


def test_a_network_expects_as_many_channels():
    assert len(CHANNELS) == INPUTS


def cases(B=2, Z=24, R=48):
    generator = torch.Generator().manual_seed(0)
    mask = torch.ones(B, Z, R, dtype=torch.bool)
    mask[1, 10:] = False
    opened = torch.zeros(B, Z, dtype=torch.bool)
    opened[:, 2:6] = True
    values = {"kv_kh": 0.1, "depth": 1500.0, "rate": 1.0, "swi": 0.2, "lam": 0.5}
    one = {name: torch.full((B,), value) for name, value in values.items()}
    return one | {
        "permeability": 100 * torch.rand(B, Z, R, generator=generator) * mask,
        "porosity": 0.2 * mask,
        "thickness": torch.tensor([200.0, 83.0]),
        "mask": mask,
        "perforation_mask": opened,
    }


def test_encoding_is_bounded_and_zero_below_the_aquifer():
    grid = Grid.reduced()
    x = encode(cases(), grid)
    assert x.shape == (2, 12, 24, 48, 12) and x.abs().max() < 6
    assert torch.equal(encode(cases(), grid, moving=False), x[..., :1])
    assert (x[1, :9, 10:] == 0).all() and (x[0, 9:] != 0).any()


def test_encoding_spreads_the_rate_over_the_open_rows():
    x = encode(cases(), Grid.reduced())
    assert torch.allclose(x[0, 4, :, 0, 0].sum(), torch.tensor(8.0))


def test_each_channel_is_what_its_name_says():
    grid, sites = Grid.reduced(), cases()
    x = dict(zip(CHANNELS, encode(sites, grid)[1].double(), strict=True))
    k, depths = sites["permeability"][1, :10].double(), torch.tensor(grid.depths_m)[:, None]
    log_r = torch.tensor(grid.centres_m).log10() / 2 - 1
    flat = torch.ones(24, 48, dtype=torch.float64)
    opened = sites["perforation_mask"][1, :, None] * flat
    wanted = {
        "radial permeability": k.log10() / 2 - 1,
        "vertical permeability": (k * 0.1).log10() / 2 - 1,
        "porosity": 0 * flat,
        "perforation": opened,
        "rate": opened * 1.0 / 4 * 8,
        "depth": (1500 + depths - 1700) / 500 * flat,
        "place in the aquifer": (depths / 83 * 2 - 1) * flat,
        "irreducible water": 0 * flat,
        "pore-size index": 0 * flat,
        "radius": log_r * flat,
        "row": (depths / 100 - 1) * flat,
    }
    for name, field in wanted.items():
        assert torch.allclose(x[name][:10, :, 0], field[:10], atol=1e-5), name
        assert torch.equal(x[name], x[name][..., :1].expand_as(x[name])), name
    days = torch.tensor(grid.times_days).double()
    assert torch.allclose(x["time"], (days.log10() / 2 - 1).expand(24, 48, -1), atol=1e-6)


def test_what_differs_between_sites_differs_in_its_channel_alone():
    grid, plain = Grid.reduced(), cases()
    channel = {"swi": 7, "lam": 8, "porosity": 2, "rate": 4, "depth": 5, "thickness": 6}
    for name, number in channel.items():
        changed = encode(plain | {name: plain[name] + 0.1}, grid) - encode(plain, grid)
        assert changed.abs().amax((0, 2, 3, 4)).nonzero().flatten().tolist() == [number], name
    step = encode(plain | {"swi": plain["swi"] + 0.1}, grid)[0, 7, 0, 0, 0]
    assert step == pytest.approx(1.0, abs=1e-5), "0.1 more is one unit more"
