"""What do the frames tell of loudness? Two probes that try to read it, scored on clips that
they have not seen.

One reads the pixels of the mouth crop, by ridge regression; the other gets the mouth's own
track, which is all that the face can know, and boosted trees. Both see the frames before and
after. Loudness in dB, within the voiced frames whose neighbours are voiced, too: that a closed
mouth is silent, and that a sound begins and ends, may be seen.
"""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

__all__ = ["loudness_db", "probe_r2"]


def loudness_db(clip):
    """The level of each frame in dB, (T,), floored at -60."""
    frames = clip.sound_N.reshape(clip.frames, -1)
    return 10 * np.log10((frames**2).mean(1) + 1e-6)


def probe_r2(train, test, within="inner", track=False):
    """The share of the loudness's variance that the probe explains in the clips of `test`; at
    or below 0 it reads nothing. Each clip's own mean loudness is taken off.

    `within`: "inner" frames, all "voiced" ones, or "all". With `track` it reads the mouth's own
    track in place of its pixels.
    """
    seen, wanted = _frames(train, within, track)
    if track:
        probe = HistGradientBoostingRegressor(max_iter=50, max_leaf_nodes=8, random_state=0)
    else:
        probe = make_pipeline(StandardScaler(), PCA(40, random_state=0), Ridge(100.0))
    probe.fit(seen, wanted)
    seen, wanted = _frames(test, within, track)
    return 1 - float(((wanted - probe.predict(seen)) ** 2).sum() / (wanted**2).sum())


def _frames(clips, within, track):
    seen, wanted = [], []
    for clip in clips:
        pixels = clip.mouth_THW[:, 4::2, ::2].reshape(clip.frames, -1).astype(np.float32) / 255
        what = clip.track_T4 if track else pixels - pixels.mean(0)
        around = [np.roll(what, shift, 0) for shift in (range(-3, 4) if track else (-1, 0, 1))]
        voiced = clip.voiced_T
        if within == "inner":
            voiced = voiced & np.roll(voiced, 1) & np.roll(voiced, -1)
        kept = np.ones(clip.frames, bool) if within == "all" else voiced
        level = loudness_db(clip)[kept]
        seen.append(np.concatenate(around, 1)[kept])
        wanted.append(level - level.mean())
    return np.concatenate(seen), np.concatenate(wanted)
