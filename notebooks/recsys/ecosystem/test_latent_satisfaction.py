"""Hidden satisfaction: gradients reach each latent, the story's arithmetic, the estimates."""

import latent_satisfaction as latent
import numpy as np
import pytest
import torch
from array_backends import NumpyBackend, TorchBackend

USERS, STEPS = 4, 5


def backend(seed=0):
    return TorchBackend(seed, dtype=torch.float64)


def truth(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture(scope="module")
def hidden():
    record = latent.draw_log(STEPS, 1, USERS, backend(), truth(0.8))
    return latent.Hidden(latent.repeated(record, 1), USERS), record


def test_the_gradient_with_respect_to_every_latent_equals_finite_differences(hidden):
    about, _ = hidden
    q = about.start(seed=1).requires_grad_(True)
    (slope,) = torch.autograd.grad(about.density(q).sum(), q)
    shift = 1e-5
    for place in range(about.count):
        away = torch.zeros_like(q)
        away[0, place] = shift
        with torch.no_grad():
            ends = about.density(q + away) - about.density(q - away)
        expected = float(ends) / (2 * shift)
        assert abs(expected) > 1e-6
        assert float(slope[0, place]) == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_the_gradient_with_respect_to_the_sensitivity_is_not_zero(hidden):
    _, record = hidden
    for observed in (False, True):
        full = latent.draw_log(STEPS, 1, USERS, backend(1), truth(0.8), observed)
        value = truth(0.6).requires_grad_(True)
        story = latent.satisfaction_story(1, USERS, value, observed)
        score = story.log_probability(full, backend())
        (slope,) = torch.autograd.grad(score, value)
        ends = [
            latent.satisfaction_story(1, USERS, truth(0.6 + by), observed).log_probability(
                full, backend()
            )
            for by in (1e-6, -1e-6)
        ]
        expected = float(ends[0] - ends[1]) / 2e-6
        assert abs(expected) > 0.01
        assert float(slope) == pytest.approx(expected, rel=1e-4)


def test_a_record_s_satisfaction_is_no_evidence(hidden):
    about, record = hidden
    story = latent.satisfaction_story(1, USERS, truth(0.8))
    lies = record | {"user.satisfaction": [one + 9 for one in record["user.satisfaction"]]}
    assert story.log_probability(record, backend()) == story.log_probability(lies, backend())


def test_satisfaction_moves_as_stated():
    sensitivity, record = 0.7, latent.draw_log(4, 1, 2, NumpyBackend(0), np.array([0.7]))
    intent = record["user.intent"][0][0]
    level, seen = np.full(2, 5.0), np.zeros(2)
    for step in range(1, 4):
        slate = record["recommender.slate"][step - 1][0]
        far = np.sqrt(((intent[:, None] - slate) ** 2).sum(-1) + latent.SMOOTH)
        best = (2 - far).max(-1)
        level = sensitivity * level + best - seen + 0.1 * record["user.shock"][step][0]
        seen = best
        np.testing.assert_allclose(record["user.satisfaction"][step][0], level)


def test_both_back_ends_tell_and_score_the_same_log():
    plain = latent.draw_log(4, 2, 3, NumpyBackend(3))
    fast = latent.draw_log(4, 2, 3, TorchBackend(dtype=torch.float64, noise=NumpyBackend(3)))
    for name in plain:
        for one, two in zip(plain[name], fast[name], strict=True):
            np.testing.assert_allclose(one, two, atol=1e-12)
    story = latent.satisfaction_story(2, 3)
    scores = (
        story.log_probability(plain, NumpyBackend(0), 1),
        story.log_probability(fast, backend(), 1),
    )
    np.testing.assert_allclose(*scores)


def test_packing_keeps_every_number(hidden):
    about, record = hidden
    q = torch.arange(about.count, dtype=torch.float64)[None]
    found = about.unpacked(q)
    parts = [
        found["population.logit"].ravel(),
        found["user.intent"].ravel(),
        found["user.shock"].ravel(),
    ]
    assert torch.equal(torch.cat(parts), q[0])
    assert [tuple(found[name].shape) for name in ("user.intent", "user.shock")] == [
        (1, 4, 3),
        (1, 4, 4),
    ]


def test_the_density_of_the_true_latents_is_the_score_of_the_record():
    record = latent.draw_log(4, 1, 3, backend(5))
    parts = [record["population.logit"][0], record["user.intent"][0].ravel()]
    q = torch.cat([*parts, torch.stack(record["user.shock"][1:], 1).ravel()])[None]
    score = latent.satisfaction_story(1, 3).log_probability(record, backend(), leading=1)
    torch.testing.assert_close(latent.Hidden(record, 3).density(q), score)


def test_a_log_with_satisfaction_gives_the_sensitivity_away():
    values = truth(0.3, 0.8)
    record = latent.draw_log(8, 2, 30, backend(4), values, observed=True)
    found, error = latent.likeliest(record, 30)
    assert ((found - values).abs() < 4 * error).all() and (error < 0.01).all()


def test_the_likeliest_is_where_the_score_is_highest():
    record = latent.draw_log(6, 1, 10, backend(4), truth(0.5), observed=True)
    found, error = latent.likeliest(record, 10)

    def score(value):
        return float(
            latent.satisfaction_story(1, 10, value, True).log_probability(record, backend())
        )

    ends = score(found + 0.002), score(found - 0.002)
    assert score(found) > max(ends)
    bend = (2 * score(found) - sum(ends)) / 0.002**2  # the information that the log observed
    assert float(error) == pytest.approx(bend**-0.5, rel=0.01)


def test_a_log_of_one_step_says_nothing_of_the_sensitivity():
    record = latent.draw_log(2, 1, 3, backend(), truth(0.5), observed=True)
    flat = {name: values[:1] for name, values in record.items()}
    with pytest.raises((ValueError, RuntimeError), match="flat|does not require grad|unused"):
        latent.likeliest(flat, 3)


def test_expectation_maximisation_settles_near_the_truth_from_either_side():
    record = latent.draw_log(7, 2, 30, backend(2), truth(0.45, 0.85))
    log = latent.repeated(record, 2)
    paths = [
        latent.expectation_maximisation(log, 30, 5, 2, start=start, chains=2)
        for start in (0.3, 0.95)
    ]
    for path in paths:
        assert ((path[-2:].mean(0) - truth(0.45, 0.85)).abs() < 0.15).all()
        assert (path[-1] - path[-2]).abs().max() < 0.1  # settled, not stepping back and forth
    assert (paths[0][-2:] - paths[1][-2:]).mean(0).abs().max() < 0.1


def test_plain_maximum_likelihood_climbs_where_expectation_maximisation_does():
    record = latent.draw_log(7, 2, 20, backend(2), truth(0.45, 0.85))
    log, told = latent.repeated(record, 2), {"moves": 1, "chains": 2}
    plain = latent.expectation_maximisation(log, 20, 9, rate=0.5, **told)
    other = latent.expectation_maximisation(log, 20, 4, **told)
    assert (plain[-4:].mean(0) - other[-2:].mean(0)).abs().max() < 0.12
    assert float((torch.logit(plain[1]) - torch.logit(plain[0])).abs().max()) < 0.51  # a rate


def test_a_step_of_maximisation_weighs_all_chains_alike(hidden, monkeypatch):
    _, record = hidden
    log, ends = latent.repeated(record, 3), []
    draws = latent.Hidden(log, USERS, truth(0.5, 0.5, 0.5)).start(seed=3, spread=0.5)[None]
    for order in ([0, 1, 2], [2, 0, 1]):
        found = latent.hamiltonian.Samples(draws[:, order], None, 0.1, None, 0)
        monkeypatch.setattr(latent.hamiltonian, "sample", lambda *_, found=found, **__: found)
        path = latent.expectation_maximisation(log, USERS, 1, 1, start=0.7, chains=3)
        ends.append(float(path[-1]))
    assert ends[0] == pytest.approx(ends[1], abs=1e-12)
    assert 0.01 < ends[0] - 0.7 < 0.15  # a step that was not cut


def test_rows_of_logs_and_chains_must_agree():
    log = latent.repeated(latent.draw_log(3, 1, 2, backend(), truth(0.5)), 3)
    with pytest.raises(ValueError, match="no multiple of 2"):
        latent.expectation_maximisation(log, 2, chains=2)


def test_clicks_alone_sum_what_was_taken_beside_what_was_shown():
    slate = torch.arange(24.0).reshape(1, 2, 4, 3)
    record = {"recommender.slate": [slate, slate]}
    record["user.choice"] = [torch.tensor([[1, 4]]), torch.tensor([[0, 4]])]
    found = latent.sum_taken(record)
    assert found.tolist() == [[[-6.0, -6.0, -6.0], [0.0, 0.0, 0.0]]]  # −1.5 and −4.5 each


def test_the_posterior_is_sampled_by_the_step_that_is_handed_in(hidden, monkeypatch):
    about, asked = hidden[0], {}
    monkeypatch.setattr(latent.hamiltonian, "sample", lambda *_, **how: asked.update(how))
    latent.posterior(about.log, USERS, 2, 3, 4, leap="a step")
    assert (asked["leap"], asked["leapfrogs"], asked["warmup"]) == ("a step", 4, 3)


def test_the_posterior_knows_more_than_the_prior(hidden):
    record = latent.draw_log(6, 1, 12, backend(2), truth(0.85))
    about, found = latent.posterior(latent.repeated(record, 6), 12, 24, 40, 4)
    drawn = torch.sigmoid(found.draws[..., 0])
    assert found.draws.shape == (24, 6, about.count)
    assert drawn.std() < 0.1 and abs(drawn.mean() - 0.85) < 0.15
