"""The backward pass is the derivative; PyTorch computes the same; a perceptron knows no XOR."""

import ast
from pathlib import Path

import digit_network as dn
import numpy as np
import pytest
import torch
import torch_networks as tn
from torch import nn

CORNERS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float)
XOR = np.array([0, 1, 1, 0])


def some(seed=0, samples=7, inputs=5, classes=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(samples, inputs)), rng.integers(0, classes, samples)


def test_a_perceptron_learns_and():
    weights, bias, mistakes = dn.perceptron(CORNERS, [0, 0, 0, 1])
    assert ((CORNERS @ weights + bias > 0) == [0, 0, 0, 1]).all() and mistakes[-1] == 0


def test_a_perceptron_never_learns_xor():
    assert min(dn.perceptron(CORNERS, XOR, epochs=200)[2]) > 0


def test_a_hidden_layer_learns_xor():
    net, losses = dn.train(dn.network(2, 8, 2), CORNERS, XOR, epochs=2000, rate=0.5, batch=4)
    assert dn.predict(net, CORNERS).tolist() == XOR.tolist() and losses[-1] < 0.05


def test_the_backward_pass_is_the_derivative_of_the_loss():
    assert dn.gradient_error(dn.network(5, 4, 3), *some()) < 1e-6


@pytest.mark.parametrize("name", dn.NAMES)
def test_a_wrong_slope_is_found(name, monkeypatch):
    right = dn.backward

    def wrong(*given):
        loss, slopes = right(*given)
        return loss, slopes | {name: slopes[name] * 1.01}

    monkeypatch.setattr(dn, "backward", wrong)
    assert dn.gradient_error(dn.network(5, 4, 3), *some()) > 1e-3


def test_pytorch_computes_the_same_loss_and_slopes():
    net, (x, y) = dn.network(5, 4, 3), some()
    loss, slopes = dn.backward(net, x, y)
    model = tn.as_torch(net)
    theirs = nn.functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y))
    theirs.backward()
    assert loss == pytest.approx(theirs.item(), abs=1e-12)
    found = [
        model[0].weight.grad.T,
        model[0].bias.grad,
        model[2].weight.grad.T,
        model[2].bias.grad,
    ]
    for name, one in zip(dn.NAMES, found, strict=True):
        np.testing.assert_allclose(slopes[name], one, atol=1e-12)


def test_pytorch_trains_to_the_same_weights():
    net, (x, y) = dn.network(5, 4, 3), some(samples=33)
    ours, losses = dn.train(net, x, y, epochs=5)
    model = tn.as_torch(net)
    theirs = tn.train(model, torch.from_numpy(x), torch.from_numpy(y), epochs=5)
    np.testing.assert_allclose(losses, theirs, atol=1e-10)
    np.testing.assert_allclose(ours["w1_DH"], model[0].weight.detach().T, atol=1e-10)


def test_large_scores_do_not_overflow():
    net, (x, _) = dn.network(5, 4, 3), some()
    assert np.isfinite(dn.forward(net, x * 1e4)[1]).all()


def test_training_leaves_the_network_that_came():
    net, (x, y) = dn.network(5, 4, 3), some()
    before = {name: value.copy() for name, value in net.items()}
    dn.train(net, x, y, epochs=1)
    assert all((net[name] == before[name]).all() for name in net)


def test_a_small_cnn_learns_digits_of_its_own_shape():
    torch.manual_seed(0)
    x, y = torch.rand(30, 64), torch.arange(30) % 10
    model = tn.small_cnn()
    losses = tn.train(model, x, y, epochs=8, rate=0.05, batch=10)
    assert losses[-1] < losses[0] and tn.log_posterior(model, x).shape == (30, 10)


def test_the_count_of_a_network_is_that_by_hand():
    assert tn.counted(tn.as_torch(dn.network(64, 32, 10)), 64) == (
        64 * 32 + 32 + 32 * 10 + 10,
        64 * 32 + 32 * 10,
    )


@pytest.mark.parametrize("y", [[0, 1, 3], [-1, 0, 1], [0, 1]])
def test_labels_that_are_no_classes_are_refused(y):
    with pytest.raises(ValueError, match="from 0 to 2 are needed|one at least is needed"):
        dn.backward(dn.network(5, 4, 3), np.ones((3, 5)), np.array(y))


def test_other_bad_input_is_refused():
    with pytest.raises(ValueError, match="labels from 0 to 1 are needed"):
        dn.perceptron(CORNERS, [0, 1, 2, 0])
    with pytest.raises(ValueError, match="each needs one"):
        dn.network(0, 4, 3)
    with pytest.raises(ValueError, match=r"\(N, 5\) is needed"):
        dn.forward(dn.network(5, 4, 3), np.ones((2, 4)))
    with pytest.raises(ValueError, match="all must be positive"):
        dn.train(dn.network(5, 4, 3), *some(), epochs=0)
    with pytest.raises(ValueError, match="all must be positive"):
        tn.train(tn.small_cnn(), torch.ones(2, 64), torch.zeros(2).long(), rate=0)
    with pytest.raises(ValueError, match="multiple of 4"):
        tn.small_cnn(side=6)


def test_the_perceptron_s_steps_are_those_by_hand():
    # the first pass corrects (1, 1), the second (0, 0), (0, 1) and (1, 1)
    weights, bias, mistakes = dn.perceptron(CORNERS, [0, 0, 0, 1], epochs=2)
    assert (weights.tolist(), bias, mistakes) == ([2, 1], 0, [1, 3])


def test_new_weights_have_the_variance_that_a_relu_needs():
    net = dn.network(200, 300, 10)
    assert net["w1_DH"].var() == pytest.approx(2 / 200, rel=0.05)
    assert net["w2_HC"].var() == pytest.approx(2 / 300, rel=0.1)


def test_a_new_cnn_is_that_of_its_seed_and_leaves_the_clock_of_chance_alone():
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    one, again, other = (tn.small_cnn(seed=seed)[1].weight for seed in (0, 0, 1))
    assert torch.equal(one, again) and not torch.equal(one, other)
    assert torch.equal(torch.rand(1), wanted)


def test_the_count_of_the_cnn_is_that_by_hand():
    assert tn.counted(tn.small_cnn(), 64) == (
        9 * 8 + 8 + 9 * 8 * 16 + 16 + 64 * 10 + 10,
        64 * 9 * 8 + 16 * 9 * 8 * 16 + 64 * 10,
    )


def test_what_training_keeps_of_a_picture_is_that_by_hand():
    # the input; convolution, ReLU and maximum, twice; the classes
    kept = 64 + (512 + 512 + 128) + (256 + 256 + 64) + 10
    assert tn.activations(tn.small_cnn(), 64) == kept
    assert tn.activations(tn.as_torch(dn.network(64, 32, 10)), 64) == 64 + 32 + 32 + 10


def test_a_cnn_is_cut_off_twice():
    assert sum(isinstance(one, nn.ReLU) for one in tn.small_cnn()) == 2


def test_training_on_nothing_is_refused():
    with pytest.raises(ValueError, match="one at least is needed"):
        dn.train(dn.network(5, 4, 3), np.ones((0, 5)), np.zeros(0, dtype=int))
    with pytest.raises(ValueError, match="0 samples, 0 labels"):
        tn.train(tn.small_cnn(), torch.ones(0, 64), torch.zeros(0).long())
    with pytest.raises(ValueError, match="2 samples, 3 labels"):
        tn.train(tn.small_cnn(), torch.ones(2, 64), torch.zeros(3).long())


def test_the_network_s_file_is_readable_by_the_python_of_a_small_board():
    ast.parse(Path(dn.__file__).read_text(encoding="utf-8"), feature_version=(3, 6))
