"""Oscillators and noise: equal to plain loops in float64, right where the answer is known,
joined without a seam.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonic_synth import oscillators as hs
from harmonic_synth import phase_sums

torch.set_num_threads(1)  # two processes of tests share two cores
RATE = 16_000


def drawn(seed=0, frames=9, partials=12, top=1_500.0):
    random = torch.Generator().manual_seed(seed)
    f0 = 60 + top * torch.rand(1, frames, generator=random, dtype=torch.float64)
    loud = torch.rand(1, frames, generator=random, dtype=torch.float64)
    return f0, loud, torch.rand(1, frames, partials, generator=random, dtype=torch.float64)


@pytest.mark.parametrize("make", [hs.synthesise, hs.synthesise_plain])
@pytest.mark.parametrize("hop", [1, 7, 16])
def test_equals_the_reference(make, hop):
    f0, loud, parts = drawn(frames=5)
    f0[0, 2] = 9_000  # no partial is left here
    wanted = hs.synthesise_reference(
        f0[0].tolist(), loud[0].tolist(), parts[0].tolist(), RATE, hop
    )
    torch.testing.assert_close(
        make(f0, loud, parts, RATE, hop)[0],
        torch.tensor(wanted, dtype=torch.float64),
        rtol=0,
        atol=1e-11,
    )


def test_blocks_do_not_change_the_sound():
    f0, loud, parts = drawn(frames=150)
    tones = loud[..., None] * parts
    whole, _ = hs.bank(f0, tones, RATE, 8, block=1_000)
    torch.testing.assert_close(
        hs.bank(f0, tones, RATE, 8, block=64)[0], whole, rtol=0, atol=1e-12
    )


def test_no_sine_is_made_of_a_partial_above_nyquist_in_a_whole_block(monkeypatch):
    made, sine = [], torch.sin
    monkeypatch.setattr(torch, "sin", lambda x: made.append(x.shape) or sine(x))
    f0 = torch.tensor([100.0, 950, 950, 1_000, 1_900, 9_000, 9_000])[None]
    f0[0, 0] = 950  # 8 partials of 950 Hz are below 8 kHz, 8.4; of 1,900 Hz 4
    hs.bank(f0, torch.ones(1, 7, 60), RATE, 16, block=2)
    assert [shape[-2] for shape in made] == [9, 8, 1]
    assert hs.living(f0[0], RATE) == (8 + 8 + 8 + 7 + 4) / 7


def test_a_bank_of_one_frame_is_empty():
    sound, phase = hs.bank(torch.ones(1, 1), torch.ones(1, 1, 60), RATE, 16)
    assert sound.shape == (1, 0) and phase is None


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 28), st.integers(0, 99))
def test_two_chunks_that_carry_the_phase_are_the_whole(cut, seed):
    f0, loud, parts = drawn(seed, frames=30)
    tones = loud[..., None] * parts
    whole, last = hs.bank(f0, tones, RATE, 16)
    first, phase = hs.bank(f0[:, : cut + 1], tones[:, : cut + 1], RATE, 16)
    second, end = hs.bank(f0[:, cut:], tones[:, cut:], RATE, 16, phase)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=0, atol=1e-9)
    assert abs(float(end - last)) % 1 < 1e-9


def test_partials_above_nyquist_are_removed_and_the_rest_is_as_loud():
    shares = hs.below_nyquist(torch.tensor([[3_000.0, 8_000.0]]), torch.ones(1, 2, 6), RATE)
    assert shares[0, 0].tolist() == [0.5, 0.5, 0, 0, 0, 0]
    assert shares[0, 1].tolist() == [0] * 6


def test_a_sine_has_its_phase_after_ten_minutes():
    cycles, last = hs.phases(torch.full((1, 250 * 600), 440.1), RATE, 64)
    off = float(last) - float(torch.tensor(440.1)) * cycles.numel() / RATE
    assert abs(off - round(off)) < 1e-6


def test_gradients_are_the_finite_differences():
    f0, loud, parts = (one.requires_grad_() for one in drawn(frames=4, partials=3, top=300.0))
    assert torch.autograd.gradcheck(lambda *a: hs.synthesise(*a, RATE, 8), (f0, loud, parts))
    bands = torch.rand(1, 3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda m: hs.whole_noise(m, 8), (bands,))


def filtered_noise_reference(magnitudes_TM, hop, seed=0):
    """`whole_noise` of one sound as a list: the filter by its cosines, the convolution sample
    by sample, float64.
    """
    length = 2 * (len(magnitudes_TM[0]) - 1)
    sound = [0.0] * (len(magnitudes_TM) * hop + length)
    noise = hs.white_noise(0, len(magnitudes_TM) * hop, seed).tolist()
    for t, magnitudes in enumerate(magnitudes_TM):
        for tap in range(length):
            angle = 2 * math.pi * (tap - length // 2) / length
            inner = sum(2 * m * math.cos(k * angle) for k, m in enumerate(magnitudes[1:-1], 1))
            value = magnitudes[0] + inner + magnitudes[-1] * math.cos(angle * length / 2)
            value *= (0.5 - 0.5 * math.cos(2 * math.pi * tap / length)) / length
            for j in range(hop):
                sound[t * hop + j + tap] += value * noise[t * hop + j]
    return sound[length // 2 : length // 2 + len(magnitudes_TM) * hop]


def test_filtered_noise_equals_the_reference():
    bands = torch.rand(1, 6, 9, dtype=torch.float64)
    wanted = filtered_noise_reference(bands[0].tolist(), 8)
    torch.testing.assert_close(
        hs.whole_noise(bands, 8)[0],
        torch.tensor(wanted, dtype=torch.float64),
        rtol=0,
        atol=1e-6,
    )


def test_noise_in_chunks_is_the_whole_and_another_seed_is_another_noise():
    bands = torch.rand(1, 20, 17, dtype=torch.float64)
    whole, tail = hs.filtered_noise(bands, 16, seed=3)
    first, carried = hs.filtered_noise(bands[:, :7], 16, seed=3)
    second, end = hs.filtered_noise(bands[:, 7:], 16, 7 * 16, 3, carried)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(end, tail, rtol=0, atol=1e-12)
    assert not torch.equal(hs.filtered_noise(bands, 16, seed=4)[0], whole)


def test_the_noise_is_white():
    noise = hs.white_noise(0, 1 << 16, seed=1).double()
    assert abs(float(noise.mean())) < 0.01 and abs(float(noise.var()) - 1 / 3) < 0.01
    power = torch.fft.rfft(noise).abs().square()[1:]
    quarters = power[: len(power) // 4 * 4].view(4, -1).mean(1)
    assert float(quarters.max() / quarters.min()) < 1.1


@pytest.mark.parametrize(
    ("f0", "loud", "parts", "rate", "told"),
    [
        (
            torch.ones(1, 3),
            torch.ones(1, 2),
            torch.ones(1, 3, 4),
            RATE,
            r"\(B, T\), \(B, T\) and",
        ),
        (
            torch.ones(1, 0),
            torch.ones(1, 0),
            torch.ones(1, 0, 4),
            RATE,
            "a frame and a partial",
        ),
        (torch.ones(1, 3), torch.ones(1, 3), torch.ones(1, 3, 4), 0, "a rate above 0"),
        (torch.full((1, 3), torch.nan), torch.ones(1, 3), torch.ones(1, 3, 4), RATE, "in f0;"),
        (torch.ones(1, 3), -torch.ones(1, 3), -torch.ones(1, 3, 4), RATE, "amplitude and harm"),
    ],
)
def test_wrong_input_is_refused(f0, loud, parts, rate, told):
    with pytest.raises(ValueError, match=told):
        hs.synthesise(f0, loud, parts, rate, 4)


def test_running_sums_fail_and_hold_as_known():
    steps = phase_sums.vibrato(4)
    truth = phase_sums.exact(steps)
    found = {
        name: phase_sums.snr_db(way(steps), truth) for name, way in phase_sums.WAYS.items()
    }
    assert (
        phase_sums.stalls_at(steps) == 256 and phase_sums.stalls_at(steps, np.float32) is None
    )
    assert abs(found["one by one, float32"] - 20.4) < 1 and found["one by one, float16"] < 0
    assert abs(found["float64, modulo, stored in float16"] - 62.9) < 0.3
    assert abs(found["the same, stored in float16: the article's"] - 62.8) < 0.3
    assert found["chunks with modulo, float16"] < 0 < 60 < found["chunks with modulo, float32"]
    assert found["scan with modulo, float32"] > found["one by one, float32"] + 40
    assert phase_sums.parallel_scan(steps, modulo=True).max() < phase_sums.TURN + 1e-5
