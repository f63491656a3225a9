"""Made a small QuartzNet by NeMo itself, `tiny_quartznet.nemo`, and `expected.safetensors`.

    python -m venv nemo-env; nemo-env/bin/pip install torch==2.13.0 "nemo_toolkit[asr]==3.0.0"
    nemo-env/bin/python make_nemo_fixture.py

Weights are random and batch normalisation has random statistics, so that every tensor matters;
the signal is noise and tones, two utterances of different lengths. No network is used.
"""

import random
from pathlib import Path

import numpy as np
import torch
from nemo.collections.asr.models import EncDecCTCModel
from omegaconf import OmegaConf
from safetensors.torch import save_file

HERE = Path(__file__).parent / "nemo_fixture"
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


def config():
    keys = ("filters", "kernel", "repeat", "stride", "dilation", "residual", "separable")
    made, listed = OmegaConf.create(CONFIG), ("kernel", "stride", "dilation")
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


def main():
    random.seed(0)
    torch.manual_seed(0)
    model = EncDecCTCModel(cfg=config()).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.3)
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2.0)
    model.save_to(str(HERE / "tiny_quartznet.nemo"))
    signal, lengths = signals()
    with torch.inference_mode():
        features, frames = model.preprocessor(input_signal=signal.clone(), length=lengths)
        log_probs, steps, _ = model(input_signal=signal.clone(), input_signal_length=lengths)
    found = {"signal": signal, "lengths": lengths, "features": features, "frames": frames}
    found |= {"log_probs": log_probs, "steps": steps}
    found = {name: x.contiguous() for name, x in found.items()}
    save_file(found, HERE / "expected.safetensors")
    print({name: tuple(x.shape) for name, x in found.items()}, frames.tolist(), steps.tolist())


if __name__ == "__main__":
    main()
