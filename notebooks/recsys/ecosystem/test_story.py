"""The runtime: orders, records, scores that compute again, templates, bad stories."""

import numpy as np
import pytest
import torch
from array_backends import NumpyBackend, TorchBackend, distances
from behaviour_models import (
    Choice,
    Mixture,
    Normal,
    fading,
    linear_gaussian,
    or_nothing,
    static,
)
from scipy import stats
from story import Entity, Story, Variable

BACKENDS = [NumpyBackend(0), TorchBackend(0, dtype=torch.float64)]


def walk(scale=1.0, drift=0.5):
    """A random walk that is doubled on the way to be seen."""
    start = Variable("place", lambda backend: Normal(backend.array(np.zeros(3)), scale), None)
    moved = Variable(
        "place", start.initial, lambda place_before: Normal(drift * place_before, scale)
    )
    seen = Variable("seen", lambda place: 2 * place, lambda place: 2 * place)
    heard = lambda walker_seen: Normal(walker_seen, 1.0)  # noqa: E731
    return Story(
        Entity("walker", (moved, seen)), Entity("ear", (Variable("note", heard, heard),))
    )


@pytest.mark.parametrize("backend", BACKENDS, ids=["numpy", "torch"])
def test_the_score_is_the_sum_of_closed_forms(backend):
    record = walk().simulate(4, backend)
    place, note = (
        np.stack([np.asarray(x) for x in record[n]]) for n in ("walker.place", "ear.note")
    )
    expected = stats.norm(0, 1).logpdf(place[0]).sum()
    expected += stats.norm(0.5 * place[:-1], 1).logpdf(place[1:]).sum()
    expected += stats.norm(2 * place, 1).logpdf(note).sum()
    assert float(walk().log_probability(record, backend)) == pytest.approx(expected)


def test_a_score_computes_again_what_is_computed():
    backend = NumpyBackend(0)
    record = walk().simulate(4, backend)
    lies = record | {"walker.seen": [one + 100 for one in record["walker.seen"]]}
    bare = {name: record[name] for name in ("walker.place", "ear.note")}
    scores = [walk().log_probability(one, backend) for one in (record, lies, bare)]
    assert scores[0] == scores[1] == scores[2]


def test_the_gradient_passes_through_what_is_computed():
    backend = TorchBackend(0, dtype=torch.float64)
    record = walk().simulate(3, backend)
    place = [one.clone().requires_grad_(True) for one in record["walker.place"]]
    score = walk().log_probability(record | {"walker.place": place}, backend)
    slopes = torch.autograd.grad(score, place)
    shift, bare = 1e-5, torch.stack(record["walker.place"])
    for step, axis in ((0, 0), (1, 2), (2, 1)):
        ends = []
        for sign in (1, -1):
            moved = bare.clone()
            moved[step, axis] += sign * shift
            ends.append(walk().log_probability(record | {"walker.place": [*moved]}, backend))
        slope = float((ends[0] - ends[1]) / (2 * shift))
        assert abs(slope) > 1e-3
        assert float(slopes[step][axis]) == pytest.approx(slope, rel=1e-6)


def test_leading_axes_keep_their_own_scores():
    def story(worlds):
        first = lambda backend: Normal(backend.array(np.zeros((worlds, 2))), 1.0)  # noqa: E731
        then = lambda x_before: Normal(x_before, 1.0)  # noqa: E731
        return Story(Entity("a", (Variable("x", first, then),)))

    record = story(3).simulate(5, NumpyBackend(1))
    together = story(3).log_probability(record, NumpyBackend(0), leading=1)
    alone = [
        story(1).log_probability(
            {"a.x": [x[w : w + 1] for x in record["a.x"]]}, NumpyBackend(0)
        )
        for w in range(3)
    ]
    np.testing.assert_allclose(together, alone)


def test_a_record_holds_what_it_is_asked_for():
    record = walk().simulate(3, NumpyBackend(0), keep=["ear.note"])
    assert list(record) == ["ear.note"] and len(record["ear.note"]) == 3


def test_a_variable_without_a_next_rule_stays_and_is_scored_once():
    fixed = Variable("taste", lambda backend: Normal(backend.array(np.zeros(2)), 1.0))
    story = Story(Entity("user", (fixed,)))
    record = story.simulate(5, NumpyBackend(0))
    assert all(one is record["user.taste"][0] for one in record["user.taste"])
    once = stats.norm.logpdf(record["user.taste"][0]).sum()
    assert story.log_probability(record, NumpyBackend(0)) == pytest.approx(once)


def test_one_template_serves_two_kinds_of_actors():
    def viewer(kind, count, shop):
        liking = Variable("liking", lambda shelf, backend: shelf + np.zeros(count))
        return Entity(kind, (liking,), {"shelf": shop})

    def shop(kind, level):
        return Entity(kind, (Variable("shelf", lambda backend: np.array(level)),))

    story = Story(
        shop("low", 1.0),
        shop("high", 5.0),
        viewer("young", 2, "low.shelf"),
        viewer("old", 3, "high.shelf"),
    )
    record = story.simulate(1, NumpyBackend(0))
    assert record["young.liking"][0].tolist() == [1, 1]
    assert record["old.liking"][0].tolist() == [5, 5, 5]


def test_before_is_the_step_before_also_of_what_has_moved_already():
    count = Variable(
        "count", lambda backend: np.zeros(1), lambda count_before: count_before + 1
    )
    late = Variable("late", lambda count: count, lambda count, count_before: count_before)
    record = Story(Entity("a", (count, late))).simulate(4, NumpyBackend(0))
    assert [float(one[0]) for one in record["a.late"]] == [0, 0, 1, 2]


def test_the_first_law_may_be_of_another_kind_than_the_next_ones():
    def first(backend):
        return Choice(np.zeros((2, 4)))

    x = Variable("x", first, lambda x_before: Normal(x_before, 1.0))
    record = {"a.x": [np.array([1, 2]), np.array([1.5, 2.0]), np.array([1.5, 3.0])]}
    expected = 2 * np.log(1 / 4) + stats.norm.logpdf([0.5, 0.0, 0.0, 1.0]).sum()
    score = Story(Entity("a", (x,))).log_probability(record, NumpyBackend(0))
    assert score == pytest.approx(expected)


VALUE = lambda backend: np.zeros(1)  # noqa: E731
BAD = {
    "each with its own name": lambda: (Entity("a", ()), Entity("a", ())),
    "one is needed": lambda: (),
    "needs a name of its own": lambda: (
        Entity("a", (Variable("x", VALUE), Variable("x", VALUE))),
    ),
    "is no variable": lambda: (Entity("a", (Variable("x", lambda y: y),)),),
    "nothing lies before": lambda: (Entity("a", (Variable("x", lambda x_before: x_before),)),),
    "is bound to": lambda: (
        Entity("a", (Variable("x", VALUE), Variable("y", lambda x: x)), {"x": "b.x"}),
    ),
    "use _before": lambda: (
        Entity("a", (Variable("x", lambda y: y), Variable("y", lambda x: x))),
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_a_story_without_an_order_is_refused(message):
    with pytest.raises(ValueError, match=message):
        Story(*BAD[message]())


@pytest.mark.parametrize("steps", [0, -1, 2.0])
def test_steps_are_whole_and_at_least_one(steps):
    with pytest.raises(ValueError, match="steps"):
        walk().simulate(steps, NumpyBackend(0))


def test_a_record_that_lacks_or_invents_variables_is_refused():
    record = walk().simulate(3, NumpyBackend(0))
    with pytest.raises(ValueError, match="walker.place is random"):
        walk().log_probability({"ear.note": record["ear.note"]}, NumpyBackend(0))
    with pytest.raises(ValueError, match="at step 2"):
        walk().log_probability(record | {"ear.note": record["ear.note"][:2]}, NumpyBackend(0))
    with pytest.raises(ValueError, match="unknown variables"):
        walk().log_probability(record | {"ear.nose": []}, NumpyBackend(0))
    with pytest.raises(ValueError, match="steps"):
        walk().log_probability({}, NumpyBackend(0))


@pytest.mark.parametrize("backend", BACKENDS, ids=["numpy", "torch"])
def test_choices_come_as_often_as_the_logit_says(backend):
    logits = backend.array(np.log([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]))
    drawn = np.asarray(Choice(logits, 20_000).draw(backend))
    shares = [np.bincount(row, minlength=3) / 20_000 for row in drawn]
    np.testing.assert_allclose(shares, [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], atol=0.015)
    logs = np.asarray(Choice(logits).log_density(backend.array(np.array([1, 0]))))
    np.testing.assert_allclose(logs, np.log([0.5, 0.6]))


def test_what_has_no_chance_is_never_chosen():
    class Edge:  # noise at both ends
        def uniform(self, shape):
            return np.broadcast_to([0.0, 1.0], shape)

    logits = np.array([[-np.inf, 0.0, 0.0, -np.inf]])
    assert Choice(logits, 2).draw(Edge()).tolist() == [[1, 2]]


def test_nothing_is_one_more_option():
    law = Choice(or_nothing(np.log([[1.0, 2.0]]), np.log(3.0)))
    assert np.exp(law.log_density(np.array([2])))[0] == pytest.approx(0.5)


def test_nothing_stays_possible_beside_what_is_not():
    law = Choice(or_nothing(np.array([[-np.inf, 0.0]]), 0.0))
    np.testing.assert_allclose(law.log_density(np.array([2])), np.log(0.5))


def test_a_mixture_sums_its_centres_out():
    logits, means, scales = (
        np.log([0.3, 0.7]),
        np.array([[0.0, 0.0], [3.0, 1.0]]),
        np.array([1.0, 2.0]),
    )
    law, value = (
        Mixture(logits, means, scales, (2, 2)),
        np.array([[[0.5, 0], [1, 1]], [[3, 1], [9, 9]]]),
    )
    expected = sum(
        share * np.prod(stats.norm(mean, scale).pdf(value), axis=-1)
        for share, mean, scale in zip((0.3, 0.7), means, scales, strict=True)
    )
    np.testing.assert_allclose(np.exp(law.log_density(value)), expected)


@pytest.mark.parametrize("kind", [np.float64, torch.float64, torch.float32])
def test_distances_are_those_of_plain_differences(kind):
    rng = np.random.default_rng(0)
    first, second = 20 * rng.normal(size=(2, 7, 2)), 20 * rng.normal(size=(2, 5, 2))
    second[0, :2] = first[0, :2] + [[1.0, 0.0], [0.0, 0.0]]  # near, and the same place
    expected = np.linalg.norm(first[:, :, None] - second[:, None], axis=-1)
    if kind is not np.float64:
        first, second = (torch.tensor(one, dtype=kind) for one in (first, second))
    found = distances(first, second)
    near = 2e-2 if kind is torch.float32 else 1e-6  # the root of what float32 keeps of 800
    np.testing.assert_allclose(found, expected, atol=near)
    far = expected > 1
    atol = 1e-3 if kind is torch.float32 else 1e-9
    np.testing.assert_allclose(np.asarray(found)[far], expected[far], atol=atol)


def test_a_place_is_at_no_distance_from_itself_however_the_digits_fall():
    places = 40 * torch.randn(1, 300, 2, generator=torch.Generator().manual_seed(0))
    for one in (places, places.numpy()):
        assert float(distances(one, one)[0].diagonal().max()) < 0.05  # a number, and small


def test_distances_let_gradients_through():
    first = torch.tensor([[[3.0, 4.0]]], dtype=torch.float64, requires_grad=True)
    distances(first, torch.zeros(1, 1, 2, dtype=torch.float64)).sum().backward()
    torch.testing.assert_close(first.grad, torch.tensor([[[0.6, 0.8]]], dtype=torch.float64))


def test_the_gradient_of_a_distance_of_nothing_is_zero():
    first = torch.tensor([[[3.0, 4.0]]], requires_grad=True)
    distances(first, torch.tensor([[[3.0, 4.0], [3.0000005, 4.0]]])).sum().backward()
    assert torch.isfinite(first.grad).all()


def test_a_fading_state_keeps_a_share_and_adds_its_gain():
    gain = Variable("gain", lambda backend: np.ones(2), lambda gain_before: gain_before + 1)
    clicks = fading("clicks", lambda gain: 0 * gain, lambda gain_before: gain_before, 0.5)
    record = Story(Entity("a", (gain, clicks))).simulate(4, NumpyBackend(0))
    assert [one[0] for one in record["a.clicks"]] == [0, 1, 0.5 + 2, 1.25 + 3]


def state(shock):
    """A state from 5 that keeps 0.7, is pushed by 1 and shaken by 0.1."""
    keep = static(keep=lambda backend: np.full(4, 0.7))
    drift = lambda keep: (keep, 1.0)  # noqa: E731
    parts = linear_gaussian("state", lambda keep: 0 * keep + 5, drift, 0.1, shock)
    return Story(Entity("a", (*keep, *parts)))


def test_a_linear_gaussian_state_moves_as_stated_with_and_without_a_shock_of_its_own():
    noise = NumpyBackend(1).normal((4,))
    for shock in (None, "shock"):
        record = state(shock).simulate(2, NumpyBackend(1))
        np.testing.assert_array_equal(record["a.state"][0], np.full(4, 5.0))
        assert not np.any(record.get("a.shock", [0])[0])  # nothing shakes the start
        np.testing.assert_allclose(record["a.state"][1], 0.7 * 5 + 1 + 0.1 * noise)


def test_a_shaken_state_may_have_a_random_start():
    start = lambda backend: Normal(backend.array(np.zeros(3)), 2.0)  # noqa: E731
    for shock in (None, "shock"):
        parts = linear_gaussian("x", start, lambda: (0.5, 1.0), 0.1, shock)
        record = Story(Entity("a", parts)).simulate(3, NumpyBackend(0))
        assert record["a.x"][2].shape == (3,) and np.ptp(record["a.x"][0]) > 0


def test_a_state_s_two_forms_score_alike_up_to_the_scale():
    record = state("shock").simulate(6, NumpyBackend(2))
    hidden = state("shock").log_probability(record, NumpyBackend(0))
    seen = state(None).log_probability({"a.state": record["a.state"]}, NumpyBackend(0))
    assert seen - hidden == pytest.approx(-5 * 4 * np.log(0.1))  # dx = 0.1 d(shock)
