"""The study of accents as it is declared: who trains on which voices, how, who is judged."""

from dataclasses import asdict, replace

import digit_speech
import pytest
import torch
from helpers import data, receipts
from helpers.study import Job, StudyError, differences
from press.study import hold, record

from . import study_accents as study
from .training import Recipe

PEOPLE = ["lucas", "yweweler", "nicolas", "george"]
TRAINED = {  # the part, what moves, whether the rate goes as far as the article's updates
    "full": ("voices", "full", True),
    "decoder": ("voices", "decoder", True),
    "batch_norm": ("voices", "batch-norm", True),
    "full_gently": ("voices", "full", False),
    "without_lucas": ("without_lucas", "full", True),
    "without_yweweler": ("without_yweweler", "full", True),
    "without_nicolas": ("without_nicolas", "full", True),
    "without_george": ("without_george", "full", True),
}
READ = {  # who reads which part
    "base_accented": ("base", "accented"),
    "base_source": ("base", "source"),
    "base_shared": ("base", "shared"),
    "full_accented": ("full", "accented"),
    "full_source": ("full", "source"),
    "full_shared": ("full", "shared"),
    "decoder_accented": ("decoder", "accented"),
    "decoder_source": ("decoder", "source"),
    "batch_norm_accented": ("batch_norm", "accented"),
    "batch_norm_source": ("batch_norm", "source"),
    "full_gently_accented": ("full_gently", "accented"),
    "full_gently_source": ("full_gently", "source"),
}
for who in PEOPLE:
    READ |= {f"{who}_base": ("base", who), f"{who}_seen": ("full", who)}
    READ[f"{who}_unseen"] = f"without_{who}", who
PARTS = {  # the recordings of a part: split, speakers, the seed that draws them
    "voices": ("train", PEOPLE, 7),
    "accented": ("test", PEOPLE, 8),
    "source": ("test", ["jackson", "theo"], 8),
    "shared": ("train", PEOPLE, 17),
} | {who: ("test", [who], 9) for who in PEOPLE}
PARTS |= {f"without_{who}": ("train", [o for o in PEOPLE if o != who], 7) for who in PEOPLE}


@pytest.fixture(scope="module")
def parts():
    return study.parts(0, study.STUDY.small().sizes)


def test_each_arm_is_given_what_it_is_named_for(parts):
    seen = hold(study.STUDY, lambda seed, sizes: parts)
    names = {*TRAINED, *READ}
    bases = {name for name, (one, _) in READ.items() if one == "base"}
    assert set(seen) == {(n, s) for n in names for s in ((0,) if n in bases else (0, 1))}
    for (name, seed), one in seen.items():
        job, arm = one.job, one.job.arm
        if name in TRAINED:
            part, mode, far = TRAINED[name]
            assert job.start == "base" and job.train is parts[part].data and not one.tests
            assert asdict(arm.loss) == asdict(Recipe(mode=mode, rate=0.001, batch=8, epochs=1))
            assert dict(arm.setting) == ({"far": True} if far else {}) and not arm.shares
        else:
            start, part = READ[name]
            assert one.made == ("base" if start == "base" else ("made", start, seed)), name
            assert job.train is arm.loss is None and not arm.setting
            assert set(one.tests) == {part} and one.tests[part] is parts[part].data
            assert bool(arm.shares) == (name == "full_shared")
        assert job.choice is None


def test_parts_are_the_recordings_and_voices_that_they_are_named_for(parts):
    folder = data.fetch("fsdd")
    assert set(parts) == set(PARTS)
    for name, (split, speakers, drawn) in PARTS.items():
        count = 12 // len(speakers) if drawn == 7 else 2  # all learn from as many rows
        made = digit_speech.utterances(folder, split, speakers, count=count, seed=drawn)
        (signals, texts), units = parts[name]
        assert texts == [one.text for one in made], name
        assert all(torch.equal(a, b.signal) for a, b in zip(signals, made, strict=True))
        recordings = {word.recording for one in made for word in one.words}
        voices = {f"speaker {who}" for who in speakers} if name != "voices" else set()
        assert set(units) == recordings | voices


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("without_lucas", "voices of all"),
        ("without_george", "george"),
        ("accented", "shared"),
        ("source", "shared"),
        ("nicolas", "shared"),
    ],
)
def test_a_voice_or_a_recording_of_training_in_a_test_is_refused(parts, part, wrong):
    everyone = parts["voices"]._replace(
        units={*parts["voices"].units, *(f"speaker {who}" for who in PEOPLE)}
    )
    found = parts | {part: parts.get(wrong, everyone)}
    with pytest.raises(StudyError, match="share"):
        hold(study.STUDY, lambda seed, sizes: found)


def test_what_is_recorded_has_these_sizes_and_seeds():
    assert study.STUDY.sizes == {"rows": 300, "fresh": 60}
    assert list(study.STUDY.seeds) == [0, 1, 2, 3, 4] and study.STUDY.threads == 1


@pytest.mark.parametrize("name", TRAINED)
def test_a_training_goes_one_epoch_by_the_recipe_of_its_arm(name, monkeypatch):
    told, model, (_, mode, far) = [], object(), TRAINED[name]
    monkeypatch.setattr(study, "train", lambda *given: told.append(given))
    rows = list(range(300)), [f"text {row}" for row in range(300)]
    arm = study.STUDY.arms[name]
    assert study.STUDY.fit(Job(name, arm, 3, {}, model, rows)) is model
    [(trained, signals, texts, recipe)] = told
    assert trained is model and (signals, texts) == rows
    rate = 0.001 * 563 / 38 if far else 0.001  # updates of 4,500 rows, and of 300, by eight
    assert recipe == Recipe(mode=mode, rate=pytest.approx(rate), batch=8, seed=3)


def test_a_network_is_judged_by_the_words_that_it_writes(monkeypatch):
    model, asked = object(), []

    def recognise(network, signals):
        asked.append((network, signals))
        return ["one two", "three four five six"]

    monkeypatch.setattr(study, "recognise", recognise)
    monkeypatch.setattr(study.ctc, "greedy", lambda found: (found, None))
    part = [1, 2], ["one nine", "three four five"]
    assert study.STUDY.judge(model, part, None) == {
        "wer": pytest.approx(2 / 5)
    }  # of five words said
    assert asked == [(model, [1, 2])]


def test_the_base_is_the_shipped_network():
    base = study.STUDY.begin("base", None)
    shipped = study.load_model().state_dict()
    assert all(torch.equal(base.state_dict()[key], value) for key, value in shipped.items())


def test_reductions_are_shares_of_the_base_s_errors_and_only_the_network_differs():
    found = {
        name: {seed: {part: {"wer": 0.8}} for seed in ((0,) if one == "base" else (0, 1))}
        for name, (one, part) in READ.items()
    }

    def rates(name, *values):
        found[name] = {s: {READ[name][1]: {"wer": wer}} for s, wer in enumerate(values)}

    rates("full_accented", 0.2, 0.4)
    rates("full_shared", 0.16, 0.16)
    for who in PEOPLE:
        rates(f"{who}_seen", 0.6, 0.6)
    rates("george_base", 0.4)  # together the bases make 2.8 errors of four
    rates("lucas_seen", 1.0, 0.3)
    rates("lucas_unseen", 1.2, 1.2)
    receipt = receipts.start("asr_finetuning", "cpu")
    record(study.STUDY, receipt, found)
    metrics = receipt.metrics
    one = metrics["study_wer_reduction_accented"]
    assert (one["value"], one["unit"], one["repeats"]) == (pytest.approx(62.5), "%", 2)
    # 75 and 50: Student's t of one degree of freedom times half of their difference
    ends = 62.5 - 12.7062 * 12.5, 62.5 + 12.7062 * 12.5
    assert (one["low"], one["high"]) == pytest.approx(ends) and one["interval"] == "95 %"
    value = {name: metrics[f"study_wer_reduction_{name}"]["value"] for name in study.REDUCED}
    assert value["shared"] == pytest.approx(80)
    assert value["seen_voice"] == pytest.approx(100 * (1 - (2.8 + 2.1) / 2 / 2.8))
    assert value["unseen_voice"] == pytest.approx(100 * (1 - 3.6 / 2.8))
    for arms, bases in study.REDUCED.values():
        for arm, base in zip(arms, bases, strict=True):
            own, other = (study.STUDY.arms[name] for name in (arm, base))
            assert differences(replace(own, seeds=1, shares=""), other) == ["start"]
    assert metrics["study_full_accented_wer"]["value"] == pytest.approx(30)
    assert metrics["study_base_accented_wer"]["value"] == pytest.approx(80)
    assert "low" not in metrics["study_base_accented_wer"]
    assert metrics["study_lucas_unseen_wer"]["unit"] == "%"
