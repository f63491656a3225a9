"""The studies as they are recorded and shipped: what each arm is given, what is made of it,
which decoder is the smallest, and which way a difference points.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import receipts
from helpers.study import Job, StudyError
from instrument_sounds import rendering as ins
from press.study import hold, record
from sound_features import analysis as sf
from tone_decoder import training as tt

from voice_transfer import bench_tone_transfer as bench
from voice_transfer import study_tone_transfer as study
from voice_transfer import train_instruments as making
from voice_transfer import transfer as vt
from voice_transfer.study_tone_transfer import STUDY

KINDS = {  # arm: kind of its decoder, what tells it how loud it is, how many weights
    "paper": ("paper", "loudness", 4_801_150),
    "conv110": ("conv110", "loudness", 234_096),
    "tiny": ("tiny", "loudness", 232_314),
    "conv64": ("conv64", "loudness", 83_262),
    "gru144": ("gru144", "loudness", 82_458),
    "conv16": ("conv16", "loudness", 7_086),
    "gru30": ("gru30", "loudness", 7_218),
    "rms": ("conv64", "rms", 83_262),
    "linear": ("linear", "loudness", 384),
}
RATES = {1e-4: "10", 3e-4: "30", 1e-3: "100", 3e-3: "300", 1e-2: "1000"}
REAL = {"saxophone": 6, "cello": 6, "trumpet": 4}  # the second from which on it is held out
MADE = ("bansuri", "shehnai", "sarangi", "saxophone", "trumpet", "cello")


@pytest.fixture
def rendered(monkeypatch):
    """Phrases without fluidsynth: (instrument, seed) of each that was asked for."""
    asked = []

    def stand_in(name, seed, *more):
        asked.append((name, seed))
        return np.full(128, sorted(ins.PROGRAMS).index(name) + seed / 1000, np.float32)

    monkeypatch.setattr(ins, "rendered", stand_in)
    return asked


def seeds_of(sounds, name="bansuri"):
    """Which phrases of an instrument these sounds are."""
    found = [1000 * (float(sound[0]) - sorted(ins.PROGRAMS).index(name)) for sound in sounds]
    assert np.allclose(found, np.round(found), atol=0.01)
    return [round(one) for one in found]


def test_every_arm_learns_is_chosen_and_is_judged_on_other_phrases(rendered):
    seen = hold(replace(STUDY, trial={"phrases": 10, "held_out": 10}))
    assert {name for name, _ in seen} == set(KINDS) and tuple(STUDY.seeds) == (0, 1, 2)
    for (name, seed), (job, made, tests) in seen.items():
        kind, energy, _ = KINDS[name]
        assert seeds_of(job.train) == [*range(10)]
        assert seeds_of(job.choice) == [*range(100, 105)]
        assert list(tests) == ["witness"] and seeds_of(tests["witness"]) == [*range(105, 110)]
        assert (job.start, job.seed, made) == ("new", seed, ("made", name, seed))
        assert job.arm.setting == {"kind": kind, "energy": energy}
        assert job.arm.loss == {"rates": study.best_rates()}
        assert not job.arm.shares and job.arm.seeds is None
    assert {name for name, _ in rendered} == {"bansuri"}
    assert STUDY.sizes == {"steps": 3_000, "batch": 2, "phrases": 10, "held_out": 10}


def test_every_rate_is_tried_on_the_phrases_that_choose_and_not_on_the_witness(rendered):
    rates = study.RATES_STUDY
    seen = hold(replace(rates, trial={"phrases": 10, "held_out": 10}))
    wanted = {f"{kind}_{told}" for kind in KINDS if kind != "rms" for told in RATES.values()}
    assert {name for name, _ in seen} == wanted and tuple(rates.seeds) == (99,)
    for (name, _), (job, _, tests) in seen.items():
        kind, told = name.split("_")
        (rate,) = (rate for rate, one in RATES.items() if one == told)
        assert job.arm.setting == {"kind": kind, "energy": "loudness", "rate": rate}
        assert seeds_of(job.train) == [*range(10)] and job.choice is None
        assert {part: seeds_of(one) for part, one in tests.items()} == {
            "choosing": [*range(100, 105)]
        }
    assert rates.sizes == {"steps": 1_000, "batch": 2, "phrases": 10, "held_out": 10}


@pytest.mark.parametrize(("phrases", "first"), [(101, 100), (10, 5)])
def test_a_phrase_that_trained_and_is_held_out_is_refused(
    rendered, monkeypatch, phrases, first
):
    monkeypatch.setattr(ins, "HELD_OUT", first)
    with pytest.raises(StudyError, match="they may share none"):
        hold(replace(STUDY, trial={"phrases": phrases, "held_out": 10}))


@pytest.fixture
def trained(monkeypatch):
    """What the slice's training was handed; it diverges at a rate above 5e-3."""
    told = []

    def train(decoder, recordings, steps, batch, seed=0, rate=None):
        told.append((decoder, recordings, steps, batch, seed, rate))
        if rate and rate > 5e-3:
            raise FloatingPointError("diverged")

    monkeypatch.setattr(tt, "train", train)
    monkeypatch.setattr(tt, "recording", lambda sound, energy="loudness": (sound, energy))
    monkeypatch.setattr(tt, "judged", lambda decoder, some: torch.tensor([len(some), 7.0]))
    monkeypatch.setattr(tt, "new_decoder", lambda kind, seed=0: (kind, seed))
    return told


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_taught_at_its_own_best_rate_from_its_own_start(trained, name):
    kind, energy, _ = KINDS[name]
    best = dict.fromkeys(study.KINDS, 0.001) | {kind: 3e-4}
    arm = replace(STUDY.arms[name], loss={"rates": best})
    job = Job(name, arm, 2, STUDY.sizes, None, ["a", "b"], ["c"])
    start = STUDY.begin("new", job)
    made = study.fit(job._replace(start=start))
    assert start == (kind, 2)
    assert trained == [(start, [("a", energy), ("b", energy)], 3_000, 2, 2, 3e-4)]
    assert made == (start, {"choosing": 4.0})  # of 1, how many chose, and 7


def test_a_rate_is_tried_for_its_steps_and_one_that_diverges_has_no_loss(trained):
    rates = study.RATES_STUDY
    for name, rate in (("tiny_30", 3e-4), ("conv16_1000", 1e-2)):
        job = Job(name, rates.arms[name], 99, rates.sizes, None, ["a"], None, "choosing")
        made = study.fit(job._replace(start=rates.begin("new", job)))
        assert trained[-1][2:] == (1_000, 2, 99, rate)
        told = study.judge(made, ["x"] * 3, job)
        assert told == {"loss": pytest.approx(5.0 if rate < 5e-3 else np.nan, nan_ok=True)}


def test_a_decoder_that_diverges_for_one_seed_is_not_no_worse_and_ends_no_study(
    trained, rated, monkeypatch
):
    monkeypatch.setattr(study, "weights", lambda kind: KINDS[kind][2])
    best = dict.fromkeys(study.KINDS, 1e-2)
    arm = replace(STUDY.arms["gru30"], loss={"rates": best})
    job = Job("gru30", arm, 1, STUDY.sizes, ("gru30", 1), ["a"], ["c"])
    lost = study.judge(study.fit(job), ["x"], job)
    assert set(lost) == {"loss", "choosing"} and np.isnan(list(lost.values())).all()
    found = found_of(WORSE | {"gru30": 1.0, "tiny": 4.0})
    found["gru30"][1]["witness"] = lost
    receipt = receipts.start("tone_transfer", "cpu")
    record(study.STUDY, receipt, found)
    assert receipt.metrics["smaller_at_no_loss"]["value"] == pytest.approx(4_801_150 / 232_314)
    assert not {"size_gru30_loss", "kind_small_gap"} & set(receipt.metrics)
    assert "kind_large_gap" in receipt.metrics


def test_without_recorded_rates_nothing_is_taught(trained):
    arm = replace(STUDY.arms["tiny"], loss={"rates": {}})
    with pytest.raises(StudyError, match="record the study rates first"):
        study.fit(Job("tiny", arm, 0, STUDY.sizes, ("tiny", 0), ["a"], ["c"]))
    assert not trained


def test_the_best_rate_has_the_lowest_recorded_loss(monkeypatch):
    losses = {1e-4: 6.0, 3e-4: 5.0, 1e-3: 7.0, 3e-3: 8.0}  # the last one diverged
    found = {f"rate_tiny_{RATES[rate]}_loss": {"value": loss} for rate, loss in losses.items()}
    found |= {f"rate_conv16_{told}_loss": {"value": 9 - rate} for rate, told in RATES.items()}
    asked = []

    def recorded(stem, **named):
        asked.append((stem, named))
        return {"metrics": found}

    monkeypatch.setattr(study.receipts, "recorded", recorded)
    assert study.best_rates() == {"tiny": 3e-4, "conv16": 1e-2}
    assert asked == [("tone_transfer", {"name": "rates"})]
    monkeypatch.setattr(study.receipts, "recorded", lambda *given, **named: None)
    assert study.best_rates() == {}


def test_a_decoder_is_judged_on_both_halves_and_told_apart(trained, monkeypatch):
    judged = []
    monkeypatch.setattr(tt, "judged", lambda *given: judged.append(given) or torch.ones(2) * 4)
    job = Job("rms", STUDY.arms["rms"], 0, STUDY.sizes, test="witness")
    found = study.judge(("decoder", {"choosing": 1.5}), ["x"] * 4, job)
    assert found == {"loss": 4.0, "choosing": 1.5}
    assert judged == [("decoder", [("x", "rms")] * 4)]


def found_of(losses, witness=None, spread=0.001):
    """Scores as `run` finds them: kinds' losses, a little apart by seed, and by kind."""
    found = {}
    for nth, name in enumerate(KINDS):
        own, other = losses[name], {**losses, **(witness or {})}[name]
        found[name] = {}
        for seed in range(3):
            off = spread * seed * (-1) ** nth
            found[name][seed] = {"witness": {"loss": other + off, "choosing": own + off}}
    return found


@pytest.fixture
def rated(monkeypatch):
    """The study with recorded rates; `rated(3e-4)`: the paper's own."""

    def made(paper=1e-3):
        rates = dict.fromkeys(study.KINDS, 0.001) | {"paper": paper}
        arms = {name: replace(arm, loss={"rates": rates}) for name, arm in STUDY.arms.items()}
        monkeypatch.setattr(study, "STUDY", replace(STUDY, arms=arms))

    made()
    return made


def recorded(losses, **how):
    receipt = receipts.start("tone_transfer", "cpu")
    record(study.STUDY, receipt, found_of(losses, **how))
    return receipt.metrics


WORSE = dict.fromkeys(KINDS, 6.0) | {"paper": 5.0}


@pytest.mark.parametrize(
    ("passing", "fewest", "recurrent"),
    [
        ({"gru144": 4.0, "conv110": 4.5}, "gru144", "gru144"),  # the smaller is not the last
        ({"conv64": 4.0, "gru144": 4.0}, "gru144", "gru144"),
        ({"conv64": 4.0, "tiny": 3.0}, "conv64", "tiny"),
        ({"conv16": 4.9, "tiny": 3.0, "gru30": 4.0}, "conv16", "gru30"),
        ({"linear": 4.0, "conv64": 4.0}, "linear", "paper"),  # it remembers nothing
        ({}, "paper", "paper"),
    ],
)
@pytest.mark.parametrize("turn", [1, -1])
def test_the_smallest_decoder_that_is_no_worse_is_the_one_with_the_fewest_weights(
    passing, fewest, recurrent, turn, monkeypatch, rated
):
    monkeypatch.setattr(study, "KINDS", study.KINDS[::turn])  # in whatever order they stand
    metrics = recorded(WORSE | passing)
    for name, best in (("smaller_at_no_loss", fewest), ("smaller_recurrent", recurrent)):
        one = metrics[name]
        wanted = pytest.approx(4_801_150 / KINDS[best][2])
        assert (one["value"], one["low"], one["high"]) == (wanted, wanted, wanted)
        gap = metrics[f"{name}_gap"]
        assert gap["value"] == pytest.approx(passing.get(best, 5.0) - 5.0, abs=0.03)


def test_pairs_have_as_many_weights_and_another_kind():
    assert {name: study.weights(kind) for name, (kind, _, _) in KINDS.items()} == {
        name: count for name, (_, _, count) in KINDS.items()
    }
    for one, other in study.PAIRS.values():
        assert study.weights(one) == pytest.approx(study.weights(other), rel=0.02)
        assert "conv" in one and "conv" not in other


def test_no_worse_is_at_most_the_margin_at_the_end_of_the_interval(rated):
    half = 2 * 0.001 * 4.302653 / 3**0.5  # Student's t of three seeds; two that drift apart
    assert study.MARGIN == 0.05
    for kind, edge in (("conv110", 5.05 + 0.002 - half), ("tiny", 5.05)):
        for off, ratio in ((-1e-4, 4_801_150 / KINDS[kind][2]), (1e-4, 1.0)):
            found = recorded(WORSE | {kind: edge + off})["smaller_at_no_loss"]
            assert found["value"] == pytest.approx(ratio)


def test_a_choice_that_the_witness_does_not_confirm_is_undecided(rated):
    one = recorded(WORSE | {"gru144": 4.0}, witness={"gru144": 5.5})["smaller_at_no_loss"]
    assert (one["low"], one["value"]) == (1.0, pytest.approx(4_801_150 / 82_458))
    assert one["high"] == one["value"]
    lucky = recorded(WORSE | {"tiny": 4.0}, witness={"conv16": 5.0})["smaller_at_no_loss"]
    assert lucky["low"] == lucky["value"] == pytest.approx(4_801_150 / 232_314)
    assert lucky["high"] == pytest.approx(4_801_150 / 7_086)


@pytest.mark.parametrize(("rate", "sure"), [(1e-4, False), (3e-4, True), (1e-2, False)])
def test_a_paper_whose_best_rate_is_the_last_one_tried_proves_nothing(rated, rate, sure):
    rated(rate)
    one = recorded(WORSE | {"tiny": 4.0})["smaller_at_no_loss"]
    assert one["low"] == (one["value"] if sure else 1.0)


def test_half_of_the_held_out_phrases_choose_and_the_others_say_by_how_much(rated):
    metrics = recorded(WORSE | {"gru144": 4.0}, witness={"gru144": 5.5, "conv64": 1.0})
    assert metrics["smaller_at_no_loss"]["value"] == pytest.approx(4_801_150 / 82_458)
    assert metrics["smaller_at_no_loss_gap"]["value"] == pytest.approx(0.5, abs=1e-6)
    assert metrics["size_gru144_choosing"]["value"] == pytest.approx(4.001)


def test_differences_have_their_sign_and_losses_their_interval(rated):
    rated(3e-4)
    metrics = recorded(WORSE | {"rms": 6.5, "tiny": 5.75}, spread=0.02)
    assert metrics["rms_gap"]["value"] == pytest.approx(0.5)
    assert metrics["linear_gap"]["value"] == pytest.approx(1.0)
    for size, gap in (("large", 0.25), ("middle", 0.0), ("small", 0.0)):
        one, other = study.PAIRS[size]
        drift = 0.02 * ((-1) ** [*KINDS].index(one) - (-1) ** [*KINDS].index(other))
        assert metrics[f"kind_{size}_gap"]["value"] == pytest.approx(gap + drift)
    paper = metrics["size_paper_loss"]
    assert (paper["value"], paper["unit"]) == (pytest.approx(5.02), "loss")
    half = 0.02 * 4.302653 / 3**0.5
    for name in ("size_paper", "size_conv16", "size_rms"):
        one = metrics[f"{name}_loss"]
        assert one["high"] - one["value"] == pytest.approx(half, rel=1e-4)
    assert metrics["size_gru30_rate"] == metrics["size_gru30_rate"] | {"value": 1e-3}
    assert metrics["size_paper_rate"]["value"] == 3e-4


@pytest.fixture
def clip(monkeypatch):
    """A recording of nine seconds and a half whose samples say when they are."""
    sound = np.arange(round(9.5 * sf.SAMPLE_RATE), dtype=np.float32) / sf.SAMPLE_RATE
    monkeypatch.setattr(ins, "clip", lambda folder, name: sound)
    monkeypatch.setattr(making.data, "fetch", lambda *named: "folder")
    return sound


def test_an_instrument_is_taught_by_its_own_sounds_and_judged_on_later_ones(rendered, clip):
    seen = hold(replace(making.MADE, trial={"phrases": 10}))
    assert {name for name, _ in seen} == set(MADE) == set(vt.INSTRUMENTS)
    for (name, seed), (job, made, tests) in seen.items():
        assert (job.start, seed, made) == ("new", 0, ("made", name, 0))
        (held,) = tests.values()
        if name in REAL:
            (early,), (late,) = job.train, held
            split = REAL[name]
            assert (early[0], late[0]) == (0.0, split) and early.max() < split < late.max()
            assert len(early) + len(late) >= len(clip) - 64
        else:
            assert seeds_of(job.train, name) == [*range(10)]
            assert seeds_of(held, name) == [*range(100, 110)]
    sizes = {"steps": 1_500, "batch": 4, "phrases": 10}
    assert making.MADE.sizes == sizes and not any(a.shares for a in making.MADE.arms.values())


def test_seconds_that_trained_an_instrument_judge_it_nowhere(rendered, clip, monkeypatch):
    plain = making.seconds
    monkeypatch.setattr(making, "seconds", lambda file, first, last=None: plain(file, 0, last))
    with pytest.raises(StudyError, match="share 6 units"):
        hold(making.MADE)


def test_shipped_instruments_are_trained_as_declared_and_keep_the_others(
    rendered, clip, trained, monkeypatch, tmp_path
):
    path, saved = tmp_path / "some.safetensors", []
    path.touch()
    monkeypatch.setattr(vt, "names", lambda where: MADE)
    monkeypatch.setattr(vt, "load", lambda name, where: f"{name} of {where.name}")
    monkeypatch.setattr(vt, "save", lambda made, where: saved.append((dict(made), where)))
    monkeypatch.setattr(vt, "place", lambda recordings: (len(recordings), 0, 0, 0, 0))
    monkeypatch.setattr(
        tt, "new_decoder", lambda kind, seed=0: SimpleNamespace(eval=lambda: (kind, seed))
    )
    monkeypatch.setattr(tt, "judged", lambda decoder, some: torch.tensor([1.0, 3.0]))
    making.ship(["shehnai"], path)
    made, where = saved[-1]
    assert where == path and len(saved) == 1
    assert made.pop("shehnai") == vt.Instrument(("conv64", 0), 10, 0, 0, 0, 0)
    assert made == {name: f"{name} of some.safetensors" for name in MADE if name != "shehnai"}
    (_, recordings, steps, batch, seed, rate) = trained[-1]
    assert (steps, batch, seed, rate) == (1_500, 4, 0, None)
    assert seeds_of([sound for sound, _ in recordings], "shehnai") == [*range(10)]
    assert {energy for _, energy in recordings} == {"loudness"}
    with pytest.raises(KeyError, match="tuba"):
        making.ship(["tuba"], path)


def test_the_race_of_transfers_judges_on_phrases_that_nobody_learned_from(
    rendered, monkeypatch
):
    """Ours and WORLD's learn from the first phrases; all are judged on later ones."""
    learned, made = [], []

    def transfer(source, *more):
        made.append(seeds_of([source], "oboe"))
        return source

    monkeypatch.setattr(vt, "shift_of", lambda found, instrument: vt.Shift(1, 1.0, 0.0))
    monkeypatch.setattr(vt, "transfer", transfer)
    monkeypatch.setattr(bench, "pyworld", True)
    monkeypatch.setattr(bench, "world_frames", learned.extend)
    monkeypatch.setattr(bench, "world_transfer", lambda source, known: transfer(source))
    monkeypatch.setattr(bench, "world_copy", lambda truth: truth)
    monkeypatch.setattr(sf, "features", lambda sound: None)
    monkeypatch.setattr(bench, "spectral_loss", lambda got, want: (got - want).abs().mean())
    monkeypatch.setattr(bench, "timbre_distance", lambda got, want: float(want[0]))
    found = bench.quality(None)
    assert seeds_of(map(torch.tensor, learned), "shehnai") == [*range(10)]
    assert made == [[seed] for seed in range(200, 280) for _ in range(2)]
    truths = torch.tensor(found["world_copy"][:, 1])[:, None]
    assert seeds_of(truths, "shehnai") == [*range(200, 280)]
    noisy = torch.tensor(found["noisy"][:, 1])[:, None]
    assert seeds_of(noisy, "shehnai") == [*range(200, 280)]
    assert set(found) == {"ours", "untouched", "noisy", "world", "world_copy"}
    assert found["ours"].shape == (80, 2) and STUDY.sizes["phrases"] == bench.LEARNED


def test_a_gap_is_ours_less_another_s_with_a_named_interval_over_phrases():
    ours = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.5]])
    found = {"ours": ours, "world": ours + [[1.0, -2.0], [2.0, -2.0], [3.0, -2.0]]}
    receipt = receipts.start("tone_transfer", "cpu")
    bench._judge(receipt, found | {"world_copy": ours - [[-0.5, 3.0]]})
    gap = receipt.metrics["loss_gap_to_world"]
    assert gap["value"] == -2.0 and gap["low"] < -2.0 < gap["high"]
    assert (gap["interval"], gap["repeats"]) == ("95 %", 3)
    assert receipt.metrics["timbre_gap_to_world"]["value"] == 2.0
    ahead = {
        measure: receipt.metrics[f"{measure}_copy_ahead"]["value"] for measure in bench.MEASURES
    }
    assert ahead == {"loss": -0.5, "timbre": 1.0}  # of the nearer of the two transfers
