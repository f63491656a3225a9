"""What do the frames tell of loudness? A probe that tries to read it, and is scored on clips
that it has not seen.

Ridge regression from the pixels of the mouth crop and their differences to the frame before and
after, reduced to their principal components. Loudness in dB, within the voiced frames alone:
that a closed mouth is silent may be seen.
"""

import numpy as np

__all__ = ["loudness_db", "probe_r2"]


def loudness_db(clip):
    """The level of each frame in dB, (T,), floored at -60."""
    frames = clip.sound_N.reshape(clip.frames, -1)
    return 10 * np.log10((frames**2).mean(1) + 1e-6)


def probe_r2(train, test, within=True, components=40, ridge=1.0):
    """The share of the loudness's variance that the probe explains in the clips of `test`; at
    or below 0 it reads nothing.

    `within`: voiced frames only. Each clip's own mean loudness is taken off, so what counts is
    how it moves.
    """
    seen, wanted = _frames(train, within)
    mean, (_, _, axes) = seen.mean(0), np.linalg.svd(seen - seen.mean(0), full_matrices=False)
    axes = axes[:components]
    x = (seen - mean) @ axes.T
    weights = np.linalg.solve(
        x.T @ x + ridge * len(x) * np.eye(len(axes)) * x.var() * 0.01, x.T @ wanted
    )
    seen, wanted = _frames(test, within)
    off = wanted - (seen - mean) @ axes.T @ weights
    return 1 - float((off**2).sum() / (wanted**2).sum())


def _frames(clips, within):
    seen, wanted = [], []
    for clip in clips:
        pixels = clip.mouth_THW.astype(np.float32)[:, 4::2, ::2].reshape(clip.frames, -1) / 255
        pixels = pixels - pixels.mean(0)
        around = np.concatenate([pixels, np.roll(pixels, 1, 0), np.roll(pixels, -1, 0)], 1)
        kept = clip.voiced_T if within else np.ones(clip.frames, bool)
        level = loudness_db(clip)[kept]
        seen.append(around[kept])
        wanted.append(level - level.mean())
    return np.concatenate(seen), np.concatenate(wanted)
