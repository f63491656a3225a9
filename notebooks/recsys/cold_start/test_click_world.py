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
    assert theta[0] == 1 and (theta.diff() < 0).all()


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


def test_without_impressions_only_clicks_and_drawn_items_that_existed_remain():
    world = small(each_day=24)
    log = click_world.history(world)
    seen = click_world.without_impressions(log, world)
    assert len(seen) == int(log.clicks_SK.any(1).sum())
    assert (seen.position_SK == UNKNOWN).all()
    assert int(seen.clicks_SK.sum()) == int(log.clicks_SK.sum())
    drawn = seen.items_SK[~seen.clicks_SK]
    hours = seen.hour_S[:, None].expand_as(seen.items_SK)[~seen.clicks_SK]
    assert (world.created_I[drawn.clamp(min=0)] <= hours)[drawn >= 0].all()
    for row in range(20):
        clicked = set(seen.items_SK[row][seen.clicks_SK[row]].tolist())
        assert not clicked & set(seen.items_SK[row][~seen.clicks_SK[row]].tolist())
    first, second = (log.rows((log.hour_S == hour).nonzero()[:, 0]) for hour in (-336, -324))
    second.items_SK, second.clicks_SK = first.items_SK, first.clicks_SK
    parts = [click_world.without_impressions(part, world) for part in (first, second)]
    assert (parts[0].items_SK != parts[1].items_SK).any(1).all()  # other items in every hour
    empty = log.rows(~log.clicks_SK.any(1))
    assert len(click_world.without_impressions(empty, world)) == 0


@pytest.mark.parametrize("bad", [{"users": 0}, {"warm": 0}, {"latent": 0}, {"known": 1.2}])
def test_impossible_worlds_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        small(**bad)
