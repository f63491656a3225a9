"""Features of a sound that has not ended, normalised by what was heard so far.

Offline, each mel band has mean 0 and deviation 1 over the whole utterance. A live stream cannot
know these; two stand-ins, for frame S_ft and all frames u heard by now:

    window     mean and deviation over the window itself, as NeMo's buffered streaming does
    running    mean_f = (k m_f + sum_u S_fu) / (k + n), n frames heard, k imagined
               var_f = (k (v_f + (m_f - mean_f)^2) + sum_u (S_fu - mean_f)^2) / (k + n - 1)

`running` is ours: the exact pooled moments of the frames and of k imagined ones with mean m and
variance v, so that the first syllable is not judged by itself alone.

Legend: F mel bands, T frames of 10 ms, N samples at 16 kHz."""

import torch
from quartznet import DEVIATION_GUARD, HOP, MELS, log_mel

LEAD_FRAMES = 2  # a frame hears 161 samples before its place, pre-emphasis included


class FeatureStream:
    """Raw log-mel frames of a growing signal, each computed once.

    >>> stream = FeatureStream()
    >>> [stream.push(torch.zeros(n)).shape[1] for n in (100, 100, 400)]
    [0, 1, 2]

    `push` takes float32 samples (N,) and returns the frames (F, T) that became complete: up to
    rounding those of the whole signal, however it is cut."""

    def __init__(self):
        self.rest_N, self.frames = torch.zeros(0), 0

    def push(self, signal_N):
        base = max(0, self.frames - LEAD_FRAMES)  # the frame at which the kept samples begin
        known_N = torch.cat([self.rest_N, signal_N.to(torch.float32)])
        if len(known_N) // HOP <= self.frames - base:
            self.rest_N = known_N
            return torch.empty(MELS, 0)
        features_BFT, _ = log_mel(known_N[None], normalise=False)
        fresh_FT = features_BFT[0, :, self.frames - base :]
        self.frames += fresh_FT.shape[1]
        self.rest_N = known_N[(max(0, self.frames - LEAD_FRAMES) - base) * HOP :].clone()
        return fresh_FT


class RunningNormaliser:
    """Moments of all frames heard so far, pooled with `weight` imagined frames of a prior.

    >>> norm = RunningNormaliser()
    >>> norm.update(torch.tensor([[1.0, 3.0]]).expand(64, 2)); norm.mean_F[0].item()
    2.0

    `prior` is what `prior_of` gives; without one, weight is 0. `apply` gives (S - mean) /
    (deviation + 1e-5) with N - 1 in the variance, as offline. Sums are float64."""

    def __init__(self, prior=None, weight=100.0):
        if prior is not None and weight < 0:
            raise ValueError(f"weight={weight}: a prior counts as 0 or more imagined frames")
        self.count = float(weight) if prior is not None else 0.0
        mean_F, deviation_F = prior if prior is not None else (torch.zeros(MELS),) * 2
        self.mean_F = mean_F.double()
        self.squares_F = self.count * deviation_F.double().square()  # about the mean

    def update(self, features_FT):
        """None; counts new frames (Chan, Golub and LeVeque 1979: pooled moments)."""
        new = features_FT.shape[1]
        if not new:
            return
        part_FT = features_FT.double()
        mean_F = part_FT.mean(1)
        shift_F, total = mean_F - self.mean_F, self.count + new
        self.squares_F = self.squares_F + (part_FT - mean_F[:, None]).square().sum(1)
        self.squares_F += shift_F.square() * self.count * new / total
        self.mean_F, self.count = self.mean_F + shift_F * new / total, total

    def apply(self, features_FT):
        """The frames (F, T), normalised by what was heard up to now: float32."""
        deviation_F = (self.squares_F / max(self.count - 1, 1)).sqrt() + DEVIATION_GUARD
        scale_F1, mean_F1 = (1 / deviation_F)[:, None].float(), self.mean_F[:, None].float()
        return (features_FT - mean_F1) * scale_F1


def prior_of(signals):
    """(mean (F,), deviation (F,)) over all frames of some signals (N,): a prior for streams."""
    pooled = RunningNormaliser()
    for signal_N in signals:
        pooled.update(log_mel(signal_N[None], normalise=False)[0][0])
    return pooled.mean_F, (pooled.squares_F / max(pooled.count - 1, 1)).sqrt()
