"""The four systems over several seeds, and the shipped networks: trainings that are longer than
a page may be.

A step that sees costs twice one that only reads; so that all systems have about one time on a
core, those that read get more steps. In the slice's folder, ten minutes for each seed on a
quiet core:

    python -m vdtts.study_visual_tts --seeds 0 1 2
    python -m vdtts.study_visual_tts --seeds 0 --ship      # writes visual_tts.safetensors, too

Trained networks and scores of each seed are kept in _build/visual_tts and taken from there, so
it may be stopped. Copy its receipt to data/receipts/visual_tts/.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from helpers import device, receipts
from scipy import stats
from speech_scores import SyncScorer, train_scorer
from talking_faces import make_clips

from .checkpoint import SHIPPED, save_all
from .dubbing import MISSING, ROWS, SCORES, rows_of, scores_of
from .model import SYSTEMS, VisualTTS
from .training import mel_of, prepare, train
from .voice_vector import VoiceVector, train_voices

KEPT = Path(__file__).parents[4] / "_build" / "visual_tts"
SIZES = {"clips": 960, "batch": 16, "test": 12, "sync": 160, "scorer_steps": 300}
GAINS = (("distance", 1, "points"), ("mcd", 1, "dB"), ("gpe", 100, "%"), ("ffe", 100, "%"))
GAINS += (("silence", -100, "%"),)
SIZES |= {"steps_reading": 1600, "steps_seeing": 900}  # of 0.07 and of 0.15 s on a quiet core


def main(arguments=None):
    """Trains what is not kept yet, scores every row, prints means, writes the receipt."""
    options = _options(arguments)
    torch.set_num_threads(1)
    KEPT.mkdir(parents=True, exist_ok=True)
    (voices, scorer, clips), scores = _shared(), []
    for seed in options.seeds:
        networks = {name: _trained(name, clips, voices, seed) for name in (*SYSTEMS, "mouth")}
        if options.ship:
            shipped = {name: networks[name] for name in SYSTEMS}
            shipped |= {"voices": voices, "scorer": scorer}
            save_all(shipped, SHIPPED, SIZES | {"seed": seed})
        scores.append(_scored(networks, voices, scorer, seed))
    print(_receipt(scores).write(name="study"))


def _shared():
    """The voice vector, the scorer of other speakers, and the training clips; all seeds share
    them.
    """
    path, clips = KEPT / "shared.pt", make_clips("train", SIZES["clips"], 1)
    if not path.exists():
        other = make_clips("sync", SIZES["sync"], 5)
        items = [
            {"video": torch.from_numpy(clip.face_THW), "mel": mel_of(clip)} for clip in other
        ]
        voices, named = train_voices(
            [mel_of(clip) for clip in clips], [clip.speaker for clip in clips], 400
        )
        scorer, found = train_scorer(items, SIZES["scorer_steps"])
        print(f"voices named {named:.0%}, moments found {found:.0%}", flush=True)
        torch.save({"voices": voices.state_dict(), "scorer": scorer.state_dict()}, path)
    voices, scorer, state = VoiceVector(), SyncScorer(), torch.load(path)
    voices.load_state_dict(state["voices"]), scorer.load_state_dict(state["scorer"])
    return voices.eval().requires_grad_(False), scorer.eval().requires_grad_(False), clips


def _trained(name, clips, voices, seed):
    path, system = KEPT / f"{name}_{seed}.pt", "both" if name == "mouth" else name
    if not path.exists():
        items = prepare(clips, voices, "mouth" if name == "mouth" else "face")

        def told(step, parts, seconds):
            if step % 50 == 49:
                print(name, seed, step + 1, parts, f"{seconds:.0f} s", flush=True)

        steps = SIZES["steps_reading" if "video" not in SYSTEMS[system] else "steps_seeing"]
        model, losses = train(system, items, steps, seed, SIZES["batch"], told=told)
        torch.save({"state": model.state_dict(), "losses": losses}, path)
    model = VisualTTS(system)
    model.load_state_dict(torch.load(path)["state"])
    return model.eval()


def _scored(networks, voices, scorer, seed):
    """{row: {score: one value of each test clip}}."""
    path = KEPT / f"scores_{seed}.json"
    if path.exists():
        return json.loads(path.read_text())
    clips = make_clips("test", SIZES["test"], 100 + seed)
    items = [prepare(clips, voices, view) for view in ("face", "mouth")]
    dubs, lengths = rows_of(networks, clips, *items)
    found = {}
    for row, sounds in dubs.items():
        given = zip(sounds, clips, lengths[row], strict=True)
        each = [scores_of(sound, clip, scorer, length) for sound, clip, length in given]
        found[row] = {score: [float(one[score]) for one in each] for score in SCORES}
        print(seed, row, {k: round(_mean(v), 3) for k, v in found[row].items()}, flush=True)
    path.write_text(json.dumps(found))
    return found


def _mean(values):
    """The mean of those that are finite: a row that is voiced nowhere has no pitch error."""
    finite = [value for value in values if np.isfinite(value)]
    return float(np.mean(finite)) if finite else float("nan")


def _receipt(seeds):
    """The receipt: means over clips by row and seed, MISSING where a score has no frame, and
    what both gains over text with length.
    """
    receipt = receipts.start("visual_tts", device.tier("cpu"), threads=1)
    receipt.sizes(seeds=len(seeds), **SIZES)
    means = [
        {row: {k: _mean(v) for k, v in of.items()} for row, of in s.items()} for s in seeds
    ]
    columns = {"row": list(range(len(ROWS))) * len(means)}
    columns["seed"] = np.repeat(range(len(means)), len(ROWS)).tolist()
    for score in SCORES:
        values = [seed[row][score] for seed in means for row in ROWS]
        columns[score] = np.nan_to_num(values, nan=MISSING).tolist()
    receipt.curve("rows", **columns)
    for score, scale, unit in GAINS:
        gains = [scale * (seed["length"][score] - seed["both"][score]) for seed in means]
        gains = [gain for gain in gains if np.isfinite(gain)]
        if gains:
            mean, low, high = _interval(gains)
            told = f"seeds: {', '.join(f'{gain:.3f}' for gain in gains)}"
            receipt.record(f"study_{score}_gain", mean, unit, low, high, len(gains), told)
    return receipt


def _interval(gains):
    """Their mean and its 95 % interval over seeds by Student's t; no interval for one seed."""
    mean = float(np.mean(gains))
    if len(gains) < 2:
        return mean, None, None
    half = stats.t.ppf(0.975, len(gains) - 1) * np.std(gains, ddof=1) / len(gains) ** 0.5
    return mean, mean - half, mean + half


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ship", action="store_true", help="ship the last seed's networks")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
