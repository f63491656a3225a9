"""Scores with known answers, the states of a stand, and the log."""

import itertools
import xml.etree.ElementTree as xml
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from . import Event, Inputs, Stand, Thing, event_f1, event_log, idf1, stamps
from .states import SERVICES, VISIT

ZONES = {"aircraft": (0, 0), "fuel truck": (12, 0), "people": (-15, 13)}
SIGHT = {"A": {"aircraft", "people"}, "B": {"aircraft", "fuel truck"}}
PLANE, FUEL = Thing("aircraft", 0, 0), Thing("fuel truck", 12, 0)


@pytest.mark.parametrize(
    ("true", "predicted", "tolerance", "wanted"),
    [
        ([], [], 5, 1.0),
        ([1], [], 5, 0.0),
        ([], [1], 5, 0.0),
        ([10], [15], 5, 1.0),  # that far still counts
        ([10], [15.001], 5, 0.0),
        ([10], [9, 11], 5, 2 / 3),  # a time is paired once
        ([10, 14], [12, 16], 2, 1.0),  # the nearest to 12 is not asked, both have a partner
        ([10, 11], [11, 12], 1, 1.0),
        ([3, 3], [3], 0, 2 / 3),
        ([60, 10], [300, 12], 5, 0.5),  # in any order
    ],
)
def test_f1_of_times(true, predicted, tolerance, wanted):
    assert event_f1(true, predicted, tolerance) == pytest.approx(wanted)


times = st.lists(st.integers(0, 12), max_size=5)


@given(times, times, st.integers(0, 4))
def test_no_pairing_has_more_pairs(true, predicted, tolerance):
    few, many = sorted([true, predicted], key=len)
    best = max(
        sum(abs(a - b) <= tolerance for a, b in zip(few, chosen, strict=True))
        for chosen in itertools.permutations(many, len(few))
    )
    both = len(true) + len(predicted)
    assert event_f1(true, predicted, tolerance) == (2 * best / both if both else 1.0)


@given(times, times, st.integers(0, 4))
def test_f1_is_the_same_both_ways_and_later_by_the_same(true, predicted, tolerance):
    one = event_f1(true, predicted, tolerance)
    assert one == event_f1(predicted, true, tolerance)
    later = [[t + 1000 for t in times] for times in (true, predicted)]
    assert one == event_f1(*later, tolerance)


@pytest.mark.parametrize("tolerance", [-1, float("nan")])
def test_a_tolerance_that_is_none_is_refused(tolerance):
    with pytest.raises(ValueError, match="tolerance"):
        event_f1([1], [1], tolerance)


def test_a_time_that_is_none_is_refused():
    with pytest.raises(ValueError, match="finite"):
        event_f1([float("nan")], [1], 1)


BOX, FAR = [0, 0, 10, 10], [50, 50, 60, 60]


def test_identities_swapped_in_the_middle_count_half():
    true = [([1, 2], [BOX, FAR])] * 4
    swapped = true[:2] + [([2, 1], [BOX, FAR])] * 2
    assert idf1(true, true) == 1 and idf1(true, swapped) == 0.5
    assert idf1(true, [([], [])] * 4) == 0 and idf1([], []) == 1


def test_a_renumbering_changes_nothing_and_a_new_number_each_frame_much():
    true = [([1], [BOX])] * 4
    assert idf1(true, [([9], [BOX])] * 4) == 1
    assert idf1(true, [([at], [BOX]) for at in range(4)]) == pytest.approx(2 / 8)


def watch(frames, **more):
    stand = Stand(SIGHT, ZONES, **more)
    for time, camera, things in frames:
        stand.look(time, camera, things)
    return stand


def standing(end, at=0):
    return [(t, "A", [PLANE]) for t in range(at, end, 6)]


def test_on_block_is_the_first_of_two_looks_and_one_look_is_none():
    assert watch(standing(12)).events == [Event("on block", 0, 6, "A")]
    assert watch(standing(6)).events == []


def test_what_drives_through_is_not_at_work():
    through = Thing("fuel truck", 12, 0, speed=2.0)
    frames = standing(12) + [(t, "B", [through]) for t in range(12, 30, 6)]
    assert len(watch(frames).events) == 1


def test_a_truck_s_stay_has_two_ends():
    frames = standing(12) + [(t, "B", [PLANE, FUEL]) for t in range(12, 60, 6)]
    frames += [(t, "B", [PLANE]) for t in range(60, 120, 6)]
    found = watch(frames).events[1:]
    assert [(one.name, one.time) for one in found] == [("fuel start", 12), ("fuel end", 57)]
    assert found[1].told == 90  # after the gap


def test_what_hides_for_a_moment_has_not_left():
    frames = standing(12)
    frames += [(t, "B", [PLANE] + [FUEL] * (t % 30 < 12)) for t in range(12, 132, 6)]
    assert [one.name for one in watch(frames).events] == ["on block", "fuel start"]


def test_nothing_ends_because_nobody_looks():
    frames = standing(12) + [(t, "B", [PLANE, FUEL]) for t in range(12, 60, 6)]
    blind = frames + standing(600, 60)  # A goes on, and cannot see the fuel truck
    assert [one.name for one in watch(blind).events] == ["on block", "fuel start"]
    dropped = frames + [(600, "B", [PLANE, FUEL])]
    assert [one.name for one in watch(dropped).events] == ["on block", "fuel start"]


def test_the_second_walk_is_boarding():
    walk = Thing("people", -15, 13, 1.0)
    frames = standing(12)
    for begin in (12, 300):
        frames += [(t, "A", [PLANE, walk]) for t in range(begin, begin + 60, 6)]
        frames += [(t, "A", [PLANE]) for t in range(begin + 60, begin + 180, 6)]
    names = [one.name for one in watch(frames).events[1:]]
    assert names == ["deboarding start", "deboarding end", "boarding start", "boarding end"]


def test_off_block_is_when_it_moves():
    frames = standing(60) + [
        (t, "B", [Thing("aircraft", 0, -(t - 54) / 2)]) for t in range(60, 90, 6)
    ]
    assert watch(frames).events[-1] == Event("off block", 60, 66, "B")


def test_an_aircraft_that_moves_has_no_chocks_any_more():
    zones, sight = {**ZONES, "chocks": (0, 20)}, {"A": {"aircraft", "chocks"}}
    stand, chocks = Stand(sight, zones), Thing("chocks", 0, 20)
    for time in range(0, 60, 6):
        stand.look(time, "A", [PLANE, chocks])
    for time in (60, 66):
        stand.look(time, "A", [Thing("aircraft", 0, 50 - time)])
    names = [(one.name, one.time) for one in stand.events[-2:]]
    assert names == [("chocks end", 54), ("off block", 60)]


def test_somebody_in_the_way_of_a_rolling_aircraft_is_told_and_beside_it_not():
    rolling = Thing("aircraft", 0, -20, 3.0)
    frames = [(0, "A", [rolling, Thing("people", 2, 5)]), (6, "A", [rolling, FUEL])]
    found = watch(frames).intruders
    assert [(one.name, one.time) for one in found] == [("people in the way", 0)]
    assert watch([(0, "A", [PLANE, Thing("people", 2, 5)])]).intruders == []


def test_one_camera_sees_the_aircraft_come_and_another_what_is_in_its_way():
    far, cart = Thing("aircraft", 0, -40), Thing("supply cart", 2, -8, 1.6)
    frames = [(0, "A", [far]), (6, "B", [cart]), (60, "B", [cart])]
    found = watch(frames).intruders
    assert [(one.name, one.time) for one in found] == [("supply cart in the way", 6)]
    assert watch([(0, "B", [cart]), (6, "B", [cart])]).intruders == []  # nothing comes


def test_an_older_frame_is_refused():
    with pytest.raises(ValueError, match="sort them first"):
        watch([(6, "A", []), (0, "A", [])])


def full():
    names = [f"{name} {end}" for name in (*SERVICES, "stairs") for end in ("start", "end")]
    events = [Event(name, 60 + at, 60 + at, "A") for at, name in enumerate(names)]
    return [Event("on block", 0, 6, "A"), *events, Event("tug start", 200, 206, "A")]


def test_stamps_of_a_whole_turnaround():
    events = [*full(), Event("off block", 300, 306, "B")]
    found = stamps(events)
    assert (found.aibt, found.acgt, found.aobt, found.ardt_inferred) == (0, 60, 300, 200)
    assert found.asbt_proxy == next(e.time for e in events if e.name == "boarding start")
    assert stamps(reversed(events)) == found


def test_chocks_and_the_tug_are_no_ground_handling():
    events = [Event(f"{name} start", at, at, "A") for at, name in enumerate(("chocks", "tug"))]
    assert stamps(events).acgt is None
    assert stamps([*events, Event("bags start", 9, 9, "B")]).acgt == 9


@pytest.mark.parametrize("name", [f"{name} end" for name in (*SERVICES, "stairs")])
def test_ready_is_not_inferred_while_one_is_missing(name):
    assert stamps(one for one in full() if one.name != name).ardt_inferred is None


def test_inputs_are_no_stamps():
    assert not set(Inputs._fields) & set(stamps([])._fields)
    assert all(one is None for one in stamps([]))
    assert set(VISIT.values()) | {"deboarding", "boarding"} >= set(SERVICES)


CASES = {"R1 <&": full(), "R2": [Event("on block", 1.25, 1.25, "AB")], "R3": []}


def test_a_log_comes_back_as_it_was_written(tmp_path):
    event_log.write(tmp_path / "log.xes", CASES)
    found = event_log.read(tmp_path / "log.xes")
    wanted = {
        case: sorted((e.time, e.name, e.cameras) for e in events)
        for case, events in CASES.items()
    }
    assert {
        c: sorted((e.time, e.name, e.cameras) for e in es) for c, es in found.items()
    } == wanted


@pytest.mark.parametrize(("text", "words"), [("<a/>", "begins with <log>"), ("<log", "no XML")])
def test_what_is_no_log_is_refused(tmp_path, text, words):
    (tmp_path / "log.xes").write_text(text)
    with pytest.raises(ValueError, match=words):
        event_log.read(tmp_path / "log.xes")


def test_a_log_keeps_to_the_schema_of_the_standard(tmp_path):
    event_log.write(tmp_path / "log.xes", CASES)
    log = xml.parse(tmp_path / "log.xes").getroot()
    assert Decimal(log.get("xes.version")) == Decimal("1849.2016")  # xs:decimal, required
    assert [one.tag.split("}")[1] for one in log] == ["extension"] * 4 + ["trace"] * 3
    prefixes = {one.get("prefix") for one in log[:4]}
    for trace in log[4:]:
        kinds = [one.tag.split("}")[1] for one in trace]
        assert kinds == ["string"] + ["event"] * (len(kinds) - 1)  # attributes come first
        for event in trace[1:]:
            keys = [one.get("key") for one in event]
            assert len(set(keys)) == 4 and {key.split(":")[0] for key in keys} <= prefixes
            assert [one.tag.split("}")[1] for one in event] == ["string"] * 3 + ["date"]
            assert event[3].get("value").endswith("+00:00")  # in UTC


@pytest.mark.parametrize("spoil", [("concept:name", "x"), ("complete", "sung"), ("+00:00", "")])
def test_a_log_that_is_not_whole_is_refused(tmp_path, spoil):
    event_log.write(tmp_path / "log.xes", CASES)
    text = (tmp_path / "log.xes").read_text()
    (tmp_path / "log.xes").write_text(text.replace(*spoil))
    with pytest.raises(ValueError, match="not whole"):
        event_log.read(tmp_path / "log.xes")


def test_pm4py_reads_the_log(tmp_path):
    pm4py = pytest.importorskip("pm4py")
    event_log.write(tmp_path / "log.xes", CASES)
    table = pm4py.read_xes(str(tmp_path / "log.xes"))
    assert len(table) == sum(map(len, CASES.values()))
    assert set(table["case:concept:name"]) == {"R1 <&", "R2"}
    assert set(table["lifecycle:transition"]) == {"start", "complete"}
    seconds = (table["time:timestamp"] - table["time:timestamp"].min()).dt.total_seconds()
    assert seconds.max() == 200
