"""Variants of the network: the same outputs, up to the rounding that each one admits."""

import copy

import pytest
import torch

from .network import QuartzNet
from .variants import PointwiseLinear, folded, linear, variant


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = QuartzNet.build("5x2", width=0.1, field=0.2)
    with torch.no_grad():  # statistics as after training, not zeros and ones
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm1d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
                module.weight.uniform_(0.5, 2)
                module.bias.normal_()
    return model.eval()


@pytest.mark.parametrize("name", ["plain", "folded", "linear"])
@pytest.mark.parametrize("frames", [None, [50, 31]])
@torch.inference_mode()
def test_exact_variants_differ_by_rounding(model, name, frames):
    features = torch.randn(2, 64, 50)
    frames = None if frames is None else torch.tensor(frames)
    (got, steps), (want, wanted_steps) = (
        m(features, frames) for m in (variant(model, name), model)
    )
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)
    assert steps.tolist() == wanted_steps.tolist()


def test_a_variant_stays_where_its_model_is(model):
    made = linear(copy.deepcopy(model).to("meta"))
    assert {one.device.type for one in made.parameters()} == {"meta"}


def test_int8_keeps_the_probabilities_close(model):
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("no 8-bit engine for CPUs in this torch")
    features = torch.randn(2, 64, 50)
    with torch.inference_mode():
        got, want = (m(features)[0].exp() for m in (variant(model, "int8"), model))
    assert 0 < (got - want).abs().mean() < 0.02


def test_no_batch_normalisation_and_no_1x1_convolution_remains(model):
    kinds = [type(m) for m in linear(folded(model)).modules()]
    assert torch.nn.BatchNorm1d not in kinds and PointwiseLinear in kinds
    convolutions = [
        m for m in linear(folded(model)).modules() if isinstance(m, torch.nn.Conv1d)
    ]
    assert all(conv.groups > 1 for conv in convolutions)


def test_the_model_itself_is_left_as_it_was(model):
    before = {name: x.clone() for name, x in model.state_dict().items()}
    variant(model, "int8"), variant(model, "folded")
    for name, x in model.state_dict().items():
        assert torch.equal(x, before[name])


def test_other_names_and_training_mode_are_refused(model):
    with pytest.raises(ValueError, match="allowed are"):
        variant(model, "int4")
    with pytest.raises(ValueError, match="eval"):
        variant(QuartzNet.build("5x1", width=0.05), "folded")
