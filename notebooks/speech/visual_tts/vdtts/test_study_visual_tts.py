"""The studies as they are recorded: what each arm is given, what fit and judge do with it, and
which way a difference points.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import receipts
from helpers.study import Job, Part, StudyError
from press.study import hold, record
from speech_scores import SyncScorer
from talking_faces import SPEAKERS, make_clips

from . import ROWS, SYSTEMS, VisualTTS, VoiceVector, load_all, train_systems
from . import study_visual_tts as study
from .study_visual_tts import LONGER, METRICS, MISSING, STUDY

NEW = ("new", "voices", "scorer")
READING, SEEING = {"steps": "steps_reading"}, {"steps": "steps_seeing"}
LEARNING = {  # arm: what trains it, its start, its steps, system and view
    "voices": ("train", "new", {"steps": "voice_steps"}, {}),
    "scorer": ("sync", "new", {"steps": "scorer_steps"}, {}),
    "text": ("train", NEW, READING, {"system": "text", "view": "face"}),
    "length": ("train", NEW, READING, {"system": "length", "view": "face"}),
    "video": ("train", NEW, SEEING, {"system": "video", "view": "face"}),
    "both": ("train", NEW, SEEING, {"system": "both", "view": "face"}),
    "mouth crop": ("train", NEW, SEEING, {"system": "both", "view": "mouth"}),
}
BOUNDS = ("ground truth", "copy synthesis", "silence", "one pitch", "one pitch for all")
BOUNDS += ("read again",)
CONTROLS = ("shuffled video", "mismatched text", "teacher-forced")


def looked(declared):
    """What `hold` sees; voices and judge, which are not judged, are given a test to be seen."""
    assert {name for name, arm in declared.arms.items() if not arm.test} == {"voices", "scorer"}
    arms = {name: replace(arm, test=("test",)) for name, arm in declared.arms.items()}
    return hold(replace(declared, arms=arms))


@pytest.fixture(scope="module")
def seen():
    return looked(STUDY)


def same(clips, others):
    pairs = zip(clips, others, strict=True)
    return all(np.array_equal(one.sound_N, other.sound_N) for one, other in pairs)


def started(start, seed):
    """What `hold` hands for a start: the word itself, or what that arm made."""
    if start == "new":
        return start
    return tuple(one if one == "new" else ("made", one, seed) for one in start)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", LEARNING)
def test_an_arm_that_learns_is_given_what_it_is_named_for(seen, name, seed):
    train, start, loss, setting = LEARNING[name]
    job, made, tests = seen[name, seed]
    count = {"train": ("train", 3, 1), "sync": ("sync", 2, 5)}[train]
    assert same(job.train, make_clips(*count)) and job.choice is None
    assert (job.arm.loss, job.arm.setting, job.arm.seeds) == (loss, setting, None)
    assert job.start == started(start, seed)
    assert made == ("made", name, seed) and not job.arm.shares
    assert list(tests) == ["test"]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", BOUNDS + CONTROLS)
def test_bounds_and_controls_learn_nothing_of_their_own(seen, name, seed):
    job, made, tests = seen[name, seed]
    both = ("made", "both", seed)
    assert made == (both if name in CONTROLS else started(("voices", "scorer"), seed))
    assert job.arm.train is job.arm.choice is job.arm.loss is None and not job.arm.shares
    assert job.arm.setting == {"row": name} and list(tests) == ["test"]


def test_all_are_judged_on_the_same_new_clips_of_other_speakers(seen):
    assert set(STUDY.arms) == {*LEARNING, *BOUNDS, *CONTROLS} == {*ROWS, "voices", "scorer"}
    assert tuple(STUDY.seeds) == (0, 1, 2, 3)
    for (_, seed), one in seen.items():
        assert same(one.tests["test"], make_clips("test", 2, 100 + seed))
    full = {"clips": 24, "sync": 24, "test": 6}
    units = {name: set(part.units) for name, part in study.parts(0, full).items()}
    assert units == {name: {one.variant for one in SPEAKERS[name]} for name in SPEAKERS}
    assert not units["test"] & (units["train"] | units["sync"]) and len(units["test"]) == 6


def test_the_longer_study_is_two_systems_and_the_bounds_of_this_one_for_ten_times_the_steps():
    assert set(LONGER.arms) == {"voices", "scorer", *BOUNDS, "length", "both"}
    assert all(LONGER.arms[name] == STUDY.arms[name] for name in LONGER.arms)
    more = {name for name, size in LONGER.sizes.items() if size != STUDY.sizes[name]}
    assert more == {"steps_reading", "steps_seeing"}
    assert all(LONGER.sizes[name] == 10 * STUDY.sizes[name] for name in more)
    assert (tuple(LONGER.seeds), LONGER.name, LONGER.added) == ((0, 1, 2), "longer", "")
    same_work = ("notebook", "metrics", "parts", "fit", "judge", "threads", "trial")
    assert all(getattr(LONGER, one) == getattr(STUDY, one) for one in same_work)


def test_the_longer_study_is_handed_what_this_one_is(seen):
    for (name, seed), job in looked(LONGER).items():
        mine, (its, made, tests) = job, seen[name, seed]
        assert (mine.job.start, mine.made, mine.job.arm) == (its.start, made, its.arm)
        assert same(mine.job.train or [], its.train or [])
        assert same(mine.tests["test"], tests["test"])


@pytest.mark.parametrize("source", ["train", "sync"])
def test_a_tested_speaker_who_trained_a_system_or_its_judge_is_refused(source):
    def parts(seed, sizes):
        made = study.parts(seed, sizes)
        clips = made["test"].data + made[source].data[:1]
        return made | {"test": Part(clips, [clip.voice.variant for clip in clips])}

    with pytest.raises(StudyError, match="share 1 units"):
        hold(STUDY, parts)


@pytest.mark.parametrize("source", ["train", "sync"])
def test_its_groups_come_from_the_split_that_refuses_a_voice_in_two(monkeypatch, source):
    shared = SPEAKERS["test"][:1] + SPEAKERS[source]
    monkeypatch.setitem(SPEAKERS, source, shared)
    with pytest.raises(ValueError, match=f"'{source}' and 'test' share"):
        study.parts(0, STUDY.small().sizes)


def test_systems_get_about_equal_time_and_the_recorded_sizes():
    assert STUDY.sizes["steps_reading"] == 1600 and STUDY.sizes["steps_seeing"] == 900
    assert (STUDY.sizes["clips"], STUDY.sizes["test"], STUDY.sizes["sync"]) == (960, 12, 160)
    assert (STUDY.sizes["voice_steps"], STUDY.sizes["scorer_steps"]) == (400, 300)


@pytest.fixture
def fakes(monkeypatch):
    """What the slice's trainings were handed, by name."""
    told = {}

    def fake(name, result):
        def keep(*given, seed=None):
            told[name] = given if seed is None else (*given, f"seed {seed}")
            return result

        monkeypatch.setattr(study, name, keep)

    for name, result in {
        "train": ("network", {}),
        "train_voices": ("vector", 0.9),
        "train_scorer": ("judge", 0.8),
        "prepare": "items",
        "mel_of": "mel",
    }.items():
        fake(name, result)
    return told


def job_of(name, **given):
    return Job(name, STUDY.arms[name], 3, STUDY.sizes, **given)


@pytest.mark.parametrize("name", [name for name in LEARNING if name in ROWS])
def test_a_system_learns_from_its_clips_with_its_view_steps_and_seed(fakes, name):
    made = study.fit(job_of(name, start=("new", "voices", "scorer"), train="clips"))
    _, _, loss, setting = LEARNING[name]
    assert fakes["prepare"] == ("clips", "voices", setting["view"])
    steps = {"steps_reading": 1600, "steps_seeing": 900}[loss["steps"]]
    assert fakes["train"] == (setting["system"], "items", steps, 3, 16)
    assert made == ("network", "voices", "scorer")


def test_voices_and_judge_learn_from_their_own_clips_and_anew_for_each_seed(fakes):
    face = np.zeros((2, 32, 32), np.uint8)
    clips = [SimpleNamespace(speaker=who, face_THW=face + n) for n, who in enumerate("ab")]
    assert study.fit(job_of("voices", train=clips)) == "vector"
    assert fakes["train_voices"] == (["mel", "mel"], ["a", "b"], 400, "seed 3")
    assert study.fit(job_of("scorer", train=clips)) == "judge"
    items, steps, seed = fakes["train_scorer"]
    assert (steps, seed) == (300, "seed 3")
    assert [int(one["video"].max()) for one in items] == [0, 1]
    assert [one["mel"] for one in items] == ["mel", "mel"] and set(fakes) >= {"mel_of"}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_scored_by_its_own_judge_over_clips_that_have_a_score(monkeypatch, name):
    clips, told = [SimpleNamespace(nth=n) for n in range(3)], {}

    def row_of(row, given, items, *model):
        told["row"] = row, given, items, model
        return ["a", "b", "c"], [0.1, 0.2, 0.3]

    def scores_of(sound, clip, scorer, length, hear):
        assert (scorer, hear) == ("scorer", "an ear of 3 from 12")
        assert length == pytest.approx(0.1 + 0.1 * clip.nth) and sound == "abc"[clip.nth]
        found = {score: float(n + clip.nth) for n, score in enumerate(METRICS)}
        del found["minutes"], found["recognised"]  # it is not installed
        return found | {"gpe": [np.nan, 2.0, 4.0][clip.nth], "ffe": np.nan, "offset": -clip.nth}

    monkeypatch.setattr(study, "prepare", lambda *given: given)
    monkeypatch.setattr(study, "row_of", row_of)
    monkeypatch.setattr(study, "scores_of", scores_of)
    ear = "an ear of {1} from {0}".format
    monkeypatch.setattr(study, "recogniser", lambda words, n: ear(len(set(words)), n))
    network = SimpleNamespace(seconds=90.0)
    model = () if name in BOUNDS else (network,)
    found = study.judge((*model, "voices", "scorer"), clips, job_of(name))
    view = "mouth" if name == "mouth crop" else "face"
    assert told["row"] == (name, clips, (clips, "voices", view), model)
    assert found["gpe"] == 3 and np.isnan(found["ffe"]) and found["distance"] == 1
    assert found["offset"] == 1, "how far off, early or late"
    assert found.get("minutes") == (1.5 if name in LEARNING else None)
    assert set(METRICS) - set(found) <= {"recognised", "minutes"}
    assert found["words"] == list(METRICS).index("words") + 1


def found_of(declared=STUDY, **rows):
    """Scores by arm and seed, zero where nothing is said; those of "both" grow by the seed."""
    found = {name: {seed: {} for seed in range(3)} for name in declared.arms}
    for name in set(declared.arms) - {"voices", "scorer"}:
        for seed, parts in found[name].items():
            off = 0.01 * seed if name == "both" else 0.0
            told = rows.get(name, {})
            parts["test"] = {score: told.get(score, 0.0) + off for score in METRICS}
    return found


@pytest.mark.parametrize(("declared", "key"), [(STUDY, "study"), (LONGER, "longer")])
def test_a_gain_above_zero_says_that_both_is_better(declared, key):
    both = {"distance": 0.8, "mcd": 7.0, "gpe": 0.4, "ffe": 0.3, "silence": 0.9, "words": 0.8}
    worse = {"distance": 1.0, "mcd": 9.0, "gpe": 0.6, "ffe": 0.5, "silence": 0.5, "words": 0.6}
    receipt = receipts.start("visual_tts", "cpu")
    crop = {"mouth crop": worse | {"mcd": 6.0}}
    record(declared, receipt, found_of(declared, both=both, length=worse, **crop))
    wanted = {"distance": (0.19, "points"), "mcd": (1.99, "dB"), "gpe": (19.0, "%")}
    wanted |= {"ffe": (19.0, "%"), "silence": (41.0, "%"), "words": (21.0, "%")}
    wanted |= {"crop": (1.01, "dB")} if declared is STUDY else {}
    for score, (value, unit) in wanted.items():
        one = receipt.metrics[f"{key}_{score}_gain"]
        assert (one["value"], one["unit"]) == (pytest.approx(value), unit)
        scale = 100 if unit == "%" else 1
        half = scale * 0.01 * 4.302653 / 3**0.5  # Student's t of three seeds
        assert (one["high"] - one["low"]) / 2 == pytest.approx(half, rel=1e-4)
    assert receipt.metrics[f"{key}_length_gpe"]["value"] == pytest.approx(60)
    assert receipt.metrics[f"{key}_both_silence"]["value"] == pytest.approx(91)


def test_the_curve_has_every_row_of_every_seed_and_marks_what_is_missing():
    receipt = receipts.start("visual_tts", "cpu")
    found = found_of(both={"mcd": 7.0, "distance": 0.5}, silence={"gpe": np.nan})
    for parts in found["text"].values():
        del parts["test"]["recognised"]
    record(STUDY, receipt, found)
    rows = receipt.curves["rows"]
    assert rows["row"] == [n for n in range(len(ROWS)) for _ in range(3)]
    assert rows["seed"] == [0, 1, 2] * len(ROWS) and set(rows) == {"row", "seed", *METRICS}
    at = 3 * ROWS.index("both")
    assert rows["distance"][at : at + 3] == [0.5, 0.51, 0.52] and rows["mcd"][at] == 7.0
    assert rows["gpe"][3 * ROWS.index("silence")] == MISSING
    assert rows["recognised"][3 * ROWS.index("text")] == MISSING
    assert "study_silence_gpe" not in receipt.metrics and "study_gpe_gain" in receipt.metrics


def test_the_curve_of_the_longer_study_has_its_own_rows_alone():
    receipt = receipts.start("visual_tts", "cpu")
    record(LONGER, receipt, found_of(LONGER))
    assert {ROWS[n] for n in receipt.curves["rows"]["row"]} == {*BOUNDS, "length", "both"}


@pytest.mark.parametrize(
    ("both", "length", "learned"),
    [
        (0.1, 0.9, "how it moves"),
        (0.3, 0.9, "whose voice it is"),
        (0.45, 0.9, "nothing"),
        (0.45, 0.2, "nothing"),
        (0.3, 0.2, "whose voice it is"),
    ],
)
def test_where_no_pitch_is_learned_a_gain_in_pitch_is_undecided(both, length, learned):
    """The buzz with one pitch for all errs in 80 %, that with each clip's own one in 20 %."""
    receipt = receipts.start("visual_tts", "cpu")
    rows = {"both": {"gpe": both}, "length": {"gpe": length}}
    rows |= {"one pitch for all": {"gpe": 0.8}, "one pitch": {"gpe": 0.2}}
    record(LONGER, receipt, found_of(LONGER, **rows))
    plain, told = (receipt.metrics[f"longer_{name}_gain"] for name in ("gpe", "pitch"))
    assert told["note"] == f"learned: {learned}" and told["value"] == plain["value"]
    assert (told["unit"], told["repeats"]) == ("%", 3)
    ends, own = (told["low"], told["high"]), (plain["low"], plain["high"])
    assert own[0] > 0 or own[1] < 0, "the difference itself is sure"
    wanted = {True: (min(own[0], 0), max(own[1], 0)), False: own}[learned == "nothing"]
    assert ends == pytest.approx(wanted)


def test_a_row_without_a_pitch_leaves_the_gain_in_pitch_unrecorded():
    receipt = receipts.start("visual_tts", "cpu")
    record(LONGER, receipt, found_of(LONGER, both={"gpe": np.nan}))
    assert not {"longer_gpe_gain", "longer_pitch_gain"} & set(receipt.metrics)


def test_the_shipped_networks_are_those_of_the_studys_first_seed(tmp_path):
    jobs = {}

    def fit(job):
        jobs[job.name] = job
        made = {"voices": VoiceVector, "scorer": SyncScorer}.get(job.name)
        if made:
            return made()
        assert isinstance(job.start[1], VoiceVector) and isinstance(job.start[2], SyncScorer)
        return VisualTTS(job.arm.setting["system"]), *job.start[1:]

    small = replace(STUDY.small(), fit=fit)
    networks, notes = load_all(train_systems.main(tmp_path / "some.safetensors", small))
    assert notes == dict(small.sizes) | {"seed": 0}
    assert set(networks) == {*SYSTEMS, "voices", "scorer"} == set(jobs)
    made = small.parts(0, small.sizes)
    for name, job in jobs.items():
        part = "sync" if name == "scorer" else "train"
        assert same(job.train, made[part].data) and job.seed == 0
        assert job.arm is STUDY.arms[name]
    for name in SYSTEMS:
        assert networks[name].system == name


def test_clips_are_averaged_by_their_mean_without_those_that_have_no_pitch():
    assert study._mean([1.0, 2.0, float("nan"), 6.0]) == 3.0
    assert np.isnan(study._mean([float("nan")]))
