"""From a clip to a dub to its scores: what every row of the table goes through.

A dub is cut to its video's length, or gets silence at its end: that is how it would be played.
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

from .mel import HOP, MEAN, SPREAD, log_mel, vocode
from .model import SYSTEMS
from .training import batch_of

__all__ = ["ROWS", "SCORES", "dub", "rows_of", "scores_of", "shuffled", "speak"]

SCORES = (
    "distance",
    "confidence",
    "mcd",
    "mcd_warped",
    "gpe",
    "vde",
    "ffe",
    "silence",
    "offset",
    "length_s",
)

ROWS = ("ground truth", "copy synthesis", *SYSTEMS, "mouth crop")
ROWS += ("shuffled video", "mismatched text", "teacher-forced")


@torch.inference_mode()
def speak(model, items, seed=0):
    """What a model says of each item, free-running: a list of log-mels (S, M), and the Said of
    all of them.
    """
    torch.manual_seed(seed)
    said = model(batch_of(items, next(model.parameters()).device), teacher=False)
    return [
        mel[: 4 * int(steps)].cpu() for mel, steps in zip(said.mel, said.steps, strict=True)
    ], said


def dub(mel_SM, frames, rounds=40):
    """The sound of a log-mel at the video's length: float32 (640 frames,)."""
    sound = vocode(mel_SM[None], rounds)[0]
    return torch.nn.functional.pad(sound, (0, max(0, 4 * HOP * frames - len(sound))))[
        : 4 * HOP * frames
    ].numpy()


def scores_of(sound_N, clip, scorer, length_s=None):
    """All SCORES of a dub beside its clip; sound against sound, each spectrogram and pitch
    taken anew.
    """
    true, said = (
        log_mel(torch.as_tensor(np.asarray(x))[None])[0] for x in (clip.sound_N, sound_N)
    )
    found = sync_scores(scorer, torch.from_numpy(clip.face_THW), said)
    c_said, c_true = (cepstra((mel * SPREAD + MEAN).numpy()) for mel in (said, true))
    f_said, f_true = (f0_track(x) for x in (sound_N, clip.sound_N))
    found |= {
        "mcd": mel_cepstral_distortion(c_said, c_true),
        "mcd_warped": mel_cepstral_distortion(c_said, c_true, warp=True),
    }
    found |= {"gpe": gross_pitch_error(f_said, f_true), "vde": voicing_error(f_said, f_true)}
    found |= {
        "ffe": f0_frame_error(f_said, f_true),
        "silence": silence_overlap(sound_N, clip.sound_N),
    }
    return found | {
        "length_s": abs(
            (len(sound_N) / 16_000 if length_s is None else length_s) - clip.frames / 25
        )
    }


def shuffled(items, name):
    """The items with `name` ("video", or "letters") taken from the next one."""
    moved = []
    for at, item in enumerate(items):
        moved.append(item | {name: items[(at + 1) % len(items)][name]})
    return moved


def rows_of(networks, clips, items, mouth_items=None, rounds=20):
    """{row: dubs of all clips}, their own lengths in s, and what each system said of its
    alignments.

    Rows: ground truth, copy synthesis, the four systems, "both" with a mouth crop where there
    is one, and "both" with something wrong: another clip's video, another clip's text, and the
    true last step before each step (teacher-forced).
    """
    mels, said = {"copy synthesis": [item["mel"] for item in items]}, {}
    wrong = {
        "shuffled video": shuffled(items, "video"),
        "mismatched text": shuffled(items, "letters"),
    }
    given = {name: (name, items) for name in SYSTEMS} | (
        {"mouth crop": ("mouth", mouth_items)} if mouth_items else {}
    )
    for row, (name, seen) in (
        given | {row: ("both", seen) for row, seen in wrong.items()}
    ).items():
        mels[row], said[row] = speak(networks[name], seen)
    with torch.inference_mode():
        forced = networks["both"](
            batch_of(items, next(networks["both"].parameters()).device)
        ).mel.cpu()
    mels["teacher-forced"] = [
        mel[: 4 * clip.frames] for mel, clip in zip(forced, clips, strict=True)
    ]
    dubs = {"ground truth": [clip.sound_N for clip in clips]}
    dubs |= {
        row: [dub(mel, clip.frames, rounds) for mel, clip in zip(made, clips, strict=True)]
        for row, made in mels.items()
    }
    lengths = {"ground truth": [None] * len(clips)} | {
        row: [len(mel) / 100 for mel in made] for row, made in mels.items()
    }
    return dubs, lengths, said
