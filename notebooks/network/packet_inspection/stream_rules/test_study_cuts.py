"""The arms see the same samples and cuts, and differ in what crosses a cut."""

import pytest
from helpers import data, receipts
from press.study import hold, record

from . import compile
from . import study_cuts as study

LOSSES = {"state": None, "packet": 0, "tail_64": 64, "tail_512": 512}


@pytest.fixture(scope="module")
def seen():
    try:
        return hold(study.STUDY)
    except data.DataError as error:
        pytest.skip(str(error))


def test_arms_are_handed_the_same_samples_and_their_own_memory(seen):
    assert {name for name, _ in seen} == set(LOSSES)
    for (name, seed), one in seen.items():
        assert one.job.arm.loss == LOSSES[name]
        assert (one.job.train, one.job.choice) == (None, None) and one.job.arm.start == "new"
        assert one.tests["test"] == study.parts(seed, study.STUDY.trial)["test"].data


def test_seeds_draw_other_samples_and_sizes_are_all_rules_and_cuts(seen):
    assert list(study.STUDY.seeds) == [0, 1, 2, 3, 4]
    assert study.STUDY.sizes == {"every_rule": 1, "tail_cuts": 8}
    files = [[file for _, file, _ in seen["state", seed].tests["test"]] for seed in (0, 1)]
    assert not set(files[0]) & set(files[1])


def test_what_is_to_be_said_names_the_rule_of_the_sample():
    try:
        held = study.parts(0, {"every_rule": 1})["test"].data
    except data.DataError as error:
        pytest.skip(str(error))
    assert len(held) == 65
    assert [name for name, _, said in held if name not in said] == []


def test_yara_says_what_is_to_be_said_and_not_what_is_judged(monkeypatch):
    class Judge:
        def match(self, data):
            return [type("Match", (), {"rule": name}) for name in ("eicar", "unknown")]

    monkeypatch.setattr(study.yara, "compile", lambda source: Judge())
    try:
        held = study.parts(0, study.STUDY.trial)["test"].data
    except data.DataError as error:
        pytest.skip(str(error))
    assert all("eicar" in said and "unknown" not in said for _, _, said in held)
    assert any(said == {"eicar"} for _, _, said in held)


@pytest.mark.parametrize(
    ("tail", "read"),
    [(None, [b"ab", b"cd", 0]), (0, [b"ab", 0, b"cd", 0]), (1, [b"ab", 0, b"bcd", 0])],
)
def test_the_state_sees_packets_and_a_tail_a_file_for_each(monkeypatch, tail, read):
    seen = []

    class Spy:
        def feed(self, packet):
            return seen.append(packet) or []

        def finish(self):
            return seen.append(0) or []

    monkeypatch.setattr(study, "rules", lambda: ([], [], Spy()))
    assert study.said_of([b"ab", b"cd"], tail) == set() and seen == read


@pytest.fixture(scope="module")
def matcher():
    return compile('rule r { strings: $a = "0123456789" condition: $a }')[0]


@pytest.fixture
def ten(monkeypatch, matcher):
    """One rule whose signature has ten bytes, and a sample with it in the middle."""
    monkeypatch.setattr(study, "rules", lambda: ([], [], matcher))
    return [("r", b"....0123456789......", {"r"})]


@pytest.mark.parametrize(
    ("tail", "missed"), [(None, 0), (0, 9), (4, 5), (8, 1), (9, 0), (64, 0)]
)
def test_a_tail_finds_what_it_reaches_back_for(ten, tail, missed):
    made = study.Job("any", study.Arm(loss=tail), 0, {"tail_cuts": 99})
    assert study.judge(None, ten, made) == {"missed": missed / 19, "unequal": missed / 19}


def test_a_verdict_too_many_is_unequal_and_not_missed(ten):
    ((name, file, _),) = ten
    made = study.Job("any", study.Arm(loss=None), 0, {"tail_cuts": 99})
    assert study.judge(None, [(name, file, set())], made) == {"missed": 0, "unequal": 1}


@pytest.mark.parametrize("seed", [0, 1])
def test_saved_states_say_what_two_whole_packets_say(seed):
    try:
        held = study.parts(seed, {"every_rule": 6})["test"].data
    except data.DataError as error:
        pytest.skip(str(error))
    for _, file, _ in sorted(held, key=lambda one: len(one[1]))[:5]:
        cuts = range(1, len(file), 1 + len(file) // 30)
        found = study.at_every_cut(file)
        assert len(found) == len(file) - 1
        for cut in cuts:
            assert found[cut - 1] == study.said_of([file[:cut], file[cut:]], None)


@pytest.mark.parametrize("lost", ["state", "history", "header"])
def test_a_matcher_that_forgets_between_packets_is_caught_at_the_cuts(monkeypatch, lost):
    text = 'rule r { strings: $a = "0123456789" condition: uint8(0) == 0x2E and $a }'
    matcher = compile(text)[0]
    feed, empty = matcher.feed, dict(vars(matcher))[lost]

    def forgetful(data):
        if len(data) > 1:  # small packets are read well: only a true cut shows the fault
            setattr(matcher, lost, type(empty)(empty))
        return feed(data)

    matcher.feed = forgetful
    monkeypatch.setattr(study, "rules", lambda: ([], [], matcher))
    file = b"......" + b"0123456789" + b"......"
    found = study.at_every_cut(file)
    assert found == [study.said_of([file[:cut], file[cut:]], None) for cut in range(1, 22)]
    assert set() in found


def test_a_cut_is_drawn_alike_for_all_that_forget(ten, monkeypatch):
    seen = []
    monkeypatch.setattr(study, "said_of", lambda two, tail: seen.append(len(two[0])) or {"r"})
    for tail in (0, 64):
        made = study.Job("any", study.Arm(loss=tail), 3, {"tail_cuts": 5})
        study.judge(None, ten, made)
    assert seen[:5] == seen[5:] and len(set(seen[:5])) == 5


def test_a_tail_grows_over_short_packets(ten):
    packets = [bytes([b]) for b in ten[0][1]]
    assert study.said_of(packets, 9) == {"r"} and study.said_of(packets, 8) == set()
    assert study.said_of(packets, None) == {"r"}


def test_what_is_recorded_points_the_right_way():
    share = {"state": 0.0, "packet": 0.7, "tail_64": 0.5, "tail_512": 0.2}
    found = {
        name: {seed: {"test": {"missed": one, "unequal": one}} for seed in range(5)}
        for name, one in share.items()
    }
    receipt = receipts.start("packets", "cpu")
    record(study.STUDY, receipt, found)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["study_state_unequal"] == 0 and told["study_tail_64_missed"] == 50
    for name, more in {"packet": 70, "tail_64": 50, "tail_512": 20}.items():
        assert told[f"study_{name}_misses_more"] == pytest.approx(more)
