"""Fourier operators: the published size, equal ways to compute, invariances, refusals."""

import pytest
import torch

from . import spectral_conv
from .networks import FNO, UFNO, UNet, padded, parameters
from .spectral_conv import SpectralConv, kept_transforms


def layer(channels_in, channels_out, modes, seed=0):
    torch.manual_seed(seed)
    conv = SpectralConv(channels_in, channels_out, modes)
    conv.weight = torch.nn.ParameterList([w.detach().to(torch.cdouble) for w in conv.weight])
    return conv


def spectral_reference(x_CZR, weight, modes):
    """One sample of two axes, a mode at a time, by the definition of the transform; float64."""
    (m_z, m_r), (_, Z, R) = modes, x_CZR.shape
    z, r = torch.arange(Z).double().view(-1, 1), torch.arange(R).double().view(1, -1)
    out = torch.zeros(weight[0].shape[1], Z, R, dtype=torch.float64)
    for corner, first in ((0, 0), (1, Z - m_z)):
        for i in range(m_z):
            for j in range(m_r):
                angle = 2 * torch.pi * ((first + i) * z / Z + j * r / R)
                wave = torch.polar(torch.ones_like(angle), angle)
                found = (x_CZR * wave.conj()).sum((1, 2))
                answer = (found @ weight[corner][:, :, i, j])[:, None, None] * wave / (Z * R)
                out += answer.real * (1 if j == 0 else 2)
    return out


def test_published_networks_have_the_published_number_of_parameters():
    with torch.device("meta"):
        assert parameters(UFNO.published())[0] == 33_097_829
        assert parameters(FNO.published())[0] == 31_117_325


def test_reduced_networks_are_about_equally_large():
    sizes = [parameters(kind.reduced())[1] for kind in (FNO, UFNO, UNet)]
    assert max(sizes) < 1.07 * min(sizes)


def test_spectral_layer_equals_the_definition():
    conv = layer(2, 3, (2, 3))
    x = torch.randn(1, 2, 6, 7, dtype=torch.float64)
    expected = spectral_reference(x[0], [w.detach() for w in conv.weight], (2, 3))
    assert torch.allclose(conv(x)[0], expected, atol=1e-12)


@pytest.mark.parametrize(
    "shape, modes",
    [((8, 14, 10), (3, 4, 6)), ((9, 7), (2, 3)), ((11, 8), (4, 5)), ((16,), (9,))],
)
def test_matrices_equal_transforms_with_gradients(monkeypatch, shape, modes):
    conv = layer(3, 4, modes)
    found = []
    for below in (0.0, 9.0):
        monkeypatch.setattr(spectral_conv, "MATRICES_BELOW", below)
        x = torch.randn(
            2, 3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
        )
        x.requires_grad_()
        y = conv(x)
        found.append([y, *torch.autograd.grad(y.square().sum(), [x, *conv.weight])])
    for transform, matrix in zip(*found, strict=True):
        assert torch.allclose(transform, matrix, atol=1e-10)


def test_matrices_made_in_inference_serve_training():
    kept_transforms.cache_clear()
    conv = SpectralConv(1, 1, (2, 2))
    x = torch.randn(1, 1, 12, 12)
    with torch.inference_mode():
        conv(x)
    conv(x).sum().backward()
    assert conv.weight[0].grad.abs().sum() > 0


def test_a_shifted_field_gives_a_shifted_answer():
    conv, x = layer(2, 2, (3, 3)), torch.randn(1, 2, 12, 14, dtype=torch.float64)
    shifted = conv(x.roll((5, 3), (2, 3)))
    assert torch.allclose(shifted, conv(x).roll((5, 3), (2, 3)), atol=1e-12)


def test_finer_sampling_of_a_smooth_field_gives_the_same_answer():
    conv = layer(1, 1, (3, 3))

    def field(n):
        z = torch.arange(n, dtype=torch.float64) / n
        return (torch.sin(2 * torch.pi * z)[:, None] + torch.cos(4 * torch.pi * z)[None, :])[
            None, None
        ]

    assert torch.allclose(conv(field(32))[..., ::2, ::2], conv(field(16)), atol=1e-12)


def test_equal_to_neuraloperator_on_the_same_weights():
    peers = pytest.importorskip(
        "neuralop.layers.spectral_convolution", reason="no neuraloperator here"
    )
    torch.manual_seed(0)
    peer = peers.SpectralConv(3, 4, (6, 8, 8), bias=False, implementation="reconstructed")
    conv = SpectralConv(3, 4, (3, 4, 5))
    whole = peer.weight.to_tensor() if hasattr(peer.weight, "to_tensor") else peer.weight.tensor
    with torch.no_grad():  # theirs stands shifted: high modes before low ones
        for number, weight in enumerate(conv.weight):
            z = slice(0, 3) if number & 1 else slice(3, 6)
            r = slice(0, 4) if number & 2 else slice(4, 8)
            weight.copy_(whole[:, :, z, r])
    x = torch.randn(2, 3, 12, 16, 10)
    assert torch.allclose(conv(x), peer(x), atol=1e-5)


@pytest.mark.parametrize("kind", [FNO, UFNO, UNet])
@pytest.mark.parametrize("batch", [1, 2])
def test_shapes_of_any_batch_and_uneven_grids(kind, batch):
    for outputs in (1, 2):
        made = kind.reduced(outputs, times=11)(torch.randn(batch, 12, 24, 45, 11))
        assert made.shape == (batch, *((outputs,) if outputs > 1 else ()), 24, 45, 11)


@pytest.mark.parametrize("kind, extra", [(FNO, {}), (UFNO, {"inner": 3}), (UNet, {})])
def test_three_axes_of_any_size(kind, extra):
    modes = {} if kind is UNet else {"modes": (2, 3, 2), "layers": 3}
    net = kind(width=4, head=5, **modes, **extra)
    assert net(torch.randn(2, 12, 9, 13, 5)).shape == (2, 9, 13, 5)


@pytest.mark.parametrize("halvings, kernel", [(1, 3), (2, 5), (3, 3)])
def test_a_u_net_is_as_deep_and_its_filters_as_wide_as_asked(halvings, kernel):
    shape = {"outputs": 2, "width": 4, "head": 5, "times": 3, "axes": 2, "pad": (0, 0, 0)}
    net = UNet(**shape, halvings=halvings, kernel=kernel)
    assert net(torch.randn(2, 12, 9, 13, 3)).shape == (2, 2, 9, 13, 3)
    assert (len(net.down), len(net.level)) == (halvings, halvings + 1)
    lists = (net.down, net.level, net.join)
    sizes = {block[0].kernel_size for blocks in lists for block in blocks}
    assert sizes == {(kernel, kernel)}
    assert net.level[-1][0].out_channels == 4 * 2**halvings


@pytest.mark.parametrize("kind", [FNO, UFNO, UNet])
def test_folded_time_reads_the_first_time_alone(kind):
    torch.manual_seed(0)
    net, x = kind.reduced(), torch.randn(1, 12, 24, 48, 12)
    with torch.inference_mode():
        assert torch.equal(net(x), net(x[..., :1]))
    with pytest.raises(ValueError, match="5 times; .* answers for 12"):
        net(x[..., :5])


def test_folded_time_needs_two_axes_and_the_number_of_times():
    with torch.device("meta"):  # their weights need not be drawn
        with pytest.raises(ValueError, match="folded time needs"):
            FNO(times=12)
        with pytest.raises(ValueError, match="folded time needs"):
            UNet(axes=2)


def test_the_u_path_is_where_ufno_differs_from_fno():
    torch.manual_seed(0)
    net, x = UFNO.reduced(), torch.randn(1, 12, 24, 48, 12)
    whole = net(x)
    net.layers[-1].unet = None
    assert not torch.allclose(whole, net(x))
    with torch.device("meta"):
        published = UFNO.published()
    assert [layer.unet is None for layer in published.layers] == [True] * 3 + [False] * 3


@pytest.mark.parametrize("pad, size", [((8, 8, 8), (104, 208, 32)), ((0, 0, 1), (96, 200, 32))])
def test_padding_as_published(pad, size):
    x = torch.rand(1, 1, 96, 200, 24) + 1
    got = padded(x, pad)
    assert got.shape[2:] == size
    assert (got[:, :, 96:] == 0).all() and (got[:, :, :96, 200:, :24] == x[:, :, :, -1:]).all()
    assert (got[:, :, :96, :200, 24:] == x[..., -1:]).all()


@pytest.mark.parametrize("modes, calls", [((3, 5), 1), ((9, 20), 0)])
def test_few_modes_go_by_matrices_and_many_by_transforms(monkeypatch, modes, calls):
    made, real = [], spectral_conv.by_matrices
    monkeypatch.setattr(spectral_conv, "by_matrices", lambda *a: made.append(1) or real(*a))
    SpectralConv(1, 1, modes)(torch.randn(1, 1, 24, 56))
    assert len(made) == calls


@pytest.mark.parametrize("shape", [(1, 11, 24, 48, 12), (12, 24, 48, 12)])
@pytest.mark.parametrize("kind", [FNO, UNet])
def test_other_channels_are_refused(kind, shape):
    with pytest.raises(ValueError, match=r"\(B, 12, Z, R, T\) is needed"):
        kind.reduced()(torch.zeros(shape))


def test_overlapping_corners_are_refused():
    with pytest.raises(ValueError, match="has room for"):
        SpectralConv(1, 1, (5, 3))(torch.zeros(1, 1, 8, 12))
    with pytest.raises(ValueError, match="each >= 1"):
        SpectralConv(1, 1, (0, 3))
    with torch.device("meta"), pytest.raises(ValueError, match="u_layers=4 of 3"):
        UFNO(layers=3, u_layers=4)
