"""The four systems over several seeds, and the shipped networks: trainings that are longer than
a page may be.

A step that sees costs more than twice one that only reads; so that all systems have about one
time on a core, those that read get more steps. In the slice's folder, ten minutes for each seed
on a quiet core:

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
from .dubbing import ROWS, SCORES, rows_of, scores_of
from .model import SYSTEMS, VisualTTS
from .training import mel_of, prepare, train
from .voice_vector import VoiceVector, train_voices

KEPT = Path(__file__).parents[4] / "_build" / "visual_tts"
SIZES = {"clips": 960, "batch": 16, "test": 12, "sync": 160, "scorer_steps": 300}
GAINS = (("distance", 1, "points"), ("mcd", 1, "dB"), ("gpe", 100, "%"), ("ffe", 100, "%"))
SIZES |= {"steps_reading": 1600, "steps_seeing": 900}  # of 0.07 and of 0.15 s on a quiet core


def main(arguments=None):
    """Trains what is not kept yet, scores every row, prints means, writes the receipt."""
    options = _options(arguments)
    torch.set_num_threads(1)
    KEPT.mkdir(parents=True, exist_ok=True)
    voices, scorer, clips = _shared()
    for seed in options.seeds:
        networks = {
            name: _trained(name, clips, voices, seed)
            for name in (*SYSTEMS, "mouth")
            if name in options.systems
        }
        if options.ship:
            shipped = {name: network for name, network in networks.items() if name in SYSTEMS}
            save_all(
                shipped | {"voices": voices, "scorer": scorer}, SHIPPED, SIZES | {"seed": seed}
            )
        if len(networks) == len(SYSTEMS) + 1:
            _scored(networks, voices, scorer, seed)
    done = [
        json.loads(path.read_text())
        for path in (KEPT / f"scores_{seed}.json" for seed in options.seeds)
        if path.exists()
    ]
    if done:
        print(_receipt(done).write(name="study"))


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
                print(
                    name,
                    seed,
                    step + 1,
                    {key: round(part, 3) for key, part in parts.items()},
                    f"{seconds:.0f} s",
                    flush=True,
                )

        steps = SIZES["steps_reading" if "video" not in SYSTEMS[system] else "steps_seeing"]
        model, losses = train(system, items, steps, seed, SIZES["batch"], told=told)
        torch.save({"state": model.state_dict(), "losses": losses}, path)
    model = VisualTTS(system)
    model.load_state_dict(torch.load(path)["state"])
    return model.eval()


def _scored(networks, voices, scorer, seed):
    path = KEPT / f"scores_{seed}.json"
    if path.exists():
        return
    clips = make_clips("test", SIZES["test"], 100 + seed)
    dubs, lengths, _ = rows_of(
        networks, clips, prepare(clips, voices), prepare(clips, voices, "mouth")
    )
    found = {}
    for row, sounds in dubs.items():
        said = lengths.get(row, [None] * len(clips))
        each = [
            scores_of(sound, clip, scorer, length)
            for sound, clip, length in zip(sounds, clips, said, strict=True)
        ]
        found[row] = {score: [float(one[score]) for one in each] for score in SCORES}
        print(
            seed,
            row,
            {
                score: round(float(np.nanmean(values)), 3)
                for score, values in found[row].items()
            },
            flush=True,
        )
    path.write_text(json.dumps(found))


def _receipt(seeds):
    """The receipt: means over clips by row and seed, -1 where a score has no frame, and
    what both gains over text with length.
    """
    receipt = receipts.start("visual_tts", device.tier("cpu"), threads=1)
    receipt.sizes(seeds=len(seeds), **SIZES)
    means = [
        {
            row: {score: float(np.nanmean(v)) for score, v in one.items()}
            for row, one in seed.items()
        }
        for seed in seeds
    ]
    columns = {score: [seed[row][score] for seed in means for row in ROWS] for score in SCORES}
    columns = {
        score: np.nan_to_num(values, nan=-1.0).tolist() for score, values in columns.items()
    }
    numbers = [list(range(len(ROWS))) * len(means), np.repeat(range(len(means)), len(ROWS))]
    receipt.curve("rows", row=numbers[0], seed=numbers[1].tolist(), **columns)
    for score, scale, unit in GAINS:
        gains = [scale * (seed["length"][score] - seed["both"][score]) for seed in means]
        gains = [gain for gain in gains if np.isfinite(gain)]  # none is voiced in both: no GPE
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
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[0, 1, 2], help="default: 0 1 2"
    )
    parser.add_argument(
        "--systems",
        nargs="+",
        default=[*SYSTEMS, "mouth"],
        help="train these only, score nothing",
    )
    parser.add_argument(
        "--ship",
        action="store_true",
        help="write visual_tts.safetensors of the last seed named",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
