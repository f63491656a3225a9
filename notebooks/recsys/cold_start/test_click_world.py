"""The world: its law of clicks, its times, and the luck that policies share."""

import copy

import click_world
import pytest
import torch
from click_world import UNKNOWN


def small(**more):
    sizes = {"users": 40, "warm": 30, "cold": 4, "days": 2, "each_day": 2}
    return click_world.draw(1, **(sizes | more))


def test_a_world_has_the_articles_catalogue():
    world = click_world.draw(0, each_day=0)
    assert world.items == 1931
    assert int((world.created_I >= 0).sum()) == 191


def test_items_come_evenly_and_nothing_is_shown_before_it_is_there():
    world = small(each_day=24, warm=300)
    assert [int(world.exists_I(hour).sum()) for hour in (-0.5, 0, 1, 47)] == [
        300,
        305,
        306,
        352,
    ]
    assert world.attraction(torch.arange(40), 3)[:, ~world.exists_I(3)].max() == 0
    log = click_world.history(world)
    assert (world.created_I[log.items_SK] <= log.hour_S[:, None]).all()


def test_clicks_have_the_chance_that_the_law_says():
    world, users = small(users=3000), torch.arange(3000)
    items = torch.arange(10).expand(3000, 10)
    wanted = world.expected(users, items, 0).mean(0)
    clicks = world.show(users, items, 0).float().mean(0)
    assert (clicks - wanted).abs().max() < 0.025  # three standard errors of 3,000 draws


def test_lower_places_are_examined_less():
    theta = click_world.examination(10)
    torch.testing.assert_close(theta, torch.tensor([k**-0.6 for k in range(1, 11)]))


def test_what_was_clicked_attracts_no_more():
    world, users = small(), torch.arange(40)
    items = torch.arange(10).expand(40, 10)
    clicks = world.show(users, items, 0)
    assert clicks.any()
    assert world.attraction(users, 1).gather(1, items)[clicks].max() == 0


def test_luck_belongs_to_the_user_and_the_item_not_to_the_list():
    one = small()
    other, users = copy.deepcopy(one), torch.arange(40)
    first = torch.arange(10).expand(40, 10)
    second = first.clone()
    second[:, 1:] += 10  # another list below the same top
    assert torch.equal(one.show(users, first, 3)[:, 0], other.show(users, second, 3)[:, 0])
    assert torch.equal(one.requests(5, 7), other.requests(5, 7))
    assert not torch.equal(one.requests(5, 7), one.requests(6, 7))


def test_an_item_has_the_same_luck_wherever_it_stands_if_it_is_looked_at(monkeypatch):
    monkeypatch.setattr(click_world, "examination", lambda places, _: torch.ones(places))
    one, users, items = small(), torch.arange(40), torch.arange(10).expand(40, 10)
    other = copy.deepcopy(one)
    clicks = one.show(users, items, 3)
    assert clicks.any() and torch.equal(clicks, other.show(users, items.flip(1), 3).flip(1))


def test_the_older_recommender_showed_what_fits_better_than_chance():
    users, better = torch.arange(200), []
    for quality in (0.0, 0.5):
        world = small(users=200, warm=100)
        truth = world.attraction(users, -336)
        log = click_world.history(world, days=1, quality=quality)
        better.append(float(truth[log.user_S[:, None], log.items_SK].mean() / truth.mean()))
    everybody = small(warm=100).items / 100  # those to come have no chance yet
    assert abs(better[0] / everybody - 1) < 0.08 and better[1] > 1.2 * better[0]


@pytest.mark.parametrize("known", [0.2, 0.7])
def test_genres_tell_the_known_share_of_an_item_s_numbers_and_nothing_of_its_quality(known):
    world = small(warm=4000, known=known)
    told = world.genres_IG @ torch.linalg.lstsq(world.genres_IG, world.latent_ID).solution
    assert abs(told.var() / world.latent_ID.var() - known) < 0.05
    assert abs(world.quality_I.std() - 0.8) < 0.03  # of 4,000: known to about 1 %


def test_the_log_of_news_holds_items_of_every_age():
    ages = -small(warm=400, youngest=0.0).created_I[:400] / 24
    assert ages.min() < 10 < 390 < ages.max()
    assert -small(warm=400).created_I[:400].max() / 24 >= 35


def test_ageing_lowers_appeal_for_thirty_days_only():
    world, users = small(ageing=0.05), torch.arange(40)
    fresh, later, old = (world.attraction(users, hour)[:, 30] for hour in (0, 24 * 30, 24 * 60))
    assert (later < fresh).all()
    assert torch.equal(later, old)


def test_genres_are_noisy_for_about_the_share_that_was_asked():
    world = click_world.draw(2, users=2, warm=2000, genres=30)
    changed = (click_world.noisy_genres(world, 0.5) != world.genres_IG).any(1).float().mean()
    assert 0.4 < changed < 0.56
    assert torch.equal(click_world.noisy_genres(world, 0.0), world.genres_IG)


def test_an_application_sends_all_or_less():
    world = small(each_day=24)
    log = click_world.history(world)
    sent, rows = click_world.as_sent(log)
    assert sent is log and rows.tolist() == [*range(len(log))]
    sent, rows = click_world.as_sent(log, "no places")
    assert (sent.position_SK == UNKNOWN).all() and torch.equal(sent.items_SK, log.items_SK)
    assert rows.tolist() == [*range(len(log))] and (log.position_SK >= 0).all()
    sent, rows = click_world.as_sent(log, "lists with a click")
    assert torch.equal(sent.items_SK, log.items_SK[log.clicks_SK.any(1)])
    assert torch.equal(log.user_S[rows], sent.user_S) and sent.clicks_SK.any(1).all()
    with pytest.raises(ValueError, match="nobody sends"):
        click_world.as_sent(log, "everything")


def test_clicks_alone_are_a_row_each_without_a_place():
    log = click_world.history(small())
    sent, rows = click_world.as_sent(log, "clicks")
    assert sent.items_SK.shape == (int(log.clicks_SK.sum()), 1) and sent.clicks_SK.all()
    assert (sent.position_SK == UNKNOWN).all()
    assert torch.equal(log.hour_S[rows], sent.hour_S) and torch.equal(
        log.user_S[rows], sent.user_S
    )
    assert torch.equal(sent.items_SK[:, 0], log.items_SK[log.clicks_SK])
    assert len(click_world.as_sent(log.rows(~log.clicks_SK.any(1)), "clicks")[0]) == 0


@pytest.mark.parametrize("bad", [{"users": 0}, {"warm": 0}, {"latent": 0}, {"known": 1.2}])
def test_impossible_worlds_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        small(**bad)
