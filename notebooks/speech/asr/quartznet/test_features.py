"""Log-mel features: equal to their equations and to librosa's filters, the same whatever the
company in the batch."""

import librosa
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from . import features
from .features import STRETCH, log_mel, mel_filters

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
    ),
]


def log_mel_reference(signal):
    """`log_mel` of one utterance (N,) by its equations, frame by frame in float64; its
    constants are its own."""
    signal = np.asarray(signal, np.float64)
    padded, logs = np.pad(np.append(signal[:1], signal[1:] - 0.97 * signal[:-1]), 160), []
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(320) / 319)
    filters = librosa.filters.mel(sr=16_000, n_fft=512, n_mels=64, dtype=np.float64)
    for start in range(0, len(signal) // 160 * 160, 160):
        power = np.abs(np.fft.rfft(window * padded[start : start + 320], n=512)) ** 2
        logs.append(np.log(filters @ power + 2.0**-24))
    logs = np.array(logs).T
    return (logs - logs.mean(1, keepdims=True)) / (logs.std(1, keepdims=True, ddof=1) + 1e-5)


def speech_like(samples, seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    signal = 0.1 * np.sin(np.arange(samples) * 0.05) + 0.02 * rng.standard_normal(samples)
    return torch.tensor(signal, dtype=dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("samples", [320, 479, 480, 1601, 16_000, 160 * STRETCH + 161])
def test_equals_the_equations(samples, device):
    signal = speech_like(samples)
    found, frames = log_mel(signal[None].to(device))
    assert found.device.type == device and found.dtype == torch.float64
    assert frames.tolist() == [samples // 160]
    wanted = log_mel_reference(signal)
    np.testing.assert_allclose(found[0].numpy(force=True), wanted, rtol=1e-6, atol=1e-7)


def test_float32_stays_near_float64():
    signal = speech_like(16_000)
    wanted = log_mel_reference(signal)
    found = log_mel(signal[None].float())[0][0]
    # a quiet band's logarithm carries the rounding of the whole frame's energy
    np.testing.assert_allclose(found, wanted, atol=2e-3)


def test_filters_equal_librosas():
    wanted = librosa.filters.mel(sr=16_000, n_fft=512, n_mels=64, dtype=np.float64)
    np.testing.assert_allclose(mel_filters(), wanted, rtol=1e-9, atol=1e-15)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(160, 4000), min_size=1, max_size=5), st.integers(0, 9))
def test_company_in_the_batch_changes_nothing(lengths, seed):
    signals = [speech_like(n, seed + i) for i, n in enumerate(lengths)]
    padded = torch.nn.utils.rnn.pad_sequence(signals, batch_first=True, padding_value=9.0)
    together, frames = log_mel(padded, torch.tensor(lengths))
    for row, signal in enumerate(signals):
        alone = log_mel(signal[None])[0][0]
        torch.testing.assert_close(together[row, :, : frames[row]], alone, rtol=1e-9, atol=1e-9)
        assert not together[row, :, frames[row] :].any()


def test_each_band_has_mean_zero_and_deviation_one():
    found, frames = log_mel(
        torch.stack([speech_like(16_000), speech_like(16_000, 1)]),
        torch.tensor([16_000, 9_000]),
    )
    for row, length in zip(found, frames, strict=True):
        torch.testing.assert_close(
            row[:, :length].mean(1), torch.zeros(64).double(), rtol=0, atol=1e-9
        )
        torch.testing.assert_close(
            row[:, :length].std(1), torch.ones(64).double(), rtol=0, atol=1e-3
        )


def test_loudness_does_not_matter():
    signal = 0.3 * torch.randn(1, 16_000, generator=torch.Generator().manual_seed(0)).double()
    # but for the logarithm's guard, small beside such energies
    torch.testing.assert_close(log_mel(signal / 2)[0], log_mel(signal)[0], rtol=0, atol=0.01)


def test_silence_and_a_single_frame_give_zeros():
    assert log_mel(torch.zeros(1, 8000).double())[0].abs().max() < 1e-6
    # in float32 the mean of equal logarithms is off by 1e-6, which the guard 1e-5 divides
    assert log_mel(torch.zeros(1, 8000))[0].abs().max() < 1
    assert not log_mel(speech_like(160)[None])[0].any()


def test_without_normalisation_silence_is_the_guard():
    found, _ = log_mel(torch.zeros(2, 1600), torch.tensor([1600, 800]), normalise=False)
    torch.testing.assert_close(found[0], torch.full((64, 10), -24 * np.log(2)).float())
    assert not found[1, :, 5:].any()


def test_a_nan_stays_in_its_utterance():
    signal = torch.stack([speech_like(4000), speech_like(4000, 1)])
    wanted = log_mel(signal)[0][1]
    signal[0, 2000] = torch.nan
    found = log_mel(signal)[0]
    assert found[0].isnan().any() and torch.equal(found[1], wanted)


def test_a_nan_in_the_padding_is_not_heard():
    signal, lengths = (
        torch.stack([speech_like(4000), speech_like(4000, 1)]),
        torch.tensor([2000, 4000]),
    )
    wanted = log_mel(signal, lengths)[0]
    signal[0, 2000:] = torch.nan
    assert torch.equal(log_mel(signal, lengths)[0], wanted)


def test_dither_is_seeded_and_leaves_the_input_alone():
    signal = torch.zeros(1, 1600)
    a, b = (
        log_mel(signal, dither=1e-3, generator=torch.Generator().manual_seed(4))[0]
        for _ in "ab"
    )
    assert torch.equal(a, b) and a.any() and not signal.any()


def test_stretches_of_several_utterances_change_nothing(monkeypatch):
    signals = torch.stack([speech_like(1600 * 7, seed) for seed in range(5)])
    wanted = torch.cat([log_mel(signal[None])[0] for signal in signals])
    sizes, rfft = [], torch.fft.rfft
    monkeypatch.setattr(torch.fft, "rfft", lambda x: sizes.append(x.shape[:2]) or rfft(x))
    for stretch, pieces in ((150, [(2, 70)] * 2 + [(1, 70)]), (69, [(1, 69), (1, 1)] * 5)):
        monkeypatch.setattr(features, "STRETCH", stretch)
        torch.testing.assert_close(log_mel(signals)[0], wanted, rtol=1e-9, atol=1e-9)
        assert [tuple(size) for size in sizes] == pieces
        sizes.clear()


def test_threads_change_nothing():
    signals, before = (
        torch.stack([speech_like(8000, seed) for seed in range(3)]),
        torch.get_num_threads(),
    )
    try:
        found = [torch.set_num_threads(n) or log_mel(signals)[0] for n in (1, 2)]
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)  # sums in another order


@pytest.mark.parametrize("device", DEVICES)
def test_autocast_leaves_features_in_float32(device):
    signal = speech_like(16_000, dtype=torch.float32)[None].to(device)
    wanted = log_mel(signal)[0]
    with torch.autocast(device, dtype=torch.bfloat16):
        found = log_mel(signal)[0]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


def test_half_floats_count_as_float32():
    found, _ = log_mel(speech_like(1600)[None].half())
    assert found.dtype == torch.float32


def test_strided_input_gives_the_same():
    signal = torch.stack([speech_like(3200), speech_like(3200, 1)])
    assert torch.equal(log_mel(signal.T.contiguous().T)[0], log_mel(signal)[0])


@pytest.mark.parametrize(
    "signal, lengths, message",
    [
        (torch.zeros(1, 1600, dtype=torch.int16), None, "divide 16-bit integers"),
        (torch.zeros(1600), None, r"\(B, N\)"),
        (np.zeros((1, 1600)), None, "ndarray"),
        (torch.zeros(0, 1600), None, "at least one"),
        (torch.zeros(1, 100), None, "one frame"),
        (torch.zeros(2, 1600), torch.tensor([1600]), "2 integers"),
        (torch.zeros(1, 1600), torch.tensor([1601]), "the signal's"),
        (torch.zeros(1, 1600), torch.tensor([159]), "one frame"),
        (torch.zeros(1, 1600), torch.tensor([800.0]), "integers"),
    ],
)
def test_what_is_no_speech_is_refused(signal, lengths, message):
    with pytest.raises(ValueError, match=message):
        log_mel(signal, lengths)
