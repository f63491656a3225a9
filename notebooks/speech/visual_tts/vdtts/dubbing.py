"""From a clip to a dub to its scores: what every row of the table goes through.

A dub is cut to its video's length, or gets silence at its end, and is set to the clip's level:
that is how it would be mixed.
"""

from functools import cache

import numpy as np
import speech_scores as scores
import torch
from scipy import stats
from talking_faces import FPS, read_again, spoken_words

from .mel import HOP, MEAN, RATE_HZ, SPREAD, log_mel, vocode
from .model import SYSTEMS
from .training import batch_of

__all__ = ["BOUNDS", "ROWS", "SCORES", "buzz", "dub", "fitted", "paired", "pitch_learned"]
__all__ += ["ranked", "row_of", "scores_of", "shuffled", "speak"]

SCORES = ("distance", "confidence", "offset", "mcd", "mcd_warped", "gpe", "vde", "ffe")
SCORES += ("silence", "length_s", "words")
BOUNDS = ("ground truth", "copy synthesis", "silence", "one pitch", "one pitch for all")
BOUNDS += ("read again",)
ROWS = (*BOUNDS, *SYSTEMS, "mouth crop", "shuffled video", "mismatched text", "teacher-forced")


@torch.inference_mode()
def speak(model, items, seed=0):
    """What a model says of each item, free-running: log-mels [(S, M)], and the Said of all."""
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
    level, own = (np.sqrt(np.mean(np.square(x, dtype=float))) for x in (clip.sound_N, sound))
    return np.float32(sound * (level / own if own > 1e-6 else 1))


def buzz(clip, pitch_hz=None):
    """A buzz where the clip is voiced, at one pitch, by default the clip's median: (N,)."""
    f0 = scores.f0_track(clip.sound_N)
    pitch_hz = pitch_hz or np.median(f0[f0 > 0])
    turns = np.arange(len(clip.sound_N)) * 2 * np.pi * pitch_hz / RATE_HZ
    tone = sum(np.sin(k * turns) / k for k in range(1, 13))
    return fitted(tone * np.repeat(f0 > 0, HOP), clip)


def _cepstra(sound_N):
    mel = log_mel(torch.as_tensor(np.float32(sound_N))[None])[0]
    return mel, scores.cepstra((mel * SPREAD + MEAN).numpy())


@cache
def _templates(voice, rate):
    return {word: _cepstra(sound)[1] for word, sound in spoken_words(voice, rate).items()}


def scores_of(sound_N, clip, scorer, length_s=None, hear=None):
    """All SCORES of a dub beside its clip; sound against sound, each spectrogram and pitch
    taken anew. `length_s` is what the model said, before it was fitted. With `hear`, a
    `speech_scores.recogniser`, also "recognised", the share of the words that it gets.
    """
    (said, c_said), (_, c_true) = (_cepstra(x) for x in (sound_N, clip.sound_N))
    f_said, f_true = (scores.f0_track(x) for x in (sound_N, clip.sound_N))
    length_s = len(sound_N) / RATE_HZ if length_s is None else length_s
    found = scores.sync_scores(scorer, torch.from_numpy(clip.face_THW), said) | {
        "mcd": scores.mel_cepstral_distortion(c_said, c_true),
        "mcd_warped": scores.mel_cepstral_distortion(c_said, c_true, warp=True),
        "gpe": scores.gross_pitch_error(f_said, f_true),
        "vde": scores.voicing_error(f_said, f_true),
        "ffe": scores.f0_frame_error(f_said, f_true),
        "silence": scores.silence_overlap(sound_N, clip.sound_N),
        "length_s": abs(length_s - clip.frames / FPS),
        "words": np.nan,
    }
    asked = [word for word, _, _ in clip.words]
    if clip.voice:  # of a person there is not each of the twelve words
        known = _templates(clip.voice, clip.script.rate)
        heard = scores.words_heard(c_said, c_true, clip.words, known)
        found["words"] = float(np.mean([a == b for a, b in zip(heard, asked, strict=True)]))
    if hear:
        found["recognised"] = scores.share_understood(hear(sound_N), asked)
    return found


def paired(ours, others, voices):
    """How much scores differ clip by clip, and the half of its 95 % interval over *voices*:
    clips of one voice are averaged first, since they are no independent draws. NaN for fewer
    than three voices that have a score in both.
    """
    off, voices = np.subtract(ours, others), np.array(voices)
    off, voices = off[np.isfinite(off)], voices[np.isfinite(off)]
    each = np.array([off[voices == one].mean() for one in sorted(set(voices))])
    if len(each) < 3:
        return np.nan, np.nan
    wide = stats.t.ppf(0.975, len(each) - 1) * each.std(ddof=1) / np.sqrt(len(each))
    return float(each.mean()), float(wide)


def ranked(means, rows=tuple(SYSTEMS)):
    """(rows, the best in time first; the distance from which on the judge ranks).

    `means` is {row: {score: mean}}. The judge likes a typical sound, so the true one is no
    bound of its distance. As near to it as a harmless change, the vocoder, moves the truth, the
    judge says nothing: there the smaller offset, then the larger overlap, is better.
    """
    truth, copy = (means[row]["distance"] for row in BOUNDS[:2])
    floor = truth + abs(copy - truth)

    def place(row):
        one = means[row]
        near = one["distance"] <= floor
        return max(one["distance"], floor), near * one["offset"], -near * one["silence"]

    return sorted(rows, key=place), floor


def pitch_learned(gpe, for_all, own):
    """What of pitch a system has learned, by its gross pitch error beside those of two buzzes,
    of one pitch for all clips and of each clip's own one: "nothing", unless it is below half of
    the first; then "whose voice it is"; below the second, "how it moves".
    """
    if not gpe < for_all / 2:
        return "nothing"
    return "how it moves" if gpe < own else "whose voice it is"


def shuffled(items, name):
    """The items with `name` ("video", or "letters") taken from the next one."""
    moved = [items[(at + 1) % len(items)] for at in range(len(items))]
    return [item | {name: other[name]} for item, other in zip(items, moved, strict=True)]


def row_of(row, clips, items, model=None, rounds=20):
    """One row of the table: a dub of each clip, and how long in s each was before it was
    fitted (None: as its clip). `model` says it, except in BOUNDS.

    "read again" is the clip's own voice with newly drawn pauses, a perfect reader who sees
    nothing; the last three get another clip's video, another clip's text, and the true last
    step before each step (teacher-forced).
    """
    given = {"ground truth": lambda clip: clip.sound_N, "one pitch": buzz}
    given["silence"] = lambda clip: np.zeros_like(clip.sound_N)
    if row == "one pitch for all":
        tracks = [scores.f0_track(clip.sound_N) for clip in clips]
        known = [np.median(f0[f0 > 0]) for f0 in tracks]  # the one that is least wrong in all
        gpe = scores.gross_pitch_error
        wrong = [sum(gpe(0 * f0 + hz, f0) for f0 in tracks) for hz in known]
        return [buzz(clip, known[np.argmin(wrong)]) for clip in clips], [None] * len(clips)
    if row in given:
        return [given[row](clip) for clip in clips], [None] * len(clips)
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
