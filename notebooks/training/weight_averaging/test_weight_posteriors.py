"""The Gaussians have the moments that they promise; the Laplace curvature is autograd's."""

import pytest
import torch
from averaging import recompute_batch_norm
from fashion_task import logits_of, scaled
from loss_plane import weights_of
from predictive_scores import scores
from small_resnet import SmallResNet
from torch.nn import functional as F
from weight_posteriors import (
    PRIORS,
    Laplace,
    Swag,
    curvature,
    dropout_probabilities,
    swag_probabilities,
)


def walk(count=12, size=7):
    drawn = torch.Generator().manual_seed(0)
    return torch.randn(count, size, generator=drawn) * torch.arange(1, size + 1) + 100


def shown(weights, rank=20):
    swag = Swag(rank)
    for one in weights:
        swag.update(one)
    return swag


def few(count=40):
    drawn = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, 1, 28, 28), generator=drawn, dtype=torch.uint8)
    return scaled(pixels, torch.arange(count) % 3)


def test_mean_and_variance_are_those_of_the_weights():
    weights = walk()
    swag = shown(weights)
    torch.testing.assert_close(swag.mean, weights.mean(0))
    torch.testing.assert_close(
        swag.variance, weights.var(0, correction=0), rtol=1e-4, atol=1e-4
    )


def test_a_large_offset_does_not_eat_the_variance():
    """E[w²] - E[w]² in float32 would be all rounding here."""
    weights = walk() / 10 + 5000
    wanted = weights.double().var(0, correction=0).float()
    torch.testing.assert_close(shown(weights).variance, wanted, rtol=0.02, atol=0)


def test_deviations_are_from_the_mean_of_their_moment_and_the_last_are_kept():
    weights = walk(5)
    swag = shown(weights, rank=3)
    wanted = [weights[n] - weights[: n + 1].mean(0) for n in (2, 3, 4)]
    torch.testing.assert_close(
        torch.stack(swag.deviations), torch.stack(wanted), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize("low_rank", [True, False])
def test_samples_have_the_covariance_that_they_should(low_rank):
    swag, drawn = shown(walk()), torch.Generator().manual_seed(1)
    how = {"generator": drawn, "scale": 0.5, "low_rank": low_rank}
    samples = torch.stack([swag.sample(**how) for _ in range(20_000)])
    columns = torch.stack(swag.deviations)
    wanted = torch.diag(swag.variance) + low_rank * columns.T @ columns / (len(columns) - 1)
    spread = wanted.diagonal().sqrt()
    found = samples.T.cov() / 0.5
    # a covariance of 20,000 samples is off by about 1/140 of the product of the deviations
    assert ((found - wanted).abs() / torch.outer(spread, spread)).max() < 0.05
    torch.testing.assert_close(samples.mean(0), swag.mean, atol=0.3, rtol=0)


def test_the_main_directions_are_orthonormal_and_ordered():
    directions, spread = shown(walk()).directions()
    torch.testing.assert_close(directions @ directions.T, torch.eye(2), atol=1e-5, rtol=0)
    assert spread[0] >= spread[1] > 0


def test_the_spread_along_a_direction_is_that_of_the_low_rank_part():
    swag = shown(walk())
    directions, spread = swag.directions()
    columns = torch.stack(swag.deviations)
    covariance = columns.T @ columns / (len(columns) - 1)
    wanted = directions @ covariance @ directions.T
    torch.testing.assert_close(spread.square().diag(), wanted, rtol=1e-4, atol=1e-2)


def test_what_swag_refuses():
    with pytest.raises(ValueError, match="rank is 1"):
        Swag(1)
    swag = shown(walk(1))
    with pytest.raises(ValueError, match="a spread needs two"):
        swag.sample()
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        swag.update(torch.zeros(3))
    before = swag.mean.clone()
    with pytest.raises(ValueError, match="NaN or infinite"):
        swag.update(torch.full((7,), float("nan")))
    assert torch.equal(swag.mean, before) and swag.count == 1


def test_samples_of_equal_weights_predict_as_the_network_with_statistics_of_its_own():
    torch.manual_seed(0)
    model, lent, data = SmallResNet(2, classes=3), SmallResNet(2, classes=3), few()
    lent.norm.running_mean.fill_(3)  # other weights, and statistics of nobody
    swag = shown([weights_of(model)] * 3)
    probs = swag_probabilities(swag, lent, data, data, samples=2)
    recompute_batch_norm(model.eval(), data.batches())
    torch.testing.assert_close(probs, logits_of(model, data).softmax(1), atol=1e-5, rtol=0)


class Table(torch.nn.Module):
    """A network whose weights are its logits, for every picture."""

    def __init__(self):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(3))
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.logits.expand(len(x), 3))


def test_swag_averages_the_probabilities_of_other_weights_each_time():
    """Of weights that are logits: each sample is drawn anew, and no logits are averaged."""
    swag, data = shown(torch.tensor([[3.0, 0, -3], [-3, 0, 3], [0.0, 6, 0], [0, 1, 1]])), few(6)
    drawn = torch.Generator().manual_seed(5)
    samples = torch.stack([swag.sample(generator=drawn) for _ in range(20)])
    assert len(samples.unique(dim=0)) == 20
    wanted = samples.softmax(1).mean(0).expand(6, 3)
    found = swag_probabilities(swag, Table(), data, data, samples=20, seed=5)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
    assert (found - samples.mean(0).softmax(0)).abs().max() > 0.05


def test_mc_dropout_averages_probabilities():
    """With one picture each logit is kept, doubled, or lost: no logits are averaged."""
    torch.manual_seed(0)
    model, data = Table(), few(4)
    with torch.no_grad():
        model.logits.copy_(torch.tensor([2.0, 0, -4]))
    torch.manual_seed(3)
    found = dropout_probabilities(model, data, samples=25)
    torch.manual_seed(3)
    model.dropout.train()
    logits = torch.stack([logits_of(model, data) for _ in range(25)])
    torch.testing.assert_close(found, logits.softmax(2).mean(0), atol=1e-6, rtol=0)
    assert (found - logits.mean(0).softmax(1)).abs().max() > 0.05


def test_mc_dropout_samples_and_leaves_the_mode_of_prediction():
    torch.manual_seed(0)
    model, data = SmallResNet(width=4, classes=3, dropout=0.5), few()
    probs = dropout_probabilities(model, data, samples=30)
    assert not model.training and not model.dropout.training
    plain = logits_of(model, data).softmax(1)
    assert 0 < (probs - plain).abs().max() < 0.5
    with pytest.raises(ValueError, match="no dropout"):
        dropout_probabilities(SmallResNet(width=2), data)


def test_the_curvature_is_the_second_derivative_of_the_loss():
    """For a linear layer the Gauss-Newton matrix is the Hessian."""
    drawn = torch.Generator().manual_seed(0)
    features = torch.randn(11, 4, generator=drawn, dtype=torch.float64)
    weights = torch.randn(3, 4, generator=drawn, dtype=torch.float64)
    labels = torch.arange(11) % 3

    def loss(flat):
        return F.cross_entropy(features @ flat.view(3, 4).T, labels, reduction="sum")

    wanted = torch.autograd.functional.hessian(loss, weights.flatten())
    found = curvature(features, (features @ weights.T).softmax(1))
    torch.testing.assert_close(found, wanted)


def test_a_sampled_last_layer_has_the_curvature_and_the_prior_as_its_precision():
    """One draw, by an explicit inverse in float64."""
    torch.manual_seed(0)
    model, data, prior = SmallResNet(width=2, classes=3).eval(), few(), 4.0
    found = Laplace(model, data).probabilities(data, prior, samples=1, seed=3)
    with torch.no_grad():
        features = torch.cat([model.features(x) for x in data.batches()]).double()
        features = torch.cat([features, torch.ones(40, 1, dtype=torch.float64)], 1)
        weights = torch.cat([model.head.weight, model.head.bias[:, None]], 1).double()
        precision = curvature(features, (features @ weights.T).softmax(1))
        precision += prior * torch.eye(len(precision), dtype=torch.float64)
        drawn = torch.Generator().manual_seed(3)
        z = torch.randn(len(precision), 1, generator=drawn, dtype=torch.float64)
        step = torch.linalg.inv(torch.linalg.cholesky(precision)).T @ z
        wanted = (features @ (weights + step.view_as(weights)).T).softmax(1)
    torch.testing.assert_close(found, wanted)


def test_a_strong_prior_leaves_the_prediction_as_it_was():
    torch.manual_seed(0)
    model, data = SmallResNet(width=2, classes=3).eval(), few()
    plain = logits_of(model, data).softmax(1).detach().double()
    laplace = Laplace(model, data)
    tight = laplace.probabilities(data, 1e14, samples=3)
    torch.testing.assert_close(tight, plain, atol=1e-4, rtol=0)
    loose = laplace.probabilities(data, 0.04, samples=20)
    assert (loose - plain).abs().max() > 1e-2
    again = laplace.probabilities(data, 0.04, samples=20)
    assert torch.equal(loose, again)  # a prior leaves nothing behind


def test_the_prior_is_the_best_on_held_images():
    torch.manual_seed(0)
    model, data = SmallResNet(width=2, classes=3).eval(), few()
    laplace = Laplace(model, data)
    losses = [scores(laplace.probabilities(data, p, 5), data.labels_N).nll for p in PRIORS]
    assert laplace.best_prior(data, 5) == PRIORS[losses.index(min(losses))]


class Surer(Laplace):
    """Says the first class with the more confidence the larger the prior."""

    def __init__(self):
        pass

    def probabilities(self, images, prior, samples):
        first = torch.full((images.count, 1), prior / (1 + prior), dtype=torch.float64)
        return torch.cat([first, 1 - first], 1)


@pytest.mark.parametrize(("label", "best"), [(0, max(PRIORS)), (1, min(PRIORS))])
def test_another_prior_is_chosen_where_held_images_say_so(label, best):
    held = few(4)._replace(labels_N=torch.full((4,), label))
    assert Surer().best_prior(held) == best
