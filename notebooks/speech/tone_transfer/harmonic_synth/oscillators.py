"""An instrument as two simple machines: a bank of harmonic oscillators, and filtered noise,
driven by slow controls.

Engel et al. 2020, *DDSP: Differentiable Digital Signal Processing*: audio = Σ_k
A·c_k·sin(2π·k·φ), with φ the running sum of f0 / sample rate, and noise shaped by a filter for
each frame. Written anew from the equations. Three choices of ours: the phase is summed in
float64 once per frame and is a parabola between frames; a partial sounds between two frames
only if it stays below half of the sample rate at both, so while one crosses, for one hop, its
share is missing; the noise is a hash of (seed, sample's number), so that any chunk of it can
be made alone, in Python and in JavaScript alike.

Shapes: `B` sounds, `T` frames, `K` partials, `M` bands of noise, `N` = T·hop samples. f0 in Hz,
phases in cycles. A frame's controls hold at its first sample; between frames f0 goes straight
and amplitudes along half a cosine.
"""

import math

import torch

# segments whose sines are made at once: 64 · 60 partials · 64 samples are 1 MB in float32
BLOCK = 64


def synthesise(f0_BT, amplitude_BT, harmonics_BTK, sample_rate, hop, block=BLOCK):
    """Sound of shape (B, T·hop), in the dtype of the harmonics, from a bank of harmonic
    oscillators.

        f0, loud = torch.full((1, 250), 220.0), torch.full((1, 250), 0.5)
        synthesise(f0, loud, torch.ones(1, 250, 8), 16_000, 64).shape  # (1, 16000)

    `harmonics_BTK` (not negative) says how the amplitude is shared; partials at or above half
    of `sample_rate` get nothing, the rest sums to one. Differentiable in all three. Raises
    ValueError for shapes that do not agree.
    """
    checked(f0_BT, amplitude_BT, harmonics_BTK, sample_rate, hop)
    partials_BTK = amplitude_BT[..., None] * below_nyquist(f0_BT, harmonics_BTK, sample_rate)
    held = (torch.cat([one, one[:, -1:]], 1) for one in (f0_BT, partials_BTK))
    return bank(*held, sample_rate, hop, block=block)[0]


def below_nyquist(f0_BT, harmonics_BTK, sample_rate):
    """Shares of shape (B, T, K) that sum to one over the partials below half of the sample
    rate; all zero if none is.
    """
    kept_BTK = harmonics_BTK * (f0_BT[..., None] * _numbers(harmonics_BTK) < sample_rate / 2)
    return kept_BTK / kept_BTK.sum(-1, keepdim=True).clamp_min(torch.finfo(kept_BTK.dtype).tiny)


def living(f0_T, sample_rate, partials=60):
    """How many of the partials lie below half of the sample rate, on average over frames."""
    most_T = (sample_rate / 2 / f0_T.clamp_min(1e-3)).ceil() - 1
    return float(most_T.clamp(0, partials).mean())


def bank(f0_BT, partials_BTK, sample_rate, hop, phase_B=None, block=BLOCK):
    """(sound of shape (B, (T−1)·hop), its last phase (B,)): the samples between the first and
    the last frame.

    `phase_B` in cycles, float64: what an earlier call gave back, so that chunks join. The sound
    of a segment is one product: partials of its two frames (2, K) by sines (K, hop), faded
    over. `block` segments are made at a time: their sines stay in the cache. No sine is made of
    a partial that is above half of the sample rate in a whole block: of high notes, most.
    """
    phase_BTh, last_B = phases(f0_BT, sample_rate, hop, phase_B)
    numbers_K1 = _numbers(partials_BTK)[:, None]
    highest_BT11 = torch.maximum(f0_BT[:, :-1], f0_BT[:, 1:])[..., None, None]
    parts = [slice(at, at + block) for at in range(0, phase_BTh.shape[1], block)]
    lowest = [highest_BT11[:, part].detach().amin() for part in parts]  # read all at once:
    lowest = torch.stack(lowest).clamp_min(1e-3).tolist() if parts else []  # one wait of a GPU
    fade_h = fade(hop, partials_BTK)
    fades_2h, sounds = torch.stack([fade_h, 1 - fade_h]), []
    for part, low in zip(parts, lowest, strict=True):
        K = min(len(numbers_K1), math.ceil(sample_rate / 2 / low))
        angle_BTh = (2 * math.pi * phase_BTh[:, part]).to(partials_BTK.dtype)
        sines_BTKh = torch.sin(angle_BTh[..., None, :] * numbers_K1[:K])
        ends = partials_BTK[:, :-1, :K][:, part], partials_BTK[:, 1:, :K][:, part]
        below_BT1K = (highest_BT11[:, part] * numbers_K1[:K] < sample_rate / 2).mT
        ends_BT2h = (torch.stack(ends, -2) * below_BT1K) @ sines_BTKh
        sounds.append((ends_BT2h * fades_2h).sum(-2).flatten(1))
    empty = partials_BTK.new_zeros(len(f0_BT), 0)
    return torch.cat([empty, *sounds], 1), last_B


def phases(f0_BT, sample_rate, hop, phase_B=None):
    """(phases in cycles of shape (B, T−1, hop), the last (B,)), float64, all within [0, 1):
    exact between frames.

    f0 goes straight between frames, so its sum over j + 1 samples is (j+1)·f + j·(j+1)/2 ·
    step: only frames are summed.
    """
    start_BT, step_BT = f0_BT[:, :-1].double(), f0_BT.double().diff(dim=1) / hop
    whole_BT = (hop * start_BT + step_BT * hop * (hop - 1) / 2) / sample_rate
    after_BT = whole_BT.cumsum(1) + (0 if phase_B is None else phase_B[:, None])
    j_h = torch.arange(hop, device=f0_BT.device, dtype=torch.float64)
    within = start_BT[..., None] * (j_h + 1) + step_BT[..., None] * (j_h * (j_h + 1) / 2)
    before_BT = after_BT - whole_BT
    last_B = after_BT[:, -1] % 1 if after_BT.shape[1] else phase_B
    return (before_BT[..., None] % 1 + within / sample_rate) % 1, last_B


def fade(hop, like):
    """Half a cosine from 1 towards 0, shape (hop,): the falling half of a Hann window
    of 2·hop.
    """
    at_h = torch.arange(hop, device=like.device, dtype=torch.float64)
    return (0.5 + 0.5 * torch.cos(math.pi * at_h / hop)).to(like.dtype)


def synthesise_reference(f0_T, amplitude_T, harmonics_TK, sample_rate, hop):
    """One sound of T·hop floats, as the equations read: a loop over samples and partials in
    Python's float64.
    """
    frames, sound, phase = len(f0_T), [], 0.0
    for n in range(frames * hop):
        t, j = divmod(n, hop)
        u = min(t + 1, frames - 1)
        phase += (f0_T[t] + (f0_T[u] - f0_T[t]) * j / hop) / sample_rate
        weight = 0.5 + 0.5 * math.cos(math.pi * j / hop)
        value = 0.0
        for k in range(1, len(harmonics_TK[t]) + 1):
            if k * max(f0_T[t], f0_T[u]) >= sample_rate / 2:
                continue
            ends = []
            for frame in (t, u):
                shares = enumerate(harmonics_TK[frame], 1)
                below = sum(h for i, h in shares if i * f0_T[frame] < sample_rate / 2)
                share = harmonics_TK[frame][k - 1] / below if below else 0.0
                ends.append(amplitude_T[frame] * share)
            tone = math.sin(2 * math.pi * k * phase)
            value += (weight * ends[0] + (1 - weight) * ends[1]) * tone
        sound.append(value)
    return sound


def synthesise_plain(f0_BT, amplitude_BT, harmonics_BTK, sample_rate, hop):
    """The same sound as most would write it: every envelope at the sample rate, all at once,
    and zeros in the place of what is above half of that rate.

    It keeps several tensors of N·K numbers alive; the race times it beside `synthesise`, and
    `tone_browser.export` converts it for a fixed length.
    """
    partials_BTK = amplitude_BT[..., None] * below_nyquist(f0_BT, harmonics_BTK, sample_rate)
    frames, numbers_K1 = int(f0_BT.shape[1]), _numbers(partials_BTK)[:, None]
    after_BT, after_BTK = (torch.cat([x[:, 1:], x[:, -1:]], 1) for x in (f0_BT, partials_BTK))
    j_h, fade_h = torch.arange(hop).to(f0_BT) / hop, fade(hop, partials_BTK)
    f0_BTh = f0_BT[..., None] + (after_BT - f0_BT)[..., None] * j_h
    envelope_BTKh = partials_BTK[..., None] * fade_h + after_BTK[..., None] * (1 - fade_h)
    below_BTK1 = torch.maximum(f0_BT, after_BT)[..., None, None] * numbers_K1 < sample_rate / 2
    zeros = {"dtype": partials_BTK.dtype, "device": partials_BTK.device}
    silence_TKh = torch.zeros(frames, len(numbers_K1), hop, **zeros)
    envelope_BTKh = torch.where(below_BTK1, envelope_BTKh, silence_TKh)
    cycles_BN = torch.cumsum(f0_BTh.flatten(1).double() / sample_rate, 1)
    whole_BT1h = (cycles_BN - cycles_BN.floor()).reshape(-1, frames, 1, hop)
    angle_BT1h = (2 * math.pi * whole_BT1h).to(envelope_BTKh.dtype)
    return (envelope_BTKh * torch.sin(angle_BT1h * numbers_K1)).sum(2).flatten(1)


def white_noise(first, count, seed=0, device=None):
    """Noise in [−1, 1) of shape (count,), float32: sample `first + i` is a hash of its number
    and the seed.

    The hash is `lowbias32` (Wellons 2018, public domain): the same 32-bit integers in any
    language, from any sample on.
    """
    mask = 0xFFFFFFFF
    x = torch.arange(first, first + count, device=device, dtype=torch.int64)
    x = (x + (seed * 0x9E3779B9 & mask)) & mask
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = ((x ^ (x >> shift)) * factor) & mask
    return ((x ^ (x >> 16)).to(torch.float64) / 2**31 - 1).float()


def impulse_matrix(bands, like):
    """The matrix (M, 2·(M−1)) that turns magnitudes into the taps of a filter: zero phase,
    centred, under a Hann window.
    """
    length = 2 * (bands - 1)
    taps = torch.fft.irfft(torch.eye(bands, dtype=torch.float64), n=length)
    window = torch.hann_window(length, periodic=True, dtype=torch.float64)
    return (taps.roll(length // 2, -1) * window).to(like)


def filtered_noise(magnitudes_BTM, hop, first=0, seed=0, tail_BL=None):
    """(sound of shape (B, T·hop), tail (B, 2·(M−1))): each frame's noise through its own
    filter, overlapped and added.

    The filter's middle is half its length late; `whole_noise` takes that away. `first`: the
    number of the first sample; `tail_BL`: what an earlier call gave back.
    """
    B, T, M = magnitudes_BTM.shape
    taps_BTL = magnitudes_BTM @ impulse_matrix(M, magnitudes_BTM)
    noise = white_noise(first, T * hop, seed, magnitudes_BTM.device)
    noise_Th = noise.to(magnitudes_BTM.dtype).view(T, hop)
    length = taps_BTL.shape[-1]
    size = 1 << (hop + length - 1).bit_length()
    product = torch.fft.rfft(taps_BTL, size) * torch.fft.rfft(noise_Th, size)
    pieces_BTs = torch.fft.irfft(product, size)[..., : hop + length]
    total = (T - 1) * hop + hop + length
    shape = {"output_size": (1, total), "kernel_size": (1, hop + length), "stride": (1, hop)}
    sound = torch.nn.functional.fold(pieces_BTs.transpose(1, 2), **shape).reshape(B, total)
    if tail_BL is not None:
        sound = torch.cat([sound[:, :length] + tail_BL, sound[:, length:]], 1)
    return sound[:, : T * hop], sound[:, T * hop :]


def whole_noise(magnitudes_BTM, hop, seed=0):
    """Sound of shape (B, T·hop): filtered noise without its delay of half a filter."""
    sound, tail = filtered_noise(magnitudes_BTM, hop, seed=seed)
    late = magnitudes_BTM.shape[-1] - 1
    return torch.cat([sound, tail], 1)[:, late : late + sound.shape[1]]


def checked(f0_BT, amplitude_BT, harmonics_BTK, sample_rate, hop):
    """None; ValueError where shapes, values, rate or hop do not fit."""
    values = {"f0": f0_BT, "amplitude": amplitude_BT, "harmonics": harmonics_BTK}
    shapes = [tuple(one.shape) for one in values.values()]
    if len(shapes[0]) != 2 or shapes[1] != shapes[0] or shapes[2][:-1] != shapes[0]:
        told = "(B, T), (B, T) and (B, T, K) are allowed: one value a frame"
        raise ValueError(f"{', '.join(values)} of shapes {shapes} came; {told}")
    if not f0_BT.shape[1] or not harmonics_BTK.shape[-1]:
        raise ValueError(f"harmonics of shape {shapes[2]}: a frame and a partial are needed")
    if not (sample_rate > 0 and hop >= 1 and hop == int(hop)):
        told = "a rate above 0 and a whole hop of at least 1 are allowed"
        raise ValueError(f"sample rate {sample_rate}, hop {hop}: {told}")
    right = torch.stack([(torch.isfinite(one) & (one >= 0)).all() for one in values.values()])
    if not right.all():  # one wait of a GPU, not three
        wrong = " and ".join(n for n, one in zip(values, right, strict=True) if not one)
        raise ValueError(f"a negative number, infinity or NaN in {wrong}; 0 or more is allowed")


def _numbers(partials):
    return torch.arange(1, partials.shape[-1] + 1, device=partials.device, dtype=partials.dtype)
