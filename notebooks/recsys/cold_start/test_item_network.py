"""The network, its training, and what is not known of each item."""

from dataclasses import replace

import click_world
import item_network
import pytest
import torch
from click_world import UNKNOWN, SlateLog
from item_network import Recipe


@pytest.fixture(scope="module")
def fitted():
    world = click_world.draw(5, users=60, warm=80, cold=8, each_day=0, known=0.9)
    log = click_world.history(world)
    recipe = Recipe(width=6, steps=40)
    net = item_network.train(log, world.genres_IG, world.users, recipe)
    return world, log, net, recipe, item_network.beliefs(net, log, world.users, recipe)


def small_log():
    """User 0 clicks two in an early list and one in a late one; user 1 clicks nothing."""
    items = torch.tensor([[3, 4], [1, 2], [0, 1]])
    clicks = torch.tensor([[True, False], [True, True], [False, False]])
    place = torch.tensor([[0, 1], [0, 1], [0, 1]])
    return SlateLog(
        torch.tensor([0, 0, 1]), torch.tensor([5.0, 1.0, 2.0]), items, place, clicks
    )


def test_sequences_follow_time_and_count_what_came_before():
    history, before = item_network.sequences(small_log(), 3)
    assert history.tolist() == [[1, 2, 3], [UNKNOWN] * 3, [UNKNOWN] * 3]
    assert before.tolist() == [2, 0, 0]


def test_states_after_k_clicks_do_not_see_later_ones(fitted):
    _, _, net, _, known = fitted
    one = net.states(torch.tensor([[1, 2, 3]]), known.mean_IP)
    other = net.states(torch.tensor([[1, 2, 7]]), known.mean_IP)
    torch.testing.assert_close(one[:, :3], other[:, :3])
    assert not torch.allclose(one[:, 3], other[:, 3])


def test_a_step_is_the_same_as_reading_the_whole_sequence(fitted):
    _, _, net, _, known = fitted
    whole = net.states(torch.tensor([[4, 9]]), known.mean_IP)
    step = net.step(whole[:, 1], known.mean_IP[torch.tensor([9])])
    torch.testing.assert_close(step, whole[:, 2])


def test_the_loss_is_the_model_of_the_docstring(fitted):
    world, log, net, _, _ = fitted
    history, before = item_network.sequences(log, world.users)
    vectors = net.vectors()
    rows = torch.zeros(len(log), dtype=torch.bool)
    rows[3] = True
    nll, count = item_network.loss_of(net, log, history, before, vectors, rows)
    user = int(log.user_S[3])
    phi = net.states(history[user : user + 1], vectors)[0, before[3]]
    theta = net.examined(torch.arange(10))
    chance = theta * torch.sigmoid(vectors[log.items_SK[3]] @ phi)
    wanted = torch.where(log.clicks_SK[3], chance.log(), (1 - chance).log())
    torch.testing.assert_close(nll, -wanted.sum())
    assert count == 10


def lists(items, clicks, places, hours):
    items, clicks, places = map(torch.tensor, (items, clicks, places))
    return SlateLog(torch.zeros(len(items)).long(), torch.tensor(hours), items, places, clicks)


def test_more_than_clicks_is_known_of_a_list_with_a_place_or_something_unclicked():
    X = UNKNOWN
    log = lists(
        [[1, X], [1, 2], [1, X], [1, 2], [X, X]],
        [[True, False], [True, True], [True, False], [True, False], [False, False]],
        [[X, X], [X, X], [0, X], [X, X], [X, X]],
        [0.0] * 5,
    )
    assert item_network.told(log).tolist() == [False, False, True, True, False]


def test_negatives_are_drawn_for_clicks_without_a_list_alone_from_what_was_there():
    log = lists(
        [[7, UNKNOWN], [5, 3]] * 50,
        [[True, False], [True, False]] * 50,
        [[UNKNOWN, UNKNOWN], [0, 1]] * 50,
        [20.0, 20.0] * 50,
    )
    created = torch.tensor([0.0, 30.0, 5.0, 0.0, 20.0, 1.0, 25.0, -9.0])
    found = item_network.with_drawn(log, created)
    assert torch.equal(found.items_SK[1::2, :2], log.items_SK[1::2])
    assert (found.items_SK[1::2, 2:] == UNKNOWN).all()
    drawn = found.items_SK[::2, 1:]
    assert (found.items_SK[::2, 0] == 7).all() and found.clicks_SK.sum() == log.clicks_SK.sum()
    assert set(drawn.unique().tolist()) == {UNKNOWN, 0, 2, 3, 4, 5}  # not 1, 6; 7 was clicked
    assert (found.position_SK[::2] == UNKNOWN).all()
    other = item_network.with_drawn(log, created, 1)
    assert not torch.equal(found.items_SK, other.items_SK)
    told = log.rows(torch.arange(100) % 2 == 1)
    assert item_network.with_drawn(told, created) is told


def test_beside_longer_lists_a_click_alone_gets_no_more_than_nine_others():
    wide = [[*range(25)], [3] + 24 * [UNKNOWN]]
    clicks = [[True] + 24 * [False]] * 2
    log = lists(wide, clicks, [[*range(25)], 25 * [UNKNOWN]], [0.0] * 2)
    found = item_network.with_drawn(log, torch.zeros(500))
    assert torch.equal(found.items_SK[0], log.items_SK[0])
    assert (found.items_SK[1, :10] >= 0).all() and (found.items_SK[1, 10:] == UNKNOWN).all()


def test_a_user_s_clicks_before_anything_was_there_stay_clicks_alone():
    log = lists([[0]], [[True]], [[UNKNOWN]], [-5.0])
    found = item_network.with_drawn(log, torch.zeros(3))
    assert found.items_SK.tolist() == [[0] + 9 * [UNKNOWN]]


def test_an_update_reads_what_was_shown_and_leaves_clicks_alone(fitted):
    _, _, net, _, known = fitted
    log = lists(
        [[1, UNKNOWN], [2, 3]],
        [[True, False], [True, False]],
        [[UNKNOWN] * 2, [1, 0]],
        [0.0] * 2,
    )
    phi = item_network.with_one(torch.randn(2, 6))
    after = item_network.read_lists(known, net, phi, log)
    theta = net.examined(log.position_SK[1:]).detach()
    wanted = item_network.update(known, phi[1:], log.items_SK[1:], theta, log.clicks_SK[1:])
    assert torch.equal(after.mean_IP, wanted.mean_IP)
    assert (after.mean_IP != known.mean_IP).any(1).nonzero()[:, 0].tolist() == [2, 3]


def test_unknown_items_are_no_negatives(fitted):
    world, log, net, _, _ = fitted
    history, before = item_network.sequences(log, world.users)
    cut = SlateLog(**vars(log))
    cut.items_SK = log.items_SK.clone()
    cut.items_SK[:, 4:] = UNKNOWN
    rows = log.user_S == 2
    _, count = item_network.loss_of(net, cut, history, before, net.vectors(), rows)
    assert count == 4 * int(rows.sum())


def test_training_learns_places_and_uses_the_last_list():
    world = click_world.draw(6, users=40, warm=40, cold=2, each_day=0)
    log = click_world.history(world)
    recipe = Recipe(width=4, steps=60)
    net = item_network.train(log, world.genres_IG, 40, recipe)
    theta = net.examined(torch.arange(10))
    assert theta[0] == 1 and theta[1] > theta[5] > theta[9]
    changed = SlateLog(**vars(log))
    changed.clicks_SK = log.clicks_SK.clone()
    changed.clicks_SK[-1] = ~changed.clicks_SK[-1]
    other = item_network.train(changed, world.genres_IG, 40, recipe)
    assert not torch.equal(net.offset_IP, other.offset_IP)


def test_every_user_is_in_one_step_before_anyone_is_in_a_second(fitted, monkeypatch):
    world, log, _, _, _ = fitted
    steps, real = [], item_network.loss_of
    spy = lambda *a: steps.append(set(a[1].user_S[a[5]].tolist())) or real(*a)  # noqa: E731
    monkeypatch.setattr(item_network, "loss_of", spy)
    item_network.train(log, world.genres_IG, 60, Recipe(width=4, steps=4, batch=32))
    assert [len(one) for one in steps] == [32, 28, 32, 28]
    assert steps[0] | steps[1] == steps[2] | steps[3] == {*range(60)} and steps[0] != steps[2]


def test_the_prior_holds_the_offsets_near_the_tower(fitted):
    world, log, net, recipe, _ = fitted
    tight = replace(recipe, offset_sd=0.01, bias_sd=0.01)
    held = item_network.train(log, world.genres_IG, world.users, tight).offset_IP
    assert held.std() < 0.5 * net.offset_IP.std()


def test_training_twice_gives_the_same_and_leaves_torchs_seed_alone(fitted):
    world, log, _, _, _ = fitted
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    recipe = Recipe(width=4, steps=10)
    nets = [item_network.train(log, world.genres_IG, 60, recipe) for _ in range(2)]
    assert torch.equal(torch.rand(3), wanted)
    # sums of gradients in another order change the last digits
    torch.testing.assert_close(nets[0].vectors(), nets[1].vectors(), atol=1e-4, rtol=1e-3)


def test_the_information_is_that_of_the_likelihood(fitted):
    """Against autograd: Fisher's information is the expected outer product of the score."""
    _, _, _, _, known = fitted
    phi, theta, item = torch.randn(1, 7), torch.tensor([[0.6]]), torch.tensor([[2]])
    zero = torch.zeros_like(known.precision_IPP)
    expected = torch.zeros(7, 7)
    for click in (True, False):
        v = known.mean_IP[2].clone().requires_grad_()
        chance = theta[0, 0] * torch.sigmoid(phi[0] @ v)
        chance = chance if click else 1 - chance
        slope = torch.autograd.grad(chance.log(), v)[0]
        expected += chance.detach() * slope[:, None] * slope
        clicks = torch.tensor([[click]])
        found, score = item_network.evidence(
            known.mean_IP, phi, item, theta, clicks, zero.clone()
        )
        torch.testing.assert_close(score[2], slope, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found[2], expected, atol=1e-5, rtol=1e-4)
    assert found[3].abs().sum() == 0


def test_an_update_moves_only_what_was_shown_towards_what_was_clicked(fitted):
    known = fitted[4]
    phi = item_network.with_one(torch.zeros(1, 6))
    args = (
        torch.tensor([[1, 2, UNKNOWN]]),
        torch.ones(1, 3),
        torch.tensor([[True, False, False]]),
    )
    after = item_network.update(known, phi, *args)
    moved = after.mean_IP[:, -1] - known.mean_IP[:, -1]
    assert moved[1] > 0 > moved[2]
    assert moved.nonzero()[:, 0].tolist() == [1, 2]
    spread = [torch.diagonal(b.covariance_IPP, dim1=1, dim2=2)[1, -1] for b in (known, after)]
    assert spread[1] < spread[0]
    nothing = torch.full((1, 3), UNKNOWN)
    assert item_network.update(known, phi, nothing, *args[1:]) is known


@torch.no_grad()
def test_a_mean_lies_where_the_prior_and_the_clicks_have_pulled_it(fitted):
    """Laplace: from the tower by A⁻¹ (I offset + score), with A = I + 1 / prior."""
    world, log, net, _, known = fitted
    history, before = item_network.sequences(log, world.users)
    vectors, zero = net.vectors(), torch.zeros_like(known.precision_IPP)
    phi = net.states(history, vectors)[log.user_S, before]
    shown = log.items_SK, net.examined(log.position_SK), log.clicks_SK
    information, score = item_network.evidence(vectors, phi, *shown, zero)
    item = int(torch.bincount(log.items_SK[log.clicks_SK]).argmax())
    precision = information[item] + torch.diag(1 / known.prior_P)
    pull = information[item] @ net.offset_IP[item] + score[item]
    moved = torch.linalg.solve(precision, pull)
    tower = net.tower(world.genres_IG[item])
    assert moved.abs().max() > 0.05
    torch.testing.assert_close(known.mean_IP[item], tower + moved, atol=1e-3, rtol=1e-2)
    torch.testing.assert_close(known.precision_IPP[item], precision, atol=1e-3, rtol=1e-3)


def test_an_update_is_a_step_of_fisher_scoring_by_what_is_known_after_it(fitted):
    """A hundred looks of one user at an item that was never shown, ten with a click."""
    known, item, theta = fitted[4], 81, 0.6
    phi, clicks = item_network.with_one(torch.full((1, 6), 0.3)), torch.arange(100) < 10
    chance = torch.sigmoid(phi[0] @ known.mean_IP[item])
    missed, rows = 1 - theta * chance, phi.expand(100, -1)
    weight = theta * chance * (1 - chance) ** 2 / missed
    score = (clicks.float() - theta * chance).sum() * (1 - chance) / missed * phi[0]
    precision = known.precision_IPP[item] + 100 * weight * torch.outer(phi[0], phi[0])
    covariance = torch.linalg.inv(precision)
    step, wide = covariance @ score, known.covariance_IPP[item] @ score
    assert (wide - step).abs().max() > 0.1 * step.abs().max()  # it matters which
    args = torch.full((100, 1), item), torch.full((100, 1), theta), clicks[:, None]
    after = item_network.update(known, rows, *args)
    torch.testing.assert_close(after.precision_IPP[item], precision, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(after.covariance_IPP[item], covariance, atol=1e-5, rtol=1e-3)
    moved = after.mean_IP[item] - known.mean_IP[item]
    torch.testing.assert_close(moved, step, atol=1e-4, rtol=1e-2)


def test_beliefs_read_the_drawn_negatives_too(fitted, monkeypatch):
    world, log, net, _, _ = fitted
    alone, read = click_world.as_sent(log, "clicks")[0], []
    monkeypatch.setattr(item_network, "train", lambda log, *_: read.append(log) or net)
    monkeypatch.setattr(item_network, "beliefs", lambda net, log, *_: read.append(log))
    item_network.learned(alone, world.genres_IG, world.created_I, world.users)
    assert read[0] is read[1] and read[0].items_SK.shape[1] == 10


def test_an_item_that_was_never_shown_keeps_the_prior(fitted):
    world, _, net, _, known = fitted
    cold = int((world.created_I >= 0).nonzero()[0, 0])
    torch.testing.assert_close(known.covariance_IPP[cold], torch.diag(known.prior_P))
    torch.testing.assert_close(known.mean_IP[cold], net.tower(world.genres_IG[cold]))


def test_the_prior_that_is_estimated_is_that_of_the_offsets():
    """Two hundred items whose biases lie 0.7 apart: the estimate is known to about 6 %."""
    luck, items, users = torch.Generator().manual_seed(3), 200, 400
    net = item_network.ItemNetwork(torch.zeros(items, 1), 3)
    for weights in net.parameters():
        torch.nn.init.zeros_(weights)
    with torch.no_grad():  # no state tells anything: a click depends on the item's bias alone
        net.tower.bias[-1] = -1.0
        net.offset_IP[:, -1] = 0.7 * torch.randn(items, generator=luck)
        chance = torch.sigmoid(net.vectors()[:, -1])
    shown = torch.stack([torch.randperm(items, generator=luck) for _ in range(400)])
    shown = shown.reshape(-1, 10)
    clicks = torch.rand(shown.shape, generator=luck) < chance[shown]
    user, place = torch.arange(len(shown)) % users, torch.full_like(shown, UNKNOWN)
    log = SlateLog(user, torch.arange(len(shown)).float(), shown, place, clicks)
    known = item_network.beliefs(net, log, users, Recipe(width=3))
    assert abs(known.prior_P[-1].sqrt() / 0.7 - 1) < 0.2


def test_exploration_has_the_posteriors_spread_and_touches_cold_items_alone(fitted):
    known = fitted[4]
    phi, cold = torch.randn(1, 7).expand(4000, -1), torch.zeros(88, dtype=torch.bool)
    cold[[81, 85]] = True
    luck = torch.Generator().manual_seed(0)
    mean = item_network.scores(known, phi)
    drawn = item_network.scores(known, phi, 0.5, cold, luck) - mean
    assert drawn[:, ~cold].abs().max() == 0
    wanted = 0.5 * (phi[0] @ known.covariance_IPP[81] @ phi[0]).sqrt()
    # 4,000 draws: the deviation is known to about 1.1 %
    torch.testing.assert_close(drawn[:, 81].std(), wanted, rtol=0.05, atol=0)
    assert torch.equal(item_network.scores(known, phi, 0.0, cold, luck), mean)


def test_an_item_exactly_at_the_cut_off_is_not_explored():
    created = torch.tensor([0.0, 0.5, 24.0])
    assert item_network.is_cold(created, 7 * 24.0, 7.0).tolist() == [False, True, True]


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_outside_0_to_1_is_refused(fitted, weight):
    with pytest.raises(ValueError, match="must lie in 0 to 1"):
        item_network.scores(fitted[4], torch.zeros(1, 7), weight)


def test_a_cut_off_of_0_and_an_empty_log_are_refused(fitted):
    world, log, _, _, _ = fitted
    with pytest.raises(ValueError, match="above 0"):
        item_network.is_cold(world.created_I, 0.0, 0)
    with pytest.raises(ValueError, match="1 or more"):
        item_network.train(log.rows(slice(0, 0)), world.genres_IG, 60)


@pytest.mark.card  # a recurrent network cannot be rehearsed
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_training_follows_its_inputs_to_the_gpu():
    world = click_world.draw(0, users=20, warm=30, cold=2, each_day=0, device="cuda")
    log = click_world.history(world, days=2)
    recipe = Recipe(width=4, steps=3)
    net = item_network.train(log, world.genres_IG, 20, recipe)
    assert item_network.beliefs(net, log, 20, recipe).covariance_IPP.is_cuda


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_updates_and_scores_on_the_gpu_are_those_of_the_cpu():
    luck, found = torch.Generator().manual_seed(0), {}
    mean, phi = torch.randn(6, 4, generator=luck), torch.randn(3, 4, generator=luck)
    items, clicks = torch.tensor([[0, 1], [2, 3], [1, UNKNOWN]]), torch.eye(3, 2) > 0
    for where in ("cpu", "cuda"):
        eye = torch.eye(4, device=where).expand(6, -1, -1).contiguous()
        known = item_network.Beliefs(mean.to(where), eye, eye, torch.ones(4, device=where))
        theta = torch.ones(3, 2, device=where)
        args = phi.to(where), items.to(where), theta, clicks.to(where)
        found[where] = item_network.scores(item_network.update(known, *args), args[0]).cpu()
    torch.testing.assert_close(found["cuda"], found["cpu"], atol=1e-4, rtol=1e-4)
