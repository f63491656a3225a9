"""QuartzNet: the published sizes, lengths that never leak, and clear refusals. Equality with
NeMo: test_nemo."""

import pytest
import torch

from .network import BLANK, VOCABULARY, QuartzNet, block_specs

SMALL = {"width": 0.05, "field": 0.2}


def small(seed=0, **sizes):
    torch.manual_seed(seed)
    return QuartzNet.build("5x2", **SMALL | sizes).eval()


@pytest.mark.parametrize(
    "name, count", [("15x5", 18_924_381), ("10x5", 12_818_781), ("5x5", 6_713_181)]
)
def test_the_family_has_its_published_parameter_counts(name, count):
    with torch.device("meta"):  # sizes without memory
        model = QuartzNet.build(name, n_outputs=29)
    assert sum(p.numel() for p in model.parameters()) == count


def test_the_full_net_hears_eighty_seconds():
    with torch.device("meta"):
        model = QuartzNet.build("15x5")
    assert model.receptive_field_frames == 8057 and model.frames_per_step == 2


def test_nothing_but_the_decoder_has_a_bias():
    names = [
        name
        for name, _ in small().named_parameters()
        if name.endswith("bias") and "norm" not in name
    ]
    assert names == ["decoder.bias"]


def test_weights_start_within_xaviers_bounds():
    model = small()
    for module in model.modules():
        if isinstance(module, torch.nn.Conv1d):
            fan_in, fan_out = torch.nn.init._calculate_fan_in_and_fan_out(module.weight)
            bound = (6 / (fan_in + fan_out)) ** 0.5
            assert 0.5 * bound < module.weight.abs().max() <= bound


@pytest.mark.parametrize("frames", [1, 2, 3, 31, 32, 33, 101])
def test_steps_are_half_the_frames_rounded_up(frames):
    log_probs, steps = small()(torch.randn(2, 64, frames), torch.tensor([frames, 1]))
    assert log_probs.shape == (2, -(-frames // 2), BLANK + 1) and steps.tolist() == [
        -(-frames // 2),
        1,
    ]


def test_outputs_are_probabilities():
    log_probs, _ = small()(torch.randn(2, 64, 40), torch.tensor([40, 20]))
    torch.testing.assert_close(log_probs.exp().sum(2), torch.ones(2, 20))


@pytest.mark.parametrize("lengths", [(61, 40, 7), (61, 1, 2)])
def test_padding_never_reaches_a_valid_step(lengths):
    model, features = small(), torch.randn(3, 64, 61)
    together, steps = model(features, torch.tensor(lengths))
    other = features.clone()
    for row, length in enumerate(lengths):
        other[row, :, length:] = 50.0
        alone, _ = model(features[row : row + 1, :, :length], torch.tensor([length]))
        torch.testing.assert_close(together[row, : steps[row]], alone[0], rtol=1e-4, atol=1e-5)
    found = model(other, torch.tensor(lengths))[0]
    for row, length in enumerate(steps):
        torch.testing.assert_close(found[row, :length], together[row, :length])


def test_no_lengths_says_that_all_is_valid():
    model, features = small(), torch.randn(2, 64, 50)
    with_masks, steps = model(features, torch.tensor([50, 50]))
    without, same = model(features)
    torch.testing.assert_close(without, with_masks)
    assert torch.equal(steps, same)


def test_the_receptive_field_is_as_computed():
    model, frames = small(), 301
    features = torch.randn(1, 64, frames, requires_grad=True)
    model(features)[0][0, 75].sum(-1)  # a step in the middle
    model(features)[0][0, 75, 3].backward()
    touched = features.grad[0].abs().sum(0).nonzero().view(-1)
    assert touched[-1] - touched[0] + 1 == model.receptive_field_frames < frames


def test_training_counts_padding_in_the_statistics_as_nemo_does():
    model = small().train()
    model(torch.ones(1, 64, 20), torch.tensor([1]))
    assert model.blocks[0].steps[0].norm.running_var.abs().max() < 1.0 and model.training


def test_small_nets_keep_the_shape_of_the_family():
    specs = block_specs("5x1", width=0.3, field=0.12)
    assert [spec.kernel for spec in specs] == [3, 3, 5, 7, 7, 9, 11, 1]
    assert [spec.channels for spec in specs] == [80, 80, 80, 152, 152, 152, 152, 304]
    assert [spec.residual for spec in specs] == [False] + [True] * 5 + [False] * 2


def test_the_vocabulary_is_nemos():
    assert "".join(VOCABULARY) == " abcdefghijklmnopqrstuvwxyz'" and BLANK == 28


@pytest.mark.parametrize(
    "name", ["", "15", "15x", "14x5", "0x5", "5x0", "axb", None, "-5x1", "5x1x1"]
)
def test_another_name_is_refused(name):
    with pytest.raises(ValueError, match="BxR"):
        QuartzNet.build(name)


@pytest.mark.parametrize("sizes", [{"width": 0}, {"field": -1}, {"width": float("nan")}])
def test_sizes_that_are_not_positive_are_refused(sizes):
    with pytest.raises(ValueError, match="positive"):
        QuartzNet.build("5x1", **sizes)


@pytest.mark.parametrize(
    "features, lengths, message",
    [
        (torch.zeros(2, 80, 10), None, r"\(B, 64, T\)"),
        (torch.zeros(64, 10), None, r"\(B, 64, T\)"),
        (torch.zeros(2, 64, 0), None, "at least 1"),
        (torch.zeros(2, 64, 10), torch.tensor([10]), "one length for each"),
        (torch.zeros(2, 64, 10), torch.tensor([10, 11]), "exceeds"),
    ],
)
def test_features_that_do_not_fit_are_refused(features, lengths, message):
    with pytest.raises(ValueError, match=message):
        small()(features, lengths)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_computes_the_same():
    model, features, lengths = small(), torch.randn(2, 64, 80), torch.tensor([80, 33])
    wanted = model(features, lengths)[0]
    found = model.cuda()(features.cuda(), lengths.cuda())[0].cpu()
    torch.testing.assert_close(found[0], wanted[0], rtol=0, atol=1e-2)  # TF32 keeps 10 bits
