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
    "tiny": ("tiny", "loudness", 232_314),
    "conv64": ("conv64", "loudness", 83_262),
    "gru64": ("gru64", "loudness", 21_498),
    "conv16": ("conv16", "loudness", 7_086),
    "rms": ("conv64", "rms", 83_262),
}
MADE = ("bansuri", "shehnai", "sarangi", "saxophone")


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
        assert job.arm.loss == {"rates": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)}
        assert not job.arm.shares and job.arm.seeds is None
    assert {name for name, _ in rendered} == {"bansuri"}
    assert STUDY.sizes == {"steps": 360, "batch": 2, "phrases": 10, "held_out": 10}


@pytest.mark.parametrize(("phrases", "first"), [(101, 100), (10, 5)])
def test_a_phrase_that_trained_and_is_held_out_is_refused(
    rendered, monkeypatch, phrases, first
):
    monkeypatch.setattr(ins, "HELD_OUT", first)
    with pytest.raises(StudyError, match="they may share none"):
        hold(replace(STUDY, trial={"phrases": phrases, "held_out": 10}))


@pytest.fixture
def trained(monkeypatch):
    """What the slice's training was handed, and a loss that is best at 1e-3."""
    told = []

    def train(decoder, recordings, steps, batch, seed=0, rate=None):
        told.append((decoder, recordings, steps, batch, seed, rate))
        if rate and rate > 5e-3:
            raise FloatingPointError("diverged")
        ends = 5.0 + abs(np.log10((rate or 1e-3) / 1e-3))
        return torch.cat([torch.full((steps,), 9.0 - ends), torch.full((20,), ends)])

    monkeypatch.setattr(tt, "train", train)
    monkeypatch.setattr(tt, "recording", lambda sound, energy="loudness": (sound, energy))
    monkeypatch.setattr(tt, "judged", lambda decoder, some: torch.tensor([len(some), 7.0]))
    monkeypatch.setattr(tt, "new_decoder", lambda kind, seed=0: (kind, seed))
    return told


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_taught_at_its_best_rate_from_its_own_start(trained, name):
    kind, energy, _ = KINDS[name]
    job = Job(name, STUDY.arms[name], 2, STUDY.sizes, None, ["a", "b"], ["c"])
    start = STUDY.begin("new", job)
    made = study.fit(job._replace(start=start))
    heard = [("a", energy), ("b", energy)]
    rates = [*STUDY.arms[name].loss["rates"]]
    trials = [((kind, 99), heard, 120, 2, 99, rate) for rate in rates]
    assert start == (kind, 2)
    assert trained == [*trials, (start, heard, 360, 2, 2, 1e-3)]
    assert made == (start, 1e-3, [1.0, 7.0])  # the losses of the one phrase that chooses


def test_the_best_rate_is_chosen_by_the_last_steps(trained, monkeypatch):
    def train(decoder, recordings, steps, batch, seed, rate):
        trained.append(rate)
        late = {1e-4: 6.0, 3e-4: 5.0, 1e-3: 7.0, 3e-3: 8.0, 1e-2: 9.0}[rate]
        return torch.cat([torch.full((100,), -late), torch.full((20,), late)])

    monkeypatch.setattr(tt, "train", train)
    job = Job("tiny", STUDY.arms["tiny"], 0, STUDY.sizes, ("tiny", 0), ["a"], ["c"])
    assert study.fit(job).rate == 3e-4 == trained[-1]


def test_a_decoder_is_judged_on_both_halves_and_told_apart(trained, monkeypatch):
    judged = []
    monkeypatch.setattr(tt, "judged", lambda *given: judged.append(given) or torch.ones(2) * 4)
    job = Job("rms", STUDY.arms["rms"], 0, STUDY.sizes, test="witness")
    found = study.judge(study.Taught("decoder", 3e-3, [1.0, 2.0]), ["x"] * 4, job)
    assert found == {
        "loss": 2.75,  # of 1 and 2 on the one half, twice 4 on the other
        "rate": 3e-3,
        "choosing": [1.0, 2.0],
        "witness": [4.0, 4.0],
    }
    assert judged == [("decoder", [("x", "rms")] * 4)]


def found_of(losses, witness=None, spread=0.01):
    """Scores as `run` finds them: kinds' losses, a little apart by seed, and by kind."""
    found = {}
    for nth, name in enumerate(KINDS):
        own, other = losses[name], {**losses, **(witness or {})}[name]
        found[name] = {}
        for seed in range(3):
            off = spread * seed * (-1) ** nth
            halves = {"choosing": [own + off] * 5, "witness": [other + off] * 5}
            loss = (own + other) / 2 + off
            found[name][seed] = {"witness": {"loss": loss, "rate": 1e-3, **halves}}
    return found


def recorded(losses, **how):
    receipt = receipts.start("tone_transfer", "cpu")
    record(STUDY, receipt, found_of(losses, **how))
    return receipt.metrics


WORSE = dict.fromkeys(KINDS, 6.0) | {"paper": 5.0, "rms": 6.0}


@pytest.mark.parametrize(
    ("passing", "fewest"),
    [
        ({"gru64": 4.0, "conv64": 4.5}, "gru64"),  # both pass, the smaller is not the last
        ({"conv64": 4.0, "tiny": 3.0}, "conv64"),
        ({"conv16": 4.9, "tiny": 3.0}, "conv16"),
        ({}, "paper"),
    ],
)
@pytest.mark.parametrize("turn", [1, -1])
def test_the_smallest_decoder_that_is_no_worse_is_the_one_with_the_fewest_weights(
    passing, fewest, turn, monkeypatch
):
    monkeypatch.setattr(study, "KINDS", study.KINDS[::turn])  # in whatever order they stand
    metrics = recorded(WORSE | passing)
    ratio = metrics["smaller_at_no_loss"]
    assert (
        ratio["value"] == pytest.approx(4_801_150 / KINDS[fewest][2]) and ratio["unit"] == "×"
    )
    gap = metrics["smaller_gap"]
    assert gap["value"] == pytest.approx(passing.get(fewest, 5.0) - 5.0, abs=0.03)
    assert metrics["smaller_gap_half"]["value"] == pytest.approx(gap["high"] - gap["value"])


def test_a_kind_has_its_weights():
    assert {name: study.weights(kind) for name, (kind, _, _) in KINDS.items()} == {
        name: count for name, (_, _, count) in KINDS.items()
    }


def test_the_margin_is_half_of_the_papers_own_interval():
    t = 4.302653 / 3**0.5  # Student's t of three seeds
    margin = recorded(WORSE)["smaller_margin"]["value"]
    assert margin == pytest.approx(0.01 * t, rel=1e-4)
    edge = 5.02 - 0.01 * t  # the two differ by seed in turn: their gap varies twice as much
    for loss, ratio in ((edge - 1e-3, 4_801_150 / 232_314), (edge + 1e-3, 1.0)):
        found = recorded(WORSE | {"tiny": loss})
        assert found["smaller_at_no_loss"]["value"] == pytest.approx(ratio)


def test_half_of_the_held_out_phrases_choose_and_the_others_say_by_how_much():
    metrics = recorded(WORSE | {"gru64": 4.0}, witness={"gru64": 5.5, "conv64": 1.0})
    assert metrics["smaller_at_no_loss"]["value"] == pytest.approx(4_801_150 / 21_498)
    assert metrics["smaller_gap"]["value"] == pytest.approx(0.5 - 0.02, abs=1e-6)


def test_differences_have_their_sign_and_losses_their_interval():
    metrics = recorded(WORSE | {"rms": 6.5, "tiny": 5.75}, spread=0.02)
    assert metrics["rms_gap"]["value"] == pytest.approx(0.5 - 0.04)
    assert metrics["size_tiny_gap"]["value"] == pytest.approx(0.75 - 0.04)
    paper = metrics["size_paper_loss"]
    assert (paper["value"], paper["unit"]) == (pytest.approx(5.02), "loss")
    half = 0.02 * 4.302653 / 3**0.5
    for name in ("size_paper", "size_conv16", "size_rms"):
        one = metrics[f"{name}_loss"]
        assert one["high"] - one["value"] == pytest.approx(half, rel=1e-4)
        if name != "size_rms":
            assert metrics[f"{name}_half"]["value"] == pytest.approx(half, rel=1e-4)
    assert metrics["rms_gap_half"]["value"] == pytest.approx(2 * half, rel=1e-4)
    assert metrics["size_gru64_rate"] == metrics["size_gru64_rate"] | {"value": 1e-3}


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
        if name == "saxophone":
            (early,), (late,) = job.train, held
            assert (early[0], late[0]) == (0.0, 6.0) and early.max() < 6.0 < late.max() + 0.1
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
    assert made == [[seed] for seed in range(100, 120) for _ in range(2)]
    truths = torch.tensor(found["world_copy"][:, 1])[:, None]
    assert seeds_of(truths, "shehnai") == [*range(100, 120)]
    assert set(found) == {"ours", "untouched", "world", "world_copy"}
    assert found["ours"].shape == (20, 2) and STUDY.sizes["phrases"] == bench.LEARNED


def test_a_gap_is_ours_less_another_s_with_a_named_interval_over_phrases():
    ours = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.5]])
    receipt = receipts.start("tone_transfer", "cpu")
    bench._judge(
        receipt, {"ours": ours, "world": ours + [[1.0, -2.0], [2.0, -2.0], [3.0, -2.0]]}
    )
    gap = receipt.metrics["loss_gap_to_world"]
    assert gap["value"] == -2.0 and gap["low"] < -2.0 < gap["high"]
    assert (gap["interval"], gap["repeats"]) == ("95 %", 3)
    assert receipt.metrics["timbre_gap_to_world"]["value"] == 2.0
