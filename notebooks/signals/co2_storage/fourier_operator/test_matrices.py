"""Spectral convolutions as matrix products: equal to the transform, small, or refused."""

from itertools import product

import pytest
import torch
from torch import nn

from .matrices import MatrixSpectral, Stored, as_matrices
from .spectral_conv import SpectralConv


class Plain(SpectralConv):
    """A spectral convolution by FFT in the plainest way: an oracle of its own."""

    def forward(self, x):
        axes, last = range(2, x.ndim), self.modes[-1]
        spectrum = torch.fft.rfftn(x, dim=tuple(axes))
        out = torch.zeros(
            len(x), self.weight[0].shape[1], *spectrum.shape[2:], dtype=torch.cfloat
        )
        sides = [(slice(m), slice(-m, None)) for m in self.modes[:-1]]
        for weight, corner in zip(self.weight, product(*reversed(sides)), strict=True):
            place = (slice(None), slice(None), *reversed(corner), slice(last))
            out[place] = torch.einsum("bi...,io...->bo...", spectrum[place], weight)
        return torch.fft.irfftn(out, s=x.shape[2:])


class Net(nn.Module):
    """Two layers with a spectral convolution each, one of them nested."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Conv3d(2, 5, 1)
        self.first = Plain(5, 6, (2, 3, 2))
        deeper, last = Plain(6, 5, (3, 2, 3)), nn.Conv3d(5, 5, 3, padding=1)
        self.deep = nn.Sequential(nn.ReLU(), deeper, last)

    def forward(self, x):
        return self.deep(self.first(self.lift(x)))


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(5)


@pytest.mark.parametrize("shape", [(6, 8, 5), (7, 9, 6), (13, 11, 4), (8, 6, 3)])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_products_equal_the_transform_for_even_odd_and_prime_lengths(shape, batch):
    oracle = Plain(3, 4, (3, 3, 2))
    x = torch.randn(batch, 3, *shape) + 10  # a large mean, which the zeroth mode carries
    expected = oracle(x).detach()
    found = MatrixSpectral(oracle.weight, oracle.modes, shape)(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * expected.abs().max().item())


@pytest.mark.parametrize(("shape", "modes"), [((24, 56), (6, 10)), ((5, 7), (2, 3))])
def test_two_axes_do_as_well(shape, modes):
    oracle = Plain(3, 4, modes)
    x = torch.randn(2, 3, *shape)
    found = MatrixSpectral(oracle.weight, modes, shape)(x)
    torch.testing.assert_close(found, oracle(x), rtol=0, atol=2e-5)


def test_four_axes_do_as_well():
    oracle = Plain(2, 3, (1, 2, 2, 2))
    x = torch.randn(2, 2, 3, 4, 6, 5)
    found = MatrixSpectral(oracle.weight, oracle.modes, x.shape[2:])(x)
    torch.testing.assert_close(found, oracle(x), rtol=0, atol=2e-5)


def test_all_modes_up_to_the_highest_are_allowed():
    oracle = Plain(2, 2, (3, 4, 4))  # time has 6 samples, so its fourth mode is the highest
    x = torch.randn(2, 2, 6, 8, 6)
    found = MatrixSpectral(oracle.weight, oracle.modes, (6, 8, 6))(x)
    torch.testing.assert_close(found, oracle(x), rtol=0, atol=2e-5)


@pytest.mark.parametrize("modes", [(4, 3, 2), (3, 5, 2), (3, 3, 4)])
def test_modes_that_overlap_or_do_not_exist_are_refused(modes):
    with pytest.raises(ValueError, match=r"room for \(3, 4, 3\) modes"):
        MatrixSpectral(Plain(1, 1, modes).weight, modes, (6, 8, 5))


def test_a_model_keeps_its_answers_and_its_own_layers():
    net, x = Net().eval(), torch.randn(1, 2, 8, 7, 6)
    twin = as_matrices(net, (x,))
    torch.testing.assert_close(twin(x), net(x), rtol=0, atol=1e-5)
    kinds = [type(module).__name__ for module in twin.modules()]
    assert kinds.count("MatrixSpectral") == 2 and "Plain" not in kinds
    assert isinstance(net.first, Plain) and net.first.weight[0].requires_grad


def test_eight_bits_change_the_answer_by_about_a_thousandth():
    net, x = Net().eval(), torch.randn(1, 2, 8, 7, 6)
    expected = net(x)
    apart = (as_matrices(net, (x,), bits=8)(x) - expected).norm() / expected.norm()
    assert 1e-5 < apart.item() < 0.01, "half a step of 1/127 in each weight, averaged over many"


@pytest.mark.parametrize(("bits", "bound"), [(8, 0.5 / 127), (32, 0)])
def test_a_stored_number_is_off_by_half_a_step_of_its_mode_s_largest(bits, bound):
    weak_and_strong = torch.randn(2, 2, 9, 9) * torch.tensor([1.0, 1e-4])[None, :, None, None]
    found = Stored(weak_and_strong, bits)()
    largest = weak_and_strong.abs().amax((0, 2, 3), keepdim=True)
    assert ((found - weak_and_strong).abs() <= bound * largest * 1.0001).all()
    assert found.dtype == torch.float32


def test_a_mode_of_zeros_stays_zero():
    assert (Stored(torch.zeros(2, 3, 4, 4), 8)() == 0).all()


def test_other_widths_are_refused():
    with pytest.raises(ValueError, match="bits=4: 8 or 32"):
        Stored(torch.ones(2, 1, 1, 1), 4)
