"""A room for dry speech: reverberation and background noise, both as statistical models.

    reverberation   h(t) = delta(t) + n(t) 10^(-3 t / T60), n white Gaussian noise scaled to the
                    direct-to-reverberant ratio: the model of a diffuse room (Moorer 1979;
                    Polack 1988). No single early echoes, one T60 for all frequencies.
    noise           Gaussian, with the spectrum that Hoth measured in rooms, which ITU-T P.800
                    and IEEE 269 use as room noise.

Shapes: `N` samples at 16 kHz, float64 arrays.
"""

import numpy as np
from scipy import fft

RATE_HZ = 16_000
# power density in dB (SPL per Hz, at 50 dBA) at the centres of third-octave
# bands, after IEEE 269
_HOTH_HZ = (100, 125, 160, 200, 250, 315, 400, 500, 630, 800)
_HOTH_HZ += (1000, 1250, 1600, 2000, 2500, 3150, 4000, 5000, 6300, 8000)
_HOTH_DB = (32.4, 30.9, 29.1, 27.6, 26.0, 24.4, 22.7, 21.1, 19.5, 17.8)
_HOTH_DB += (16.2, 14.6, 12.9, 11.3, 9.6, 7.8, 5.4, 2.6, -1.3, -6.6)


def room_response(t60_s, direct_db, rng):
    """An impulse response of shape (16,000 T60,): 1 for the direct sound, then noise that
    fades by 60 dB in T60 seconds.

    Its tail has the energy 10^(-direct_db / 10) of the direct sound. Raises ValueError for a
    time that is not above zero.
    """
    if not t60_s > 0:
        raise ValueError(f"a reverberation time of {t60_s} s: above zero is allowed")
    t_N = np.arange(max(2, round(t60_s * RATE_HZ))) / RATE_HZ
    tail_N = rng.standard_normal(len(t_N)) * 10 ** (-3 * t_N / t60_s)
    tail_N[0] = 0
    tail_N *= 10 ** (-direct_db / 20) / np.sqrt(np.sum(tail_N**2))
    tail_N[0] = 1
    return tail_N


def room_noise(samples, rng):
    """Gaussian noise of RMS 1 and shape (samples,), with Hoth's spectrum from 100 Hz up."""
    size = fft.next_fast_len(max(samples, 1600), real=True)  # prime sizes are slow
    hz = fft.rfftfreq(size, 1 / RATE_HZ)
    gain_db = np.interp(np.log(np.maximum(hz, 1)), np.log(_HOTH_HZ), _HOTH_DB)
    shaped = fft.rfft(rng.standard_normal(size)) * 10 ** (gain_db / 20) * (hz >= _HOTH_HZ[0])
    noise = fft.irfft(shaped, size)[:samples]
    return noise / np.sqrt(np.mean(noise**2))
