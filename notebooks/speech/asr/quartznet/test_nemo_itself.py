"""What NeMo itself computes is what the fixture says: run where NeMo is installed.

    python -m venv nemo-env
    nemo-env/bin/pip install torch==2.13.0 "nemo_toolkit[asr]==3.0.0" pytest
    nemo-env/bin/python -m pytest quartznet/test_nemo_itself.py

`written` made `tiny_quartznet.nemo` and `expected.safetensors`. Weights are random and batch
normalisation has random statistics, so that every tensor matters; the signal is noise and
tones, two utterances of different lengths.
"""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

FIXTURE = Path(__file__).parent / "nemo_fixture"
# QuartzNet's shape, with 16 to 32 channels, one to three repeats and each kind of layer
CONFIG = """
preprocessor: {_target_: nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor,
  normalize: per_feature, sample_rate: 16000, window_size: 0.02, window_stride: 0.01,
  window: hann, features: 64, n_fft: 512, frame_splicing: 1, dither: 1.0e-5}
encoder:
  _target_: nemo.collections.asr.modules.ConvASREncoder
  feat_in: 64
  activation: relu
  conv_mask: true
decoder: {_target_: nemo.collections.asr.modules.ConvASRDecoder, feat_in: 32, num_classes: 28}
"""
# filters, kernel, repeat, stride, dilation, residual, separable
BLOCKS = [(16, 33, 1, 2, 1, False, True), (16, 7, 2, 1, 1, True, True)]
BLOCKS += [(16, 9, 1, 1, 1, True, True), (24, 11, 1, 1, 1, True, True)]
BLOCKS += [(24, 13, 3, 1, 1, True, True), (24, 15, 1, 1, 1, True, True)]
BLOCKS += [(24, 19, 1, 1, 2, False, True), (32, 1, 1, 1, 1, False, False)]


def config(omegaconf):
    keys = ("filters", "kernel", "repeat", "stride", "dilation", "residual", "separable")
    made, listed = omegaconf.OmegaConf.create(CONFIG), ("kernel", "stride", "dilation")
    blocks = [dict(zip(keys, sizes, strict=True)) | {"dropout": 0.0} for sizes in BLOCKS]
    made.encoder.jasper = [one | {key: [one[key]] for key in listed} for one in blocks]
    made.decoder.vocabulary = list(" abcdefghijklmnopqrstuvwxyz'")
    return made


def signals():
    rng, lengths = np.random.default_rng(0), torch.tensor([8_000, 5_237])
    t = np.arange(8_000) / 16_000
    first = 0.3 * np.sin(2 * np.pi * (200 + 900 * t) * t) + 0.1 * rng.standard_normal(8_000)
    second = 0.1 * np.sign(np.sin(2 * np.pi * 130 * t)) * np.hanning(8_000)
    second += 0.001 * rng.standard_normal(8_000)
    return torch.tensor(np.stack([first, second]), dtype=torch.float32), lengths


@torch.inference_mode()
def computed(model):
    """The tensors of `expected.safetensors`, by NeMo."""
    signal, lengths = signals()
    features, frames = model.preprocessor(input_signal=signal.clone(), length=lengths)
    log_probs, steps, _ = model(input_signal=signal.clone(), input_signal_length=lengths)
    found = {"signal": signal, "lengths": lengths, "features": features, "frames": frames}
    found |= {"log_probs": log_probs, "steps": steps}
    return {name: x.contiguous() for name, x in found.items()}


def written(models, omegaconf, folder):
    """A model of random weights, saved in a folder with what it computes."""
    random.seed(0)
    torch.manual_seed(0)
    model = models.EncDecCTCModel(cfg=config(omegaconf)).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.3)
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2.0)
    model.save_to(str(folder / "tiny_quartznet.nemo"))
    save_file(computed(model), folder / "expected.safetensors")


def test_the_fixture_s_signals_are_those_of_this_file():
    expected, (signal, lengths) = load_file(FIXTURE / "expected.safetensors"), signals()
    assert torch.equal(expected["lengths"], lengths)
    torch.testing.assert_close(expected["signal"], signal)


def test_nemo_itself_computes_what_the_fixture_says(tmp_path):
    models = pytest.importorskip("nemo.collections.asr.models", reason="NeMo is not installed")
    model = models.EncDecCTCModel.restore_from(
        FIXTURE / "tiny_quartznet.nemo", map_location="cpu"
    )
    expected = load_file(FIXTURE / "expected.safetensors")
    for name, found in computed(model.eval()).items():
        torch.testing.assert_close(found, expected[name], atol=1e-4, rtol=0)


def test_a_fixture_can_be_made_anew(tmp_path):
    models = pytest.importorskip("nemo.collections.asr.models", reason="NeMo is not installed")
    written(models, pytest.importorskip("omegaconf"), tmp_path)
    made = load_file(tmp_path / "expected.safetensors")
    for name, wanted in load_file(FIXTURE / "expected.safetensors").items():
        assert made[name].shape == wanted.shape, name
