"""Log-mel features of speech: the picture of a sound that the acoustic model reads.

For samples x at 16 kHz (NeMo, `FilterbankFeatures`; the constants are those of QuartzNet):

    y_n = x_n - 0.97 x_(n-1)                          pre-emphasis
    P_kt = |sum_n w_n y_(160 t + n) e^(-2 pi i k n / 512)|^2    20 ms symmetric Hann, each 10 ms
    S_ft = log(sum_k M_fk P_kt + 2^-24)               64 triangular filters, Slaney's mel scale
    F_ft = (S_ft - mean_t S_ft) / (std_t S_ft + 1e-5)    over the valid frames, with N - 1

A frame is centred on sample 160 t, with zeros before the first sample. N samples have N // 160
valid frames; the last of them ends before sample N, so that neither padding nor the company in
the batch changes a feature. NeMo also pads T to a multiple of 16; we don't.

Legend: B batch, N samples, T frames, F mel bands, K frequencies."""

import functools
import math

import torch

SAMPLE_RATE_HZ = 16_000
HOP = 160  # samples: 10 ms
WINDOW = 320  # samples: 20 ms
FFT = 512
MELS = 64
STRETCH = 2048  # frames that a CPU computes at once
PRE_EMPHASIS = 0.97
LOG_GUARD = 2.0**-24  # NeMo's: keeps the logarithm of silence finite
DEVIATION_GUARD = 1e-5


def log_mel(signal, lengths=None, normalise=True, dither=0.0, generator=None):
    """Features (B, 64, T) of the signals' dtype, and the valid frames of each, (B,) int64.

    >>> features, frames = log_mel(torch.zeros(2, 16_000), torch.tensor([16_000, 8_000]))
    >>> features.shape, frames.tolist()
    (torch.Size([2, 64, 100]), [100, 50])

    signal (B, N) in [-1, 1] at 16 kHz, float32 or float64 (half floats are computed as
    float32); lengths (B,) in samples, default all N; on the CPU they cost a GPU no wait. Frames
    beyond a length are zero. `dither` is the standard deviation of noise added to the samples:
    NeMo trains with 1e-5. `normalise=False` gives the logarithms. Raises ValueError for
    integers, another number of axes, lengths outside 160...N. Non-finite samples give
    non-finite features of their own utterance only."""
    signal_BN, lengths_B = _checked(signal, lengths)  # lengths on the host: it decides shapes
    total = int(lengths_B.max())
    padded = int(lengths_B.min()) < total
    signal_BN, lengths_B = signal_BN[:, :total], sent(lengths_B, signal.device)
    if dither:
        noise_BN = torch.empty_like(signal_BN).normal_(generator=generator)
        signal_BN = signal_BN + dither * noise_BN
    if padded:
        # no valid frame weighs what stands beyond, but its weight 0 times NaN is NaN
        inside_BN = torch.arange(total, device=signal_BN.device) < lengths_B[:, None]
        signal_BN = signal_BN.where(inside_BN, 0.0)
    frames_B, emphasised_BN = lengths_B // HOP, signal_BN.clone()
    emphasised_BN[:, 1:] -= PRE_EMPHASIS * signal_BN[:, :-1]
    features_BFT = log_bands(emphasised_BN, total // HOP)
    if normalise:
        return normalise_features(features_BFT, frames_B), frames_B
    inside_BT = torch.arange(total // HOP, device=signal_BN.device) < frames_B[:, None]
    return features_BFT.where(inside_BT[:, None], 0.0), frames_B


def sent(tensor, device):
    """The tensor on the device. To a GPU from pinned memory, so that the host goes on while it
    is copied; from ordinary memory `non_blocking` would wait all the same."""
    if tensor.device.type == "cpu" and torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def normalise_features(features, frames):
    """Each band (B, F, T) of each utterance with mean 0 and deviation 1 over its valid frames
    (B,), zero beyond. The deviation divides by N - 1 and gets 1e-5 added; one frame alone
    becomes 0."""
    place_T = torch.arange(features.shape[2], device=features.device)
    inside_B1T = (place_T < frames[:, None])[:, None]
    kept_BFT = features.where(inside_B1T, 0.0)
    mean_BF1 = kept_BFT.sum(2, keepdim=True) / frames[:, None, None]
    centred_BFT = (features - mean_BF1).where(inside_B1T, 0.0)
    others_B11 = (frames - 1).clamp(min=1)[:, None, None]
    variance_BF1 = centred_BFT.square().sum(2, keepdim=True) / others_B11
    return centred_BFT / (variance_BF1.sqrt() + DEVIATION_GUARD)


@functools.cache
def mel_filters():
    """64 triangular filters of equal area on Slaney's mel scale (Auditory Toolbox, 1998),
    linear below 1 kHz and logarithmic above: (64, 257) float64, equal to librosa's. Read
    only."""
    knee_hz, step_hz, growth = 1000.0, 200.0 / 3, math.log(6.4) / 27
    top_mel = knee_hz / step_hz + math.log(SAMPLE_RATE_HZ / 2 / knee_hz) / growth
    mels = torch.linspace(0, top_mel, MELS + 2, dtype=torch.float64)
    above = ((mels - knee_hz / step_hz) * growth).exp() * knee_hz
    edges_hz = torch.where(mels < knee_hz / step_hz, mels * step_hz, above)
    bins_hz = torch.linspace(0, SAMPLE_RATE_HZ / 2, FFT // 2 + 1, dtype=torch.float64)
    low_hz, centre_hz, high_hz = (edges_hz[i : i + MELS, None] for i in range(3))
    rising = (bins_hz - low_hz) / (centre_hz - low_hz)
    falling = (high_hz - bins_hz) / (high_hz - centre_hz)
    return torch.minimum(rising, falling).clamp(min=0) * 2 / (high_hz - low_hz)


def log_bands(emphasised_BN, frames):
    """The logarithms S of the equations, (B, F, T), for T = `frames`. On a CPU a stretch of
    frames, of several utterances where they are short, is windowed, transformed, squared and
    filtered before the next one: 8 MB that stay in cache, where a whole batch would go through
    main memory at each step; torch's threads wait for each other after every step, so that a
    stretch is not smaller. On a GPU one stretch holds all. Real and imaginary squares are not
    added: each filter weight stands twice. Sixteen neighbouring filters touch a few bins only,
    so four small products do a quarter of the work of one large one."""
    window_W, groups = _tables(emphasised_BN.dtype, str(emphasised_BN.device))
    room = WINDOW // 2, FFT - WINDOW // 2
    frames_BTW = torch.nn.functional.pad(emphasised_BN, room).unfold(1, FFT, HOP)[:, :frames]
    stretches, found = [frames_BTW], []
    if not emphasised_BN.is_cuda:
        rows = max(1, STRETCH // frames)
        stretches = [part for some in frames_BTW.split(rows) for part in some.split(STRETCH, 1)]
    with torch.autocast(emphasised_BN.device.type, enabled=False):  # products stay float32
        for part_BTW in stretches:
            spectrum_BTK = torch.fft.rfft(part_BTW * window_W)
            squares_BTQ = torch.view_as_real(spectrum_BTK).flatten(-2).square_()
            bands = [squares_BTQ[..., low:high] @ w_QF for low, high, w_QF in groups]
            found.append(torch.cat(bands, -1).view(-1, MELS))
    bands_BTF = torch.cat(found).view(-1, frames, MELS)
    return bands_BTF.add_(LOG_GUARD).log_().transpose(1, 2)


@functools.lru_cache(maxsize=8)
def _tables(dtype, device):
    """The window with zeros behind, (512,), and the filters by sixteen: the first and last of
    the squares that they touch, and their weights, every row twice, (Q, 16)."""
    window = torch.hann_window(WINDOW, periodic=False, dtype=torch.float64)
    window = torch.nn.functional.pad(window, (0, FFT - WINDOW))
    groups = []
    for filters_FK in mel_filters().split(16):
        touched = filters_FK.any(0).nonzero()
        low, high = int(touched[0]), int(touched[-1]) + 1
        weights_QF = filters_FK[:, low:high].T.repeat_interleave(2, 0).contiguous()
        groups.append((2 * low, 2 * high, weights_QF.to(device, dtype)))
    return window.to(device, dtype), groups


def _checked(signal, lengths):
    tensor = isinstance(signal, torch.Tensor)
    if not tensor or signal.ndim != 2 or not signal.is_floating_point():
        came = f"{tuple(signal.shape)} of {signal.dtype}" if tensor else type(signal).__name__
        mend = "divide 16-bit integers by 32768"  # the logarithm's guard is set for that range
        raise ValueError(f"signal must be a float tensor (B, N) in [-1, 1], got {came}; {mend}")
    if signal.dtype in (torch.float16, torch.bfloat16):
        signal = signal.float()
    if lengths is None:
        lengths = torch.full((signal.shape[0],), signal.shape[1])
    lengths = torch.as_tensor(lengths).cpu()
    if lengths.shape != signal.shape[:1] or lengths.is_floating_point() or not lengths.numel():
        need = f"{signal.shape[0]} integers, one for each signal and at least one"
        raise ValueError(f"lengths must be {need}, got {tuple(lengths.shape)} {lengths.dtype}")
    least, most = int(lengths.min()), int(lengths.max())
    if least < HOP or most > signal.shape[1]:
        allowed = f"{HOP} (one frame) to {signal.shape[1]} (the signal's)"
        raise ValueError(f"lengths lie in {least}...{most} samples; allowed are {allowed}")
    return signal, lengths.long()
