"""Training: it learns, moves only what it may, repeats with its seed, and refuses what has no
path."""

import pytest
import torch

from . import training
from .checkpoint import DIGITS_BASE, load_model, save_model
from .features import log_mel
from .network import BLANK, QuartzNet
from .training import (
    MODES,
    Recipe,
    batches,
    encode,
    recognise,
    set_mode,
    spec_cutout,
    steps_of,
    train,
)


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


def test_recognition_does_not_depend_on_the_batch():
    model, (signals, _) = tiny().eval(), tones(5)
    for one, many in zip(
        recognise(model, signals, batch=1), recognise(model, signals), strict=True
    ):
        torch.testing.assert_close(one, many, rtol=0, atol=1e-4)


def test_recognition_keeps_the_order_and_the_mode():
    model, signals = tiny().train(), [torch.randn(n) for n in (4000, 1600, 3200)]
    statistics = model.blocks[0].steps[0].norm.running_mean.clone()
    assert [len(found) for found in recognise(model, signals)] == [13, 5, 10]
    assert model.training and torch.equal(
        statistics, model.blocks[0].steps[0].norm.running_mean
    )


def test_features_are_computed_outside_of_mixed_precision(monkeypatch):
    seen, (signals, texts) = [], tones(3)

    def heard(*signal, **more):
        seen.append(torch.is_autocast_enabled("cpu"))
        return log_mel(*signal, **more)

    def half(device):  # as a GPU does
        return torch.autocast("cpu", torch.bfloat16)

    monkeypatch.setattr(training, "mixed_precision", half)
    monkeypatch.setattr(training, "log_mel", heard)
    found = recognise(tiny(), signals)
    train(tiny(), signals, texts)
    assert seen == [False, False] and found[0].dtype == torch.float32


@pytest.mark.parametrize("samples", [160, 320, 479, 480, 1601, 4000])
def test_the_host_knows_the_steps_that_the_network_gives(samples):
    model, lengths = tiny(), torch.tensor([samples, 160])
    _, frames = log_mel(torch.zeros(2, samples), lengths)
    assert torch.equal(
        steps_of(model, lengths), model(torch.zeros(2, 64, samples // 160), frames)[1]
    )


def test_nothing_to_recognise_gives_nothing():
    assert recognise(tiny(), []) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_is_waited_for_once_in_recognition(monkeypatch):
    waits, down = [], torch.Tensor.cpu

    def counted(x):
        waits.extend([x.shape] * x.is_cuda)
        return down(x)

    monkeypatch.setattr(torch.Tensor, "cpu", counted)
    recognise(tiny().cuda(), tones(6)[0], batch=2)
    assert len(waits) == 1


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


def test_a_model_survives_its_file(tmp_path):
    model, (signals, _) = tiny(), tones(2)
    found = load_model(save_model(model, tmp_path / "a.safetensors", {"seed": 3}))
    assert found.notes == {"seed": 3} and found.specs == model.specs
    assert torch.equal(recognise(found, signals)[0], recognise(model, signals)[0])


@pytest.mark.parametrize("content", [b"", b"\x10\x00\x00\x00\x00\x00\x00\x00no header at all"])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="no checkpoint"):
        load_model(tmp_path / "a.safetensors")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("mode", MODES)
def test_a_gpu_trains_in_mixed_precision(mode):
    model, (signals, texts) = tiny().cuda(), tones(16)
    losses = train(
        model, signals, texts, Recipe(mode=mode, epochs=10, rate=0.02, batch=4, cutouts=0)
    )
    assert losses[-1] < losses[0]


def test_the_shipped_model_is_small_and_says_what_it_is():
    model = load_model()
    assert DIGITS_BASE.stat().st_size < 1_000_000
    assert sum(p.numel() for p in model.parameters()) == 236_773
    assert model.receptive_field_frames == 133 and model.frames_per_step == 2
    assert model.notes["speakers"] == ["jackson", "theo"]
    assert not model.training and all(x.isfinite().all() for x in model.state_dict().values())
