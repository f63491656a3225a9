"""Versions: times, genres, lists from events, updates, files."""

import pickle
from pathlib import Path

import bench_campaign
import click_world
import pytest
import service_requests
import solution_version as sv
import torch
from click_world import SlateLog
from item_network import Recipe
from service_requests import Event, resolved

DAY = 86_400.0
RECIPE = Recipe(width=4, steps=20)


def click(user, item, time, **more):
    return Event(user, item, "click", time, **more)


@pytest.fixture(scope="module")
def made():
    world = click_world.draw(4, users=90, warm=40, cold=5, each_day=0)
    events, items = bench_campaign.as_data(world, click_world.history(world, days=10))
    return events, items, sv.full(events, items, RECIPE)


def test_a_missing_creation_time_is_the_first_interaction_or_the_latest_of_all():
    events = [click("u", "a", 50.0), click("u", "a", 20.0), click("u", "b", 90.0)]
    items = {
        "a": {},
        "b": {"CREATION_TIMESTAMP": 7},
        "c": {},
        "d": {"CREATION_TIMESTAMP": None},
    }
    found = sv.creation_times(items, events)
    assert found == {"a": 20.0, "b": 7.0, "c": 90.0, "d": 90.0}
    later = sv.creation_times({"e": {}, "a": {}}, [click("u", "b", 95.0)], found, 90.0)
    assert (later["a"], later["c"], later["e"]) == (20.0, 90.0, 95.0)


def test_categories_are_split_by_field_and_unknown_ones_do_not_count():
    items = {"a": {"GENRES": "x|y", "LAND": "x", "TITLE": "x"}, "b": {"GENRES": None}}
    table, words = sv.category_table(items, ["a", "b"], ["GENRES", "LAND"])
    assert words == ["GENRES=x", "GENRES=y", "LAND=x"]
    assert table.tolist() == [[1, 1, 1], [0, 0, 0]]
    table, _ = sv.category_table(
        {"n": {"GENRES": "y|new", "LAND": "x"}}, ["n", "?"], vocabulary=words
    )
    assert table.tolist() == [[0, 1, 1], [0, 0, 0]]
    assert sv.category_table(items, ["a"], [])[0].tolist() == [[0]]


AT = {name: row for row, name in enumerate("abcde")}


def lists(*events, answered=None):
    shown = [resolved(event, answered or {}) for event in events]
    return sv.slate_log(shown, AT, {"u": 0, "v": 1})


def test_two_clicks_in_one_list_are_one_list():
    shown = {"R": ["c", "a", "b"]}
    found = lists(
        click("u", "a", 5.0, recommendation="R"),
        click("u", "b", 9.0, recommendation="R"),
        answered=shown,
    )
    assert found.items_SK.tolist() == [[2, 0, 1]]
    assert found.position_SK.tolist() == [[0, 1, 2]]
    assert found.clicks_SK.tolist() == [[False, True, True]]
    assert found.hour_S.tolist() == [5.0 / 3600]


def test_an_explicit_impression_counts_more_than_an_implicit_one():
    event = click("u", "a", 5.0, impression=("a", "e"), recommendation="R")
    assert lists(event, answered={"R": ["c", "a"]}).items_SK.tolist() == [[0, 4]]


def test_two_clicks_in_one_explicit_list_are_one_list_too():
    shown = ("a", "b", "c")
    events = [click("u", item, at, impression=shown) for item, at in (("c", 9.0), ("a", 5.0))]
    assert lists(*events).clicks_SK.tolist() == [[True, False, True]]


def test_one_list_seen_by_two_users_or_at_two_times_is_two():
    shown = ("a", "b")
    found = lists(
        click("u", "a", 5.0, impression=shown),
        click("v", "a", 5.0, impression=shown),
        click("u", "b", 5.0 + sv.TOGETHER + 1, impression=shown),
    )
    assert len(found) == 3


def test_a_list_that_is_forgotten_later_stays_with_its_event():
    event = resolved(click("u", "a", 5.0, recommendation="R"), {"R": ["c", "a"]})
    assert sv.slate_log([event], AT, {"u": 0}).items_SK.tolist() == [[2, 0]]


def test_an_update_reads_the_clicks_before_a_list_and_no_later_ones(made):
    """Against the plain way, one list after another."""
    _, _, version = made
    luck = torch.Generator().manual_seed(0)
    past, rows = [], []
    for user in range(7):
        times = sorted(torch.randint(0, 50, (user * 2,), generator=luck).tolist())
        past.append([(float(t), f"i{(t * 7 + user) % 45}") for t in times])
        rows += [(user, when) for when in (0, 25, 25.5, 99)]
    past[3].insert(0, (0.0, "unknown"))
    past[6] = [(0.0, "i1"), (25.0, "i2"), (25.0, "i3"), (25.5, "i4"), (40.0, "i5")]
    user, when = (torch.tensor(part) for part in zip(*rows, strict=True))
    log = SlateLog(user, when.double() / 3600, *[torch.zeros(len(rows), 1).long()] * 3)
    found = sv.states_before(version, past, log)
    for row, (user, when) in enumerate(rows):
        clicks = [item for time, item in past[user] if time < when]
        torch.testing.assert_close(found[row], sv.state(version, clicks))


def test_a_click_without_a_list_or_beside_it_has_no_place():
    found = lists(click("u", "a", 5.0), click("u", "d", 6.0, impression=("b", "c")))
    assert found.items_SK.tolist() == [[0, -1, -1], [1, 2, 3]]
    assert found.position_SK.tolist() == [[-1, -1, -1], [0, 1, -1]]
    assert found.clicks_SK.tolist() == [[True, False, False], [False, False, True]]


@pytest.mark.parametrize("kind", ["click", "Click", "purchase", "Watch", "add to cart", "rate"])
def test_whatever_a_user_did_with_an_item_is_no_dislike(kind):
    found = lists(Event("u", "b", kind, 5.0, ("a", "b")))
    assert found.clicks_SK.tolist() == [[False, True]]
    assert click_past(kind) == {"u": [(5.0, "b")]}


def click_past(kind):
    return service_requests.past_of([Event("u", "b", kind, 5.0)])


@pytest.mark.parametrize("more", [{}, {"EVENT_TYPE": None}, {"EVENT_TYPE": "buy"}])
def test_a_row_that_names_no_kind_of_event_is_a_click(more):
    row = {"USER_ID": "u", "ITEM_ID": "b", "TIMESTAMP": 5}
    (event,) = service_requests.events_of([row | more])
    assert event.engaged and event.kind == (more.get("EVENT_TYPE") or "click")


@pytest.mark.parametrize("kind", ["seen", "Seen", "impression", "IMPRESSION"])
def test_the_kinds_that_mean_only_seen_are_a_closed_list(kind):
    found = lists(Event("u", "b", kind, 5.0, ("a", "b")))
    assert found.items_SK.tolist() == [[0, 1]] and not found.clicks_SK.any()
    assert click_past(kind) == {}
    alone = lists(Event("u", "b", kind, 5.0))
    assert alone.items_SK.tolist() == [[1]] and not alone.clicks_SK.any()


def test_an_update_with_a_purchase_is_the_one_with_a_click(made):
    _, items, version = made
    shown, biases = ("i1", "i2", "i3"), {}
    for kind in ("click", "purchase", "seen"):
        event = Event("u1", "i2", kind, version.latest + 60, shown)
        after = sv.update(version, [event], items, {}).known.mean_IP
        biases[kind] = float((after - version.known.mean_IP)[version.at["i2"], -1])
    assert biases["purchase"] == biases["click"] > 0 > biases["seen"]


def test_without_what_was_shown_lists_are_far_better_than_chance():
    """Clicks alone, the commonest input: ranked by the true chances, beside lists at random and
    beside what the same clicks with their lists teach."""
    world = click_world.draw(3, users=80, warm=120, cold=12, each_day=0)
    log = click_world.history(world)
    events, items = bench_campaign.as_data(world, log)
    alone = [sv.replace(event, impression=()) for event in events]
    people = sorted({event.user for event in events}, key=lambda name: int(name[1:]))
    chance = world.attraction(torch.tensor([int(name[1:]) for name in people]), 0)
    looks, names = click_world.examination(10), [f"i{item}" for item in range(world.items)]
    best = (chance.topk(10).values * looks).sum(1)

    def ndcg(given):
        version, past = sv.full(given, items, Recipe(steps=80)), service_requests.past_of(given)
        rows = [version.at[name] for name in names]
        told = [[item for _, item in past[user]] for user in people]
        phi = torch.stack([sv.state(version, clicks) for clicks in told])
        score = (phi @ version.known.mean_IP[rows].T).masked_fill(chance == 0, -torch.inf)
        earned = (chance.gather(1, score.topk(10).indices) * looks).sum(1)
        share = torch.sigmoid(phi @ version.known.mean_IP.T)
        return float((earned / best).mean()), float(share.mean())

    random = float(((chance.sum(1) / (chance > 0).sum(1)) * looks.sum() / best).mean())
    (clicks_only, share), (both, _) = ndcg(alone), ndcg(events)
    assert clicks_only > random + 0.5 * (both - random) and both > random
    assert share < 0.5  # not every item is liked by everybody


def test_unknown_items_keep_the_others_places_and_a_seen_list_has_no_click():
    event = Event("u", None, "seen", 5.0, ("?", "b"))
    found = lists(event)
    assert found.items_SK.tolist() == [[1]] and found.position_SK.tolist() == [[1]]
    assert not found.clicks_SK.any()
    assert len(lists(click("nobody", "a", 1.0))) == 0


def test_full_training_reads_everything_and_keeps_cold_items(made):
    events, items, version = made
    assert set(version.items) == set(items)
    assert version.latest == max(event.time for event in events)
    assert set(version.metrics) == {"mrr_at_25", "precision_at_10", "coverage"}


def test_offline_metrics_are_of_a_network_that_never_saw_the_tested_users(made, monkeypatch):
    events, items, _ = made
    logs, asked, train = [], [], sv.item_network.train
    monkeypatch.setattr(
        sv.item_network, "train", lambda log, *told: logs.append(log) or train(log, *told)
    )
    monkeypatch.setattr(sv, "offline_metrics", lambda *told, **_: asked.append(told) or {})
    version = sv.full(events, items, sv.replace(RECIPE, steps=1), weight=0.3)
    (net, _, log, tested, weight, _), (rest, whole) = asked[0], logs
    assert weight == 0.3 and tested.sum() == 9 and net is not version.net
    assert set(rest.user_S.tolist()) == set(log.user_S.tolist()) - set(
        tested.nonzero()[:, 0].tolist()
    )
    assert len(whole) == len(log) > len(rest)


def test_offline_metrics_explore_what_is_new_when_the_log_ends(made, monkeypatch):
    events, items, _ = made
    asked = []
    monkeypatch.setattr(sv, "offline_metrics", lambda *told, **_: asked.append(told) or {})
    version = sv.full(events, items, sv.replace(RECIPE, steps=1))
    new = [version.created[name] > version.latest - 30 * DAY for name in version.items]
    assert asked[0][5].tolist() == new and sum(new) == 5


def test_an_update_keeps_the_network_and_takes_in_items_and_events(made):
    _, items, version = made
    more = items | {"new": {"GENRES": "g1", "CREATION_TIMESTAMP": None}}
    event = click("u1", "i44", version.latest + 60, impression=("i43", "i44"))
    after = sv.update(version, [event], more, {"u1": [(0.0, "i3")]})
    assert after.items == [*version.items, "new"]
    assert after.created["new"] == after.latest == version.latest + 60
    row = len(version.items)
    torch.testing.assert_close(
        after.known.covariance_IPP[row], torch.diag(version.known.prior_P)
    )
    table, _ = sv.category_table(more, ["new"], vocabulary=version.categories)
    assert table.sum() == 1
    torch.testing.assert_close(after.known.mean_IP[row], version.net.tower(table)[0])
    for name, value in version.net.gru.state_dict().items():
        assert torch.equal(value, after.net.gru.state_dict()[name])
    moved = after.known.mean_IP[:row, -1] - version.known.mean_IP[:, -1]
    assert moved[version.at["i44"]] > 0 > moved[version.at["i43"]]
    assert int((moved != 0).sum()) == 2


def test_an_update_by_a_click_without_its_list_moves_its_user_and_no_item(made):
    _, items, version = made
    event = click("u1", "i4", version.latest + 60)
    after = sv.update(version, [event], items, {"u1": [(0.0, "i3")]})
    assert torch.equal(after.known.mean_IP, version.known.mean_IP)
    assert after.latest == event.time
    before, later = (sv.state(after, clicks) for clicks in (["i3"], ["i3", "i4"]))
    assert not torch.equal(before, later)


def test_an_update_without_news_changes_nothing(made):
    _, items, version = made
    after = sv.update(version, [], items, {})
    assert after.known is version.known and after.items == version.items


def test_answers_leave_out_clicks_and_sum_to_one_over_what_was_ranked(made):
    _, _, version = made
    found = sv.answer(version, ["i1", "i2"], 0.0, 30, 500)
    names = [name for name, _ in found]
    assert len(names) == len(version.items) - 2 and not {"i1", "i2"} & set(names)
    assert abs(sum(share for _, share in found) - 1) < 1e-5


def test_a_ranking_holds_all_that_was_given_and_unknown_ones_last(made):
    _, _, version = made
    found = sv.answer(version, ["i1"], 0.0, 30, 9, ["?", "i1", "i2"])
    assert {name for name, _ in found} == {"?", "i1", "i2"} and found[-1] == ("?", 0.0)


def test_a_ranking_is_in_the_order_of_the_list_for_the_same_user(made):
    _, _, version = made
    best = [name for name, _ in sv.answer(version, ["i1"], 0.0, 30, 9)]
    found = sv.answer(version, ["i1"], 0.0, 30, 9, sorted(best))
    assert [name for name, _ in found] == best != sorted(best)


def test_the_cut_off_decides_who_is_explored(made):
    """Exactly at the cut-off is too old."""
    _, _, version = made
    newest = max(version.created.values())
    moved = sv.replace(version, latest=newest + 7 * DAY)
    plain = sv.answer(moved, [], 0.0, 30, 10)
    luck = torch.Generator().manual_seed(0)
    assert sv.answer(moved, [], 1.0, 7.0, 10, generator=luck) == plain
    assert sv.answer(moved, [], 1.0, 7.01, 10, generator=luck) != plain


def test_a_file_gives_the_same_answers_and_runs_no_code(made, tmp_path):
    _, _, version = made
    sv.save(version, tmp_path / "v.pt")
    again = sv.load(tmp_path / "v.pt")
    assert sv.answer(again, ["i1"], 0.0, 30, 5) == sv.answer(version, ["i1"], 0.0, 30, 5)
    assert [path.name for path in tmp_path.iterdir()] == ["v.pt"]
    (tmp_path / "bad.pt").write_bytes(pickle.dumps(Touches(tmp_path / "ran")))
    with pytest.raises(Exception, match="."):
        sv.load(tmp_path / "bad.pt")
    assert not (tmp_path / "ran").exists()


class Touches:
    """Makes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_an_answer_reads_the_latest_clicks_of_many(made):
    _, _, version = made
    many = [f"i{n % 45}" for n in range(sv.LONGEST + 30)]
    latest = sv.state(version, many[-sv.LONGEST :])
    torch.testing.assert_close(sv.state(version, many), latest)
    assert not torch.allclose(sv.state(version, many[: sv.LONGEST]), latest)


def test_a_version_that_cannot_be_written_whole_leaves_the_old_one(made, tmp_path, monkeypatch):
    _, _, version = made
    path = tmp_path / "v.pt"
    sv.save(version, path)

    def torn(_, where):
        with open(where, "wb") as file:
            file.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(sv.torch, "save", torn)
    with pytest.raises(OSError, match="no space"):
        sv.save(sv.replace(version, latest=0.0), path)
    assert sv.load(path).latest == version.latest


def test_similar_items_point_the_same_way_whatever_their_bias(made):
    _, _, version = made
    mean = torch.zeros_like(version.known.mean_IP)
    mean[:, 0] = -1.0
    for item, vector, bias in (
        ("i1", (1.0, 0.0), 5.0),
        ("i2", (2.0, 0.0), -5.0),
        ("i3", (1.0, 1.0), 5.0),
    ):
        mean[version.at[item], :2], mean[version.at[item], -1] = torch.tensor(vector), bias
    known = sv.replace(version.known, mean_IP=mean)
    found = sv.similar(sv.replace(version, known=known), "i1", 2)
    assert [item for item, _ in found] == ["i2", "i3"]
    assert [score for _, score in found] == pytest.approx([1, 0.5**0.5])


def test_too_few_events_or_none_of_the_type_are_refused(made):
    events, items, _ = made
    with pytest.raises(ValueError, match="1000 are needed"):
        sv.full(events[:999], items, RECIPE)
    other = [sv.replace(event, kind="seen") for event in events]
    with pytest.raises(ValueError, match="only tell what was seen"):
        sv.full(other, items, RECIPE)
