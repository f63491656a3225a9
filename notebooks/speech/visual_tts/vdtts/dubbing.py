"""From a clip to a dub to its scores: what every row of the table goes through.

A dub is cut to its video's length, or gets silence at its end, and is set to the clip's level:
that is how it would be mixed.
"""

import numpy as np
import torch
from speech_scores import (
    cepstra,
    f0_frame_error,
    f0_track,
    gross_pitch_error,
    mel_cepstral_distortion,
    silence_overlap,
    sync_scores,
    voicing_error,
)
from talking_faces import FPS, read_again

from .mel import MEAN, RATE_HZ, SPREAD, log_mel, vocode
from .model import SYSTEMS
from .training import batch_of

__all__ = ["MISSING", "ROWS", "SCORES", "dub", "fitted", "rows_of", "scores_of", "shuffled"]
__all__ += ["speak"]

SCORES = ("distance", "confidence", "offset", "mcd", "mcd_warped", "gpe", "vde", "ffe")
SCORES += ("silence", "length_s")
MISSING = -1.0  # in a receipt, where a row has no frame to score
ROWS = ("ground truth", "copy synthesis", "silence", "read again", *SYSTEMS, "mouth crop")
ROWS += ("shuffled video", "mismatched text", "teacher-forced")


@torch.inference_mode()
def speak(model, items, seed=0):
    """What a model says of each item, free-running: a list of log-mels (S, M), and the Said of
    all of them.
    """
    torch.manual_seed(seed)
    said = model(batch_of(items, next(model.parameters()).device), teacher=False)
    ends = zip(said.mel, said.steps.tolist(), strict=True)
    return [mel[: 4 * steps].cpu() for mel, steps in ends], said


def dub(mel_SM, clip, rounds=40):
    """The sound of a log-mel at the length and the level of the clip: float32 (640 frames,)."""
    return fitted(vocode(mel_SM[None], rounds)[0].numpy(), clip)


def fitted(sound_N, clip):
    """A sound cut or filled to the clip's length, at the clip's level: no score may reward who
    is louder. Silence stays silence.
    """
    wanted = len(clip.sound_N)
    sound = np.pad(sound_N[:wanted], (0, max(0, wanted - len(sound_N))))
    level, own = (
        np.sqrt(np.mean(np.square(x, dtype=np.float64))) for x in (clip.sound_N, sound)
    )
    return np.float32(sound * (level / own if own > 1e-6 else 1))


def scores_of(sound_N, clip, scorer, length_s=None):
    """All SCORES of a dub beside its clip; sound against sound, each spectrogram and pitch
    taken anew. `length_s` is what the model said, before it was fitted.
    """
    true, said = (log_mel(torch.tensor(x)[None])[0] for x in (clip.sound_N, sound_N))
    c_said, c_true = (cepstra((mel * SPREAD + MEAN).numpy()) for mel in (said, true))
    f_said, f_true = (f0_track(x) for x in (sound_N, clip.sound_N))
    length_s = len(sound_N) / RATE_HZ if length_s is None else length_s
    return sync_scores(scorer, torch.from_numpy(clip.face_THW), said) | {
        "mcd": mel_cepstral_distortion(c_said, c_true),
        "mcd_warped": mel_cepstral_distortion(c_said, c_true, warp=True),
        "gpe": gross_pitch_error(f_said, f_true),
        "vde": voicing_error(f_said, f_true),
        "ffe": f0_frame_error(f_said, f_true),
        "silence": silence_overlap(sound_N, clip.sound_N),
        "length_s": abs(length_s - clip.frames / FPS),
    }


def shuffled(items, name):
    """The items with `name` ("video", or "letters") taken from the next one."""
    moved = [items[(at + 1) % len(items)] for at in range(len(items))]
    return [item | {name: other[name]} for item, other in zip(items, moved, strict=True)]


def rows_of(networks, clips, items, mouth_items=None, rounds=20):
    """{row: a dub of each clip} and {row: how long in s each was before it was fitted}.

    Rows: four bounds, of which "read again" is the clip's own voice with newly drawn pauses, a
    perfect reader who sees nothing; the four systems, and "both" with a mouth crop where there
    is one; and "both" with another clip's video, with another clip's text, and with the true
    last step before each step (teacher-forced).
    """
    given = {name: (name, items) for name in SYSTEMS}
    given |= {"mouth crop": ("mouth", mouth_items)} if mouth_items else {}
    given |= {"shuffled video": ("both", shuffled(items, "video"))}
    given |= {"mismatched text": ("both", shuffled(items, "letters"))}
    mels = {row: speak(networks[name], seen)[0] for row, (name, seen) in given.items()}
    torch.manual_seed(0)
    with torch.inference_mode():
        batch = batch_of(items, next(networks["both"].parameters()).device)
        forced = networks["both"](batch).mel.cpu()
    mels["teacher-forced"] = [mel[: 4 * c.frames] for mel, c in zip(forced, clips, strict=True)]
    mels["copy synthesis"] = [item["mel"] for item in items]
    rng = np.random.default_rng(len(clips))
    again = [read_again(clip, rng) for clip in clips]
    dubs = {
        "ground truth": [clip.sound_N for clip in clips],
        "silence": [np.zeros_like(clip.sound_N) for clip in clips],
        "read again": [fitted(sound, clip) for sound, clip in zip(again, clips, strict=True)],
    }
    for row, made in mels.items():
        dubs[row] = [dub(mel, clip, rounds) for mel, clip in zip(made, clips, strict=True)]
    lengths = {row: [len(mel) / 100 for mel in made] for row, made in mels.items()}
    lengths["read again"] = [len(sound) / RATE_HZ for sound in again]
    ordered = {row: dubs[row] for row in ROWS if row in dubs}
    return ordered, {row: lengths.get(row, [None] * len(clips)) for row in ordered}
