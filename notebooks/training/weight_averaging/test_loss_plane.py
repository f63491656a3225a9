"""Lines, planes and curves pass through their points; a trained curve avoids the hill."""

import math

import pytest
import torch
from averaging import recompute_batch_norm
from fashion_task import scaled
from loss_plane import (
    along,
    bend,
    bezier,
    blend_statistics,
    judge,
    plane_rows,
    plane_through,
    set_weights,
    sharpness,
    walk,
    weights_of,
)
from torch import nn


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(16, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2)
    )


def data(count=64):
    drawn = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    pixels = torch.randint(0, 200, (count, 1, 4, 4), generator=drawn)
    return scaled((pixels + 50 * labels[:, None, None, None]).to(torch.uint8), labels)


def test_weights_go_out_and_in_again():
    first, second = network(0), network(1)
    set_weights(second, weights_of(first))
    for ours, theirs in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(ours, theirs) and ours.data_ptr() != theirs.data_ptr()
    with pytest.raises(ValueError, match=r"shape \(3,\); the model has 128 weights"):
        set_weights(first, torch.zeros(3))


def test_the_plane_holds_its_three_points():
    drawn = torch.Generator().manual_seed(0)
    points = [torch.randn(50, generator=drawn) for _ in range(3)]
    axes = plane_through(*points)
    torch.testing.assert_close(axes @ axes.T, torch.eye(2), atol=1e-5, rtol=0)
    for point in points:
        x, y = axes @ (point - points[0])
        again = points[0] + x * axes[0] + y * axes[1]
        torch.testing.assert_close(again, point, atol=1e-4, rtol=0)
    assert (axes @ (points[1] - points[0]))[1].abs() < 1e-4  # the second lies on the first axis


def test_points_on_a_line_span_no_plane():
    one, two = torch.zeros(5), torch.ones(5)
    with pytest.raises(ValueError, match="lie on one line"):
        plane_through(one, two, 3 * two)
    with pytest.raises(ValueError, match="are the same"):
        plane_through(one, one, two)


def test_a_curve_begins_and_ends_where_it_should():
    first, middle, second = torch.zeros(3), torch.full((3,), 7.0), torch.ones(3)
    assert torch.equal(bezier(first, middle, second, 0), first)
    assert torch.equal(bezier(first, middle, second, 1), second)
    straight = bezier(first, (first + second) / 2, second, 0.25)
    torch.testing.assert_close(straight, torch.full((3,), 0.25))
    with pytest.raises(ValueError, match="t is 1.5"):
        bezier(first, middle, second, 1.5)


def test_a_bent_curve_has_less_loss_in_its_middle():
    model, points = network(), data()
    ends = weights_of(network(1)), weights_of(network(2))
    middle = bend(model, *ends, points, epochs=10, rate=0.1, batch=16)
    straight, bent = (bezier(ends[0], m, ends[1], 0.5) for m in (sum(ends) / 2, middle))
    (before, _), (after, _) = along(model, [straight, bent], points, points)
    assert after < before


def test_a_curve_is_bent_by_points_of_all_of_it(monkeypatch):
    shares = []
    noted = lambda *given: shares.append(given[3]) or bezier(*given)  # noqa: E731
    monkeypatch.setattr("loss_plane.bezier", noted)
    ends = weights_of(network(1)), weights_of(network(2))
    bend(network(), *ends, data(), epochs=10, batch=16)
    assert len(shares) == 10 * 4  # uniform numbers, of which one in ten lies near each end
    assert min(shares) < 0.15 and max(shares) > 0.85
    assert sum(shares) / len(shares) == pytest.approx(0.5, abs=4 * 0.29 / 40**0.5)


def test_each_point_is_judged_with_statistics_of_its_own():
    model, points = network(), data()
    weights = weights_of(model)
    stale = judge(set_weights(model, 3 * weights).eval(), points)
    (fresh,) = along(model, [3 * weights], points, points, points)
    assert stale != tuple(fresh[:2]) and fresh[:2] == fresh[2:]
    recompute_batch_norm(model, points.batches())
    assert judge(model, points) == pytest.approx(tuple(fresh[:2]))


def test_the_judge_counts():
    model, points = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), data(10)
    model[1].weight.data.zero_()
    model[1].bias.data.copy_(torch.tensor([1.0, 0.0]))
    loss, accuracy = judge(model, points)
    assert accuracy == 0.5
    assert loss == pytest.approx(0.5 * (0.3132617 + 1.3132617), rel=1e-5)  # log(1 + 1/e), + 1


def test_the_rows_of_a_plane_are_those_of_their_points():
    """Whoever looks tells each point's place, as losses."""
    weights = [weights_of(network(seed)) for seed in range(3)]
    axes = plane_through(*weights)

    def look(points, statistics, train, test):
        assert (statistics, train, test) == ("train", "train", "test")
        return [(*(axes @ (point - weights[0])).tolist(), 0.0, 1.0) for point in points]

    found = plane_rows(look, ("train", "test"), [*weights, sum(weights) / 3], side=3)
    rows, spots = found["curve_plane"], found["curve_spots"]
    assert len(rows["x"]) == 9 and len(spots["x"]) == 4 and len(set(rows["x"])) == 3
    assert min(rows["x"]) < min(spots["x"]) and max(rows["y"]) > max(spots["y"])
    assert rows["train_loss"] == pytest.approx(rows["x"], abs=1e-3)
    assert rows["train_accuracy"] == pytest.approx(rows["y"], abs=1e-3)


class Bowl(nn.Module):
    """A network whose two filters alone decide: its loss is least where they are the first."""

    def __init__(self, scale=1.0):
        super().__init__()
        self.filters = nn.Parameter(torch.eye(2).repeat(1, 8) * scale)

    def forward(self, x):
        return 4 * nn.functional.normalize(x.flatten(1) @ self.filters.T, dim=1)


def test_sharpness_is_the_mean_rise_of_the_loss_for_filters_moved_by_a_share_of_their_length():
    model, points, found = Bowl(), data(), []
    torch.manual_seed(0)
    at = judge(model, points)[0]
    drawn = torch.Generator().manual_seed(3)
    torch.randn(2, 16, generator=drawn)  # of the network as it is
    for _ in range(4):
        step = torch.randn(2, 16, generator=drawn)
        step = 0.3 * step / step.norm(dim=1, keepdim=True) * 8**0.5  # each filter's length
        moved = Bowl()
        moved.filters.data += step
        found.append(judge(moved, points)[0] - at)
    assert sharpness(model, points, size=0.3, draws=4, seed=3) == pytest.approx(
        sum(found) / 4, abs=1e-5
    )
    assert torch.equal(model.filters, Bowl().filters)  # the model stays


def test_sharpness_moves_every_filter_by_its_share_and_no_vector(monkeypatch):
    seen = []
    noted = lambda model, _: seen.append([one.clone() for one in model.parameters()]) or (0, 1)  # noqa: E731
    monkeypatch.setattr("loss_plane.judge", noted)
    sharpness(network(), data(), size=0.5, draws=1)
    for own, still, moved in zip(network().parameters(), *seen, strict=True):
        assert torch.equal(own, still)
        rows = [one.detach().reshape(len(own), -1).norm(dim=1) for one in (moved - own, own)]
        torch.testing.assert_close(rows[0], (0.5 if own.dim() > 1 else 0.0) * rows[1])


def test_sharpness_does_not_count_a_scale_that_a_batch_norm_undoes():
    model, points = network(), data()
    larger = network()
    larger[1].weight.data *= 7
    larger[1].bias.data *= 7
    own, other = sharpness(model, points), sharpness(larger, points)
    assert own == pytest.approx(other, rel=0.02, abs=1e-4) and own != 0  # eps of a batch norm
    assert sharpness(model, points, size=1e-9) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("share", "counts"), [(0.25, 0.25), (-0.5, 0), (1.5, 1)])
def test_statistics_are_blended_by_the_share_and_never_beyond_the_ends(share, counts):
    model, first, second = (network(seed) for seed in range(3))
    for own, value in ((first, 2.0), (second, 10.0)):
        own[2].running_mean.fill_(value)
        own[2].running_var.fill_(value)
    blend_statistics(model, first, second, share)
    for found in (model[2].running_mean, model[2].running_var):
        assert found.tolist() == pytest.approx([2 + 8 * counts] * 6)


def test_a_walk_starts_and_ends_with_the_networks_as_they_are():
    first, second, points = network(0), network(1), data()
    for model in (first, second):
        recompute_batch_norm(model, points.batches())
    found = walk(first.eval(), second.eval(), [-0.5, 0, 0.5, 1], points, points)
    for kind in ("average", "recomputed"):
        assert found[kind][1] == pytest.approx(judge(first, points), rel=1e-5)
    for rows in found.values():
        assert rows[3] == pytest.approx(judge(second, points), rel=1e-5) and len(rows) == 4
    assert found["last"][1] != pytest.approx(found["average"][1])
    assert all(math.isfinite(value) for rows in found.values() for row in rows for value in row)
