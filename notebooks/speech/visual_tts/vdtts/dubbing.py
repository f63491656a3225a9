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

__all__ = ["MISSING", "ROWS", "SCORES", "dub", "fitted", "row_of", "rows_of", "scores_of"]
__all__ += ["shuffled", "speak"]

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


def row_of(row, clips, items, model=None, rounds=20):
    """One row of the table: a dub of each clip, and how long in s each was before it was
    fitted (None: as its clip). `model` says it, except in the first four of ROWS.

    "read again" is the clip's own voice with newly drawn pauses, a perfect reader who sees
    nothing; the last three get another clip's video, another clip's text, and the true last
    step before each step (teacher-forced).
    """
    if row in ("ground truth", "silence"):
        keep = row == "ground truth"
        sounds = [clip.sound_N if keep else np.zeros_like(clip.sound_N) for clip in clips]
        return sounds, [None] * len(clips)
    if row == "read again":
        rng = np.random.default_rng(len(clips))
        sounds = [read_again(clip, rng) for clip in clips]
        dubs = [fitted(sound, clip) for sound, clip in zip(sounds, clips, strict=True)]
        return dubs, [len(sound) / RATE_HZ for sound in sounds]
    mels = _mels(row, clips, items, model)
    dubs = [dub(mel, clip, rounds) for mel, clip in zip(mels, clips, strict=True)]
    return dubs, [len(mel) / 100 for mel in mels]


def _mels(row, clips, items, model):
    if row == "copy synthesis":
        return [item["mel"] for item in items]
    if row != "teacher-forced":
        taken = {"shuffled video": "video", "mismatched text": "letters"}.get(row)
        return speak(model, shuffled(items, taken) if taken else items)[0]
    torch.manual_seed(0)
    with torch.inference_mode():
        forced = model(batch_of(items, next(model.parameters()).device)).mel.cpu()
    return [mel[: 4 * clip.frames] for mel, clip in zip(forced, clips, strict=True)]


def rows_of(networks, clips, items, mouth_items=None, rounds=20):
    """{row: a dub of each clip} and {row: how long in s each was before it was fitted}, the
    rows of `row_of`: four bounds, the four systems, "both" with a mouth crop where there is
    one, and three controls of "both".
    """
    found = {}
    for row in ROWS:
        model = networks.get({"mouth crop": "mouth"}.get(row, row), networks["both"])
        seen = mouth_items if row == "mouth crop" else items
        if seen:
            found[row] = row_of(row, clips, seen, model, rounds)
    return tuple({row: made[which] for row, made in found.items()} for which in (0, 1))
