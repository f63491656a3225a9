"""Allocation against its closed form and a search; variances against what is known of
estimators.
"""

import allocation
import path_tracing
import pytest
import rooms
import torch


def test_no_other_shares_leave_less():
    variances, seconds = [3.0, 0.5], [1.0, 4.0]
    best = allocation.best_shares(variances, seconds)
    least = allocation.variance_left(variances, seconds, best, 10.0)
    others = [
        allocation.variance_left(variances, seconds, [i / 100, 1 - i / 100], 10.0)
        for i in range(1, 100)
    ]
    assert least <= min(others) * (1 + 1e-12)


def test_the_least_is_the_closed_form():
    variances, seconds = [3.0, 0.5], [1.0, 4.0]
    least = allocation.variance_left(
        variances, seconds, allocation.best_shares(variances, seconds), 2.0
    )
    assert least == pytest.approx((3**0.5 + 2**0.5) ** 2 / 2)


def test_where_nothing_varies_shares_are_equal():
    assert allocation.best_shares([0.0, 0.0], [1.0, 2.0]) == [0.5, 0.5]


@pytest.mark.parametrize("samples", [1, 4])
def test_the_variance_of_a_sample_does_not_depend_on_how_many_are_taken(samples):
    noise = torch.randn(400, samples, 8, 8, 3, generator=torch.Generator().manual_seed(0))
    assert allocation.sample_variance(2 * noise.mean(1), samples) == pytest.approx(4, rel=0.03)


def test_drawing_a_small_lamp_varies_less_than_waiting_for_it():
    scene = rooms.cornell_box(8, 8)
    lamp, waiting = (
        allocation.measure(scene, path_tracing.Options(estimator), 1, 8, range(6))[1]
        for estimator in ("lamp", "bsdf")
    )
    assert lamp < waiting / 3


def test_over_glossy_plates_both_together_vary_less_than_either():
    scene = rooms.glossy_plates(16, 16)
    lamp, waiting, both = (
        allocation.measure(scene, path_tracing.Options(estimator), 1, 8, range(8))[1]
        for estimator in ("lamp", "bsdf", "multiple")
    )
    assert both < 0.9 * min(lamp, waiting)


def test_the_pilot_draws_each_kind_alone_by_drawn_lamps(monkeypatch):
    def measure(scene, options, depth, samples, seeds):
        assert options.estimator == "lamp" and (scene, samples, seeds) == ("room", 3, [8, 9])
        kind = {(1, 1): (2.0, 0.0, 1.0), (6, 2): (0.0, 7.0, 4.0)}
        direct, indirect, seconds = kind[depth, options.gather_from]
        return allocation.Measured(0.0, direct, indirect, direct + indirect, seconds)

    monkeypatch.setattr(allocation, "measure", measure)
    assert allocation.pilot("room", 6, 3, [8, 9]) == ([2.0, 7.0], [1.0, 4.0])


def test_direct_and_indirect_light_drawn_apart_are_the_whole():
    scene = rooms.cornell_box(8, 8)
    apart = torch.stack([allocation.split(scene, (16, 16), 3, seed) for seed in range(8)])
    whole = torch.stack(
        [path_tracing.render_orders(scene, 16, 3, seed=seed)[1:].sum(0) for seed in range(8)]
    )
    means = [one.mean((1, 2, 3)) for one in (apart, whole)]
    error = sum(float(one.var()) / 8 for one in means) ** 0.5
    assert abs(float(means[0].mean() - means[1].mean())) < 5 * error
    only = path_tracing.Options("lamp", gather_from=2)
    assert not path_tracing.render_orders(scene, 2, 3, only)[:2].any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: allocation.best_shares([1.0], [1.0, 2.0]), "1 variances and 2 costs"),
        (lambda: allocation.best_shares([-1.0], [1.0]), "at least 0"),
        (lambda: allocation.variance_left([1.0], [1.0], [0.0], 1.0), "no sample"),
        (lambda: allocation.sample_variance(torch.ones(1, 1, 1, 3), 1), "1 pictures"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
