"""The study as it is recorded: what each arm is given, what fit and judge do with it, and which
way a difference points.
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

from . import SYSTEMS, VisualTTS, VoiceVector, load_all, train_systems
from . import study_visual_tts as study
from .dubbing import MISSING, ROWS, SCORES
from .study_visual_tts import STUDY

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
BOUNDS = ("ground truth", "copy synthesis", "silence", "read again")
CONTROLS = ("shuffled video", "mismatched text", "teacher-forced")


@pytest.fixture(scope="module")
def seen():
    """What `hold` sees; voices and judge, which are not judged, are given a test to be seen."""
    assert {name for name, arm in STUDY.arms.items() if not arm.test} == {"voices", "scorer"}
    arms = {name: replace(arm, test=("test",)) for name, arm in STUDY.arms.items()}
    return hold(replace(STUDY, arms=arms))


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


@pytest.mark.parametrize("source", ["train", "sync"])
def test_a_tested_speaker_who_trained_a_system_or_its_judge_is_refused(source):
    def parts(seed, sizes):
        made = study.parts(seed, sizes)
        clips = made["test"].data + made[source].data[:1]
        return made | {"test": Part(clips, [clip.voice.variant for clip in clips])}

    with pytest.raises(StudyError, match="share 1 units"):
        hold(STUDY, parts)


def test_systems_get_about_equal_time_and_the_recorded_sizes():
    assert STUDY.sizes["steps_reading"] == 1600 and STUDY.sizes["steps_seeing"] == 900
    assert (STUDY.sizes["clips"], STUDY.sizes["test"], STUDY.sizes["sync"]) == (960, 12, 160)
    assert (STUDY.sizes["voice_steps"], STUDY.sizes["scorer_steps"]) == (400, 300)


@pytest.fixture
def fakes(monkeypatch):
    """What the slice's trainings were handed, by name."""
    told = {}

    def fake(name, result):
        def keep(*given):
            told[name] = given
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


def test_voices_and_judge_learn_from_their_own_clips(fakes):
    face = np.zeros((2, 32, 32), np.uint8)
    clips = [SimpleNamespace(speaker=who, face_THW=face + n) for n, who in enumerate("ab")]
    assert study.fit(job_of("voices", train=clips)) == "vector"
    assert fakes["train_voices"] == (["mel", "mel"], ["a", "b"], 400)
    assert study.fit(job_of("scorer", train=clips)) == "judge"
    items, steps = fakes["train_scorer"]
    assert steps == 300 and [int(one["video"].max()) for one in items] == [0, 1]
    assert [one["mel"] for one in items] == ["mel", "mel"] and set(fakes) >= {"mel_of"}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_scored_by_its_own_judge_over_clips_that_have_a_score(monkeypatch, name):
    clips, told = [SimpleNamespace(nth=n) for n in range(3)], {}

    def row_of(row, given, items, *model):
        told["row"] = row, given, items, model
        return ["a", "b", "c"], [0.1, 0.2, 0.3]

    def scores_of(sound, clip, scorer, length):
        assert scorer == "scorer" and length == pytest.approx(0.1 + 0.1 * clip.nth)
        assert sound == "abc"[clip.nth]
        scores = {score: float(n + clip.nth) for n, score in enumerate(SCORES)}
        return scores | {"gpe": [np.nan, 2.0, 4.0][clip.nth], "ffe": np.nan}

    monkeypatch.setattr(study, "prepare", lambda *given: given)
    monkeypatch.setattr(study, "row_of", row_of)
    monkeypatch.setattr(study, "scores_of", scores_of)
    model = () if name in BOUNDS else ("model",)
    found = study.judge((*model, "voices", "scorer"), clips, job_of(name))
    view = "mouth" if name == "mouth crop" else "face"
    assert told["row"] == (name, clips, (clips, "voices", view), model)
    assert found["gpe"] == 3 and np.isnan(found["ffe"]) and found["distance"] == 1
    wanted = dict(zip(SCORES, found["scores"], strict=True))
    assert wanted["offset"] == SCORES.index("offset") + 1
    assert all(found[one] == wanted[one] for one in ("distance", "mcd", "gpe", "silence"))


def found_of(**rows):
    """Scores by arm and seed, zero where nothing is said."""
    found = {}
    for name in STUDY.arms:
        found[name] = {
            seed: {"test": {"scores": [rows.get(name, {}).get(s, 0.0) for s in SCORES]}}
            for seed in range(3)
        }
        for seed, scores in found[name].items():
            off = 0.01 * seed if name == "both" else 0.0
            named = {score: rows.get(name, {}).get(score, 0.0) + off for score in study.METRICS}
            scores["test"] |= named
    return found | {"voices": {0: {}}, "scorer": {0: {}}}


def test_a_gain_above_zero_says_that_both_is_better():
    scores = {"distance": 0.8, "mcd": 7.0, "gpe": 0.4, "ffe": 0.3, "silence": 0.9}
    worse = {"distance": 1.0, "mcd": 9.0, "gpe": 0.6, "ffe": 0.5, "silence": 0.5}
    receipt = receipts.start("visual_tts", "cpu")
    crop = {"mouth crop": worse | {"mcd": 6.0}}
    record(STUDY, receipt, found_of(both=scores, length=worse, **crop))
    wanted = {"distance": (0.19, "points"), "mcd": (1.99, "dB"), "gpe": (19.0, "%")}
    wanted |= {"ffe": (19.0, "%"), "silence": (41.0, "%"), "crop": (1.01, "dB")}
    for score, (value, unit) in wanted.items():
        one = receipt.metrics[f"study_{score}_gain"]
        assert (one["value"], one["unit"]) == (pytest.approx(value), unit)
        scale = 100 if unit == "%" else 1
        half = scale * 0.01 * 4.302653 / 3**0.5  # Student's t of three seeds
        assert (one["high"] - one["low"]) / 2 == pytest.approx(half, rel=1e-4)
    assert receipt.metrics["study_text_gpe"]["value"] == 0
    assert receipt.metrics["study_both_silence"]["value"] == pytest.approx(91)


def test_the_curve_has_every_row_of_every_seed_and_marks_what_is_missing():
    receipt = receipts.start("visual_tts", "cpu")
    found = found_of(both={"mcd": 7.0, "distance": 0.5}, silence={"gpe": np.nan})
    record(STUDY, receipt, found)
    rows = receipt.curves["rows"]
    assert rows["row"] == [*range(len(ROWS))] * 3
    assert rows["seed"] == [seed for seed in range(3) for _ in ROWS]
    at = ROWS.index("both")
    assert (rows["mcd"][at], rows["distance"][at], rows["vde"][at]) == (7.0, 0.5, 0.0)
    assert rows["gpe"][ROWS.index("silence")] == MISSING
    assert "study_silence_gpe" not in receipt.metrics and "study_gpe_gain" in receipt.metrics


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
        assert job.train is made[part].data and job.seed == 0
        assert job.arm is STUDY.arms[name]
    for name in SYSTEMS:
        assert networks[name].system == name


def test_clips_are_averaged_by_their_mean_without_those_that_have_no_pitch():
    assert study._mean([1.0, 2.0, float("nan"), 6.0]) == 3.0
    assert np.isnan(study._mean([float("nan")]))
