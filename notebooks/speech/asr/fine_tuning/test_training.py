"""Training: it learns, moves only what it may, repeats with its seed, and refuses what has no
path."""

import pytest
import torch
from quartznet import BLANK, QuartzNet, log_mel, recognise

from . import training
from .training import MODES, Recipe, batches, encode, set_mode, spec_cutout, train


def tiny(seed=0):
    torch.manual_seed(seed)
    return QuartzNet.build("5x1", width=0.06, field=0.12)


def tones(count=8, seed=0):
    """Signals of two tones and the letter that each stands for: a language of its own."""
    generator, signals, texts = torch.Generator().manual_seed(seed), [], []
    for number in range(count):
        time = torch.arange(3200 + 160 * (number % 3)) / 16_000
        tone = torch.sin(2 * torch.pi * (400 if number % 2 else 2500) * time) * (time > 0.05)
        signals.append(0.1 * tone + 0.01 * torch.randn(len(time), generator=generator))
        texts.append("a" if number % 2 else "b")
    return signals, texts


def letters(log_probs):
    return {int(i) for i in log_probs.argmax(1)} - {BLANK}


def test_it_learns_two_letters():
    model, (signals, texts) = tiny(), tones(16)
    losses = train(model, signals, texts, Recipe(epochs=15, rate=0.02, batch=4, cutouts=0))
    assert losses[-1] < 0.3 * losses[0] and not model.training
    for text, found in zip(texts, recognise(model, signals), strict=True):
        assert letters(found) == set(encode(text))


@pytest.mark.parametrize("rest", [{}, {"cutouts": 0, "dither": 0.0}, {"batch": 8}])
def test_a_seed_repeats_and_another_does_not(rest):
    signals, texts = tones()
    recipes = [Recipe(**{"batch": 4, "seed": seed} | rest) for seed in (1, 1, 2)]
    a, b, c = (train(tiny(), signals, texts, recipe) for recipe in recipes)
    assert a == b != c


@pytest.mark.parametrize("mode", MODES)
def test_only_what_may_move_moves(mode):
    model, (signals, texts) = tiny(), tones()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    train(model, signals, texts, Recipe(mode=mode, rate=0.01))
    moved = {name for name, x in model.state_dict().items() if not torch.equal(x, before[name])}
    decoder = {name for name in before if name.startswith("decoder")}
    norms = {name for name in before if "norm" in name}
    assert (
        moved
        == {
            "full": set(before),
            "decoder": decoder,
            "batch-norm": norms,
            "decoder+batch-norm": decoder | norms,
        }[mode]
    )
    assert all(p.requires_grad for p in model.parameters())


def test_features_are_computed_outside_of_mixed_precision(monkeypatch):
    seen, (signals, texts) = [], tones(3)

    def heard(*signal, **more):
        seen.append(torch.is_autocast_enabled("cpu"))
        return log_mel(*signal, **more)

    def half(device):  # as a GPU does
        return torch.autocast("cpu", torch.bfloat16)

    monkeypatch.setattr(training, "mixed_precision", half)
    monkeypatch.setattr(training, "log_mel", heard)
    train(tiny(), signals, texts)
    assert seen == [False]


def test_reports_every_update():
    seen, (signals, texts) = [], tones()
    losses = train(tiny(), signals, texts, Recipe(batch=3), lambda *told: seen.append(told))
    assert seen == [(i, 3, loss) for i, loss in enumerate(losses)]


def test_cutouts_zero_rectangles_within_bounds():
    features, frames = torch.ones(20, 64, 400), torch.full((20,), 400)
    cut = spec_cutout(features, frames, 1, generator=torch.Generator().manual_seed(0)) == 0
    rows, columns = cut.any(2).sum(1), cut.any(1).sum(1)
    assert torch.equal(cut.sum((1, 2)), rows * columns)  # one full rectangle each
    assert rows.max() <= 50 and columns.max() <= 120 and rows.max() > 30 and columns.max() > 80
    assert features.all()


def test_cutouts_keep_half_of_a_short_utterance():
    frames = torch.tensor([10, 1, 3])
    for seed in range(50):
        kept = spec_cutout(
            torch.ones(3, 64, 10), frames, 1, generator=torch.Generator().manual_seed(seed)
        )
        assert (kept[0].any(0).sum() >= 5) and kept[1, :, 0].all()


def test_no_cutouts_change_nothing():
    features = torch.randn(2, 64, 30)
    assert torch.equal(spec_cutout(features, torch.tensor([30, 20]), 0), features)


@pytest.mark.parametrize("count, size", [(1, 4), (7, 3), (8, 8), (9, 1)])
def test_batches_hold_each_row_once(count, size):
    groups = batches(list(range(100, 100 + count)), size, torch.Generator().manual_seed(0))
    assert sorted(sum(groups, [])) == list(range(count)) and max(map(len, groups)) <= size


def test_batches_join_neighbours_in_length():
    lengths = [100] * 50 + [1000] * 50
    for group in batches(lengths, 10, torch.Generator().manual_seed(0)):
        assert len({lengths[row] for row in group}) == 1


def test_letters_get_their_ids():
    assert encode(" a'z") == [0, 1, 27, 26] and encode("") == []


@pytest.mark.parametrize("text", ["A", "é", "four.", "7", "tab\t"])
def test_a_character_outside_the_vocabulary_is_refused(text):
    with pytest.raises(ValueError, match="normalise it first"):
        encode(text)


@pytest.mark.parametrize(
    "signals, texts, message",
    [
        ([], [], "at least one"),
        ([torch.zeros(1600)], [], "one text for each"),
        ([torch.zeros(1600)], ["abcdef"], "cannot belong"),
        ([torch.zeros(1600)], ["aaa"], "cannot belong|steps"),
    ],
)
def test_a_transcript_without_a_path_is_refused(signals, texts, message):
    if texts == ["aaa"]:  # 3 letters and 2 repeats fill 5 steps; a fourth letter does not fit
        train(tiny(), signals, texts)
        texts = ["aaaa"]
    with pytest.raises(ValueError, match=message):
        train(tiny(), signals, texts)


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="batch-norm"):
        set_mode(tiny(), "encoder")


def test_a_loss_that_is_not_finite_stops_the_training():
    model, (signals, texts) = tiny(), tones()
    signals[3][100] = torch.nan
    with pytest.raises(RuntimeError, match="lower the rate"):
        train(model, signals, texts, Recipe())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("mode", MODES)
def test_a_gpu_trains_in_mixed_precision(mode):
    model, (signals, texts) = tiny().cuda(), tones(16)
    losses = train(
        model, signals, texts, Recipe(mode=mode, epochs=10, rate=0.02, batch=4, cutouts=0)
    )
    assert losses[-1] < losses[0]
