"""The sampler: known densities, energy, tuning, diagnostics with known answers, bad input."""

import hamiltonian as hmc
import latent_satisfaction as latent
import numpy as np
import pytest
import torch
from array_backends import TorchBackend

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]


def normal(scales):
    return lambda q: -0.5 * (q / torch.tensor(scales, dtype=q.dtype)).square().sum(-1)


def test_means_and_deviations_of_a_correlated_normal():
    root = torch.tensor([[1.0, 0.0], [1.8, 0.6]], dtype=torch.float64)  # correlation 0.95
    precision = torch.linalg.inv(root @ root.T)
    centre = torch.tensor([3.0, -50.0], dtype=torch.float64)

    def density(q):
        away = q - centre
        return -0.5 * ((away @ precision) * away).sum(-1)

    start = centre + torch.zeros(8, 2, dtype=torch.float64)
    found = hmc.sample(density, start, 400, warmup=200, leapfrogs=10)
    error = 4 * (torch.diag(root @ root.T) / hmc.effective_size(found.draws)).sqrt()
    assert ((found.draws.mean((0, 1)) - centre).abs() < error).all()
    got = np.cov(found.draws.reshape(-1, 2).T.numpy())
    np.testing.assert_allclose(got, root @ root.T, rtol=0.15)
    assert hmc.split_r_hat(found.draws).max() < 1.02 and found.divergences == 0


@pytest.mark.parametrize("device", DEVICES)
def test_scales_far_apart_are_found_in_the_warm_up(device):
    scales = [0.1, 1.0, 5.0]
    start = torch.zeros(4, 3, device=device)
    density = lambda q: -0.5 * (q / torch.tensor(scales, device=device)).square().sum(-1)  # noqa: E731
    found = hmc.sample(density, start, 1, warmup=300, leapfrogs=8)
    ratio = found.variance.cpu().sqrt() / torch.tensor(scales)  # slow directions come out short
    assert ((ratio > 0.4) & (ratio < 1.6)).all()


def test_a_skewed_density_keeps_its_mean():
    """ln of a gamma variable of shape 3 and rate 1 has mean 0.9228 and variance 0.3949."""
    found = hmc.sample(
        lambda q: (3 * q - q.exp()).sum(-1),
        torch.zeros(8, 1, dtype=torch.float64),
        500,
        leapfrogs=5,
    )
    count = hmc.effective_size(found.draws)
    assert found.draws.mean() == pytest.approx(0.92278, abs=float(4 * (0.3949 / count) ** 0.5))
    assert found.draws.var() == pytest.approx(0.3949, rel=0.12)


def test_the_share_of_moves_taken_comes_near_its_target_and_sets_the_step():
    start = torch.zeros(8, 20)
    found = hmc.sample(normal([1.0] * 20), start, 100, leapfrogs=4)
    assert 0.7 < float(found.accepted.mean()) < 0.97  # a short warm-up errs to the safe side
    assert (
        hmc.sample(normal([1.0] * 20), start, 1, leapfrogs=4, target=0.95).step_size
        < found.step_size
    )


@pytest.mark.parametrize("widths", [(300.0, 1.0), (1.0, 300.0)])
def test_the_step_suits_all_chains_and_not_one(widths):
    """A step for the wide chain alone would leave the narrow one where it is."""
    scale = torch.tensor(widths)
    density = lambda q: -0.5 * (q[:, 0] / scale).square()  # noqa: E731
    found = hmc.sample(density, torch.zeros(2, 1), 100, warmup=150, leapfrogs=3)
    assert 0.65 < float(found.accepted.mean()) < 0.95


def test_leapfrog_loses_energy_with_the_square_of_its_step():
    lost, ones = [], torch.ones(1, dtype=torch.float64)
    density = lambda q: -(q**4).sum(-1)  # noqa: E731
    q = torch.full((1, 1), 0.7, dtype=torch.float64)
    for steps in (10, 20, 40):
        noise = torch.Generator().manual_seed(6)
        place, leap = (q, *hmc._with_slope(density)(q)), hmc.plain(density)
        _, chance, _ = hmc._move(leap, place, ones / steps, ones, steps, noise)
        lost.append(-float(chance.log()))
    assert lost[0] > 0 and lost[0] / lost[1] == pytest.approx(4, rel=0.2)
    assert lost[1] / lost[2] == pytest.approx(4, rel=0.2)


def test_equal_seeds_draw_the_same_and_others_do_not():
    draws = [
        hmc.sample(normal([1.0]), torch.zeros(2, 1), 20, warmup=20, seed=seed).draws
        for seed in (1, 1, 2)
    ]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])


def test_chains_take_their_moves_independently():
    start = torch.zeros(2, 40, dtype=torch.float64)
    found = hmc.sample(normal([1.0] * 40), start, 400, warmup=0, leapfrogs=3, step_size=0.95)
    moved = (found.draws[1:] != found.draws[:-1]).any(-1).double()
    assert 0.2 < moved.mean() < 0.9
    assert abs(np.corrcoef(moved.T.numpy())[0, 1]) < 0.25


def test_who_is_refused_keeps_place_density_and_slope_and_who_moves_takes_the_new_ones():
    """A step that suits a wide density is far too long for a narrow one."""
    scale = torch.tensor([1e3, 1e-3], dtype=torch.float64)
    density = lambda q: -0.5 * (q[:, 0] / scale).square()  # noqa: E731
    slope, noise = hmc._with_slope(density), torch.Generator().manual_seed(0)
    q = torch.tensor([[1.0], [1e-3]], dtype=torch.float64)
    told = q.new_tensor(1.0), torch.ones_like(q[0]), 3, noise
    (new, *known), chance, _ = hmc._move(hmc.plain(density), (q, *slope(q)), *told)
    assert chance[0] > 0.99 and chance[1] == 0
    assert new[0] != q[0] and new[1] == q[1]
    for one, wanted in zip(known, slope(new), strict=True):
        torch.testing.assert_close(one, wanted)


def test_an_orbit_that_would_close_is_broken_by_steps_that_vary():
    """Ten steps of 2π/10 bring a unit normal back to where it began, nearly."""
    found = hmc.sample(normal([1.0]), torch.ones(4, 1), 200, warmup=0, step_size=0.62)
    assert found.draws.std() > 0.5 and hmc.effective_size(found.draws).min() > 20


def test_a_move_into_the_impossible_is_refused():
    def half(q):
        return torch.where(q[:, 0] > 0, -q[:, 0], torch.tensor(-torch.inf))

    found = hmc.sample(half, torch.ones(4, 1), 200, warmup=50, leapfrogs=3)
    assert (found.draws > 0).all() and found.divergences > 0


def test_independent_draws_are_worth_themselves():
    draws = torch.randn(1000, 4, 3, generator=torch.Generator().manual_seed(0))
    assert hmc.effective_size(draws).mean() == pytest.approx(4000, rel=0.15)
    assert (hmc.split_r_hat(draws) - 1).abs().max() < 0.01


def test_an_autoregression_is_worth_less_by_the_known_factor():
    noise = torch.randn(
        8000, 4, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    draws, rho = torch.zeros_like(noise), 0.8
    for n in range(1, 8000):
        draws[n] = rho * draws[n - 1] + noise[n]
    expected = 32_000 * (1 - rho) / (1 + rho)
    assert float(hmc.effective_size(draws)) == pytest.approx(expected, rel=0.15)


def test_alternating_draws_are_worth_no_more_than_the_logarithm_allows():
    draws = torch.ones(100, 2, 1)
    draws[::2] = -1
    draws += 0.1 * torch.randn(100, 2, 1, generator=torch.Generator().manual_seed(0))
    assert float(hmc.effective_size(draws)) == pytest.approx(200 * np.log10(200))


def test_effective_size_equals_plain_loops():
    draws = torch.randn(60, 2, 1, generator=torch.Generator().manual_seed(2)).double().numpy()
    for n in range(1, 60):
        draws[n] += 0.5 * draws[n - 1]
    halves = [half[:, 0] for chain in (0, 1) for half in (draws[:30, chain], draws[30:, chain])]
    within = np.mean([half.var(ddof=1) for half in halves])
    pooled = within * 29 / 30 + np.var([half.mean() for half in halves], ddof=1)
    total, lowest = 0.0, np.inf
    for lag in range(0, 30, 2):
        pair = 0.0
        for k in (lag, lag + 1):
            away = [half - half.mean() for half in halves]
            covariance = np.mean([(one[: 30 - k] * one[k:]).sum() / 30 for one in away])
            pair += 1 if k == 0 else 1 - (within - covariance) / pooled
        if pair <= 0:
            break
        lowest = min(lowest, pair)
        total += lowest
    got = float(hmc.effective_size(torch.tensor(draws)))
    assert got == pytest.approx(120 / (2 * total - 1))


def test_a_density_that_is_no_number_is_a_move_refused():
    def root(q):
        return -q[:, 0].sqrt() - q[:, 0]

    found = hmc.sample(root, torch.ones(4, 1), 100, warmup=20, leapfrogs=3)
    assert (found.draws > 0).all() and torch.isfinite(found.accepted).all()
    assert found.divergences > 0


def test_r_hat_sees_chains_and_halves_that_differ():
    draws = torch.randn(200, 2, 2, generator=torch.Generator().manual_seed(0))
    draws[:, 1, 0] += 3
    draws[100:, :, 1] += 3
    assert (hmc.split_r_hat(draws) > 1.5).all()


def test_a_start_of_one_axis_is_one_chain():
    start = torch.tensor([1.0, -2.0], dtype=torch.float64)
    found, same = (
        hmc.sample(normal([1.0, 2.0]), q, 20, warmup=20, leapfrogs=3)
        for q in (start, start[None])
    )
    assert found.draws.shape == (20, 1, 2) and torch.equal(found.draws, same.draws)


def test_a_compiled_step_is_the_plain_one():
    """`aot_eager` compiles without a C++ compiler: what is tested is the trace."""
    shift = torch.tensor([[0.3], [-0.2]], dtype=torch.float64)  # each chain has its own density
    density = lambda q: -((q - shift) ** 4).sum(-1) - 0.5 * (q * q).sum(-1)  # noqa: E731
    noise = torch.Generator().manual_seed(0)
    q, p, gradient = torch.randn(3, 2, 5, generator=noise, dtype=torch.float64)
    told = q, p, gradient, q.new_tensor(0.2), torch.linspace(0.5, 2, 5, dtype=torch.float64)
    leap = hmc.compiled(density, torch.zeros_like(q), backend="aot_eager")
    for one, other in zip(leap(*told), hmc.plain(density)(*told), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    plain, fast = (
        hmc.sample(density, q, 15, warmup=15, leapfrogs=4, leap=one) for one in (None, leap)
    )
    torch.testing.assert_close(plain.draws, fast.draws)


def test_the_step_that_is_handed_in_takes_every_step():
    density, calls = normal([1.0, 2.0]), []

    def counted(*told):
        calls.append(1)
        return hmc.plain(density)(*told)

    hmc.sample(density, torch.zeros(2, 2), 5, warmup=3, leapfrogs=4, leap=counted)
    assert len(calls) == (5 + 3) * 4


def test_the_story_s_density_compiles_with_its_gradient():
    noise = TorchBackend(0, dtype=torch.float64)
    log = latent.repeated(latent.draw_log(3, 1, 2, noise), 2)
    about = latent.Hidden(log, 2)
    q = about.start(seed=1, spread=0.5)
    told = q, 0.1 * q, q, q.new_tensor(0.1), torch.ones_like(q[0])
    leap = hmc.compiled(about.density, about.start(), backend="aot_eager")
    for one, other in zip(leap(*told), hmc.plain(about.density)(*told), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


START = torch.zeros(2, 3)
BAD = [
    ({"start": torch.zeros(1, 2, 3)}, "floats \\(C, Q\\) or \\(Q,\\)"),
    ({"start": torch.zeros(())}, "floats \\(C, Q\\)"),
    ({"start": torch.zeros(0)}, "floats \\(C, Q\\)"),
    ({"start": torch.zeros(2, 3, dtype=torch.int64)}, "floats"),
    ({"steps": 0}, "steps=0"),
    ({"leapfrogs": 2.5}, "leapfrogs=2.5"),
    ({"warmup": -1}, "warmup=-1"),
    ({"target": 1.0}, "target=1.0"),
    ({"variance": torch.ones(2)}, "above zero"),
    ({"log_density": lambda q: q.sum(-1) / 0}, "finite"),
    ({"log_density": lambda q: q.sum()[None]}, "finite"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_what_cannot_be_sampled_is_refused(change, message):
    told = {"log_density": normal([1.0, 1.0, 1.0]), "start": START, "steps": 3}
    with pytest.raises(ValueError, match=message):
        hmc.sample(**told | change)


def test_three_draws_are_too_few_to_judge():
    with pytest.raises(ValueError, match="four or more"):
        hmc.effective_size(torch.zeros(3, 1, 1))
