"""The race: our tracker and SORT and ByteTrack of `trackers`, on the same boxes, at equal HOTA.

In the chapter's folder, a receipt or a quick look:

    python -m apron_cameras.bench_tracking
    python -m apron_cameras.bench_tracking --rounds 3 --minutes 3

All get what the network found in one film of camera A, a frame a second. A peer's settings are
chosen for its best HOTA, by `trackeval`, on a film that is not raced; and it is raced only
where its HOTA is within `EQUAL` of ours or above, else it is named with both scores and no
time. Ours knows the ground, and peers do not: that is told beside the number. It knows kinds,
too, so a peer may have a tracker for each kind, if it is worth a hundredth of HOTA. Rendering,
finding and making a peer's detections are outside of the clock; `frame_latency` is network and
tracker on one frame of a stand with one thing of each kind.
"""

import argparse
import importlib.util
import itertools

import numpy as np
import torch
from critical_path import draw
from event_scores import idf1
from helpers import bench, check, device, receipts

from . import detector, pipeline, scene
from .footage import Faults, film
from .tracker import Tracker

EQUAL = 0.03  # HOTA that a peer may lack
CAMERA = scene.CAMERAS[0]
TRACKERS, TWO = ("SORTTracker", "ByteTrackTracker"), (False, True)
# tracker, frames it waits, frames until it is told, least overlap, least score, kinds apart
GRID = list(itertools.product(TRACKERS, (30, 60), (1, 2), (0.1, 0.3), (0.3, 0.7), TWO))


def boxes(minutes: float, seed: int) -> list[tuple]:
    """(clock, what was found, true numbers and boxes) of each frame of a film of camera A."""
    at, _, end = pipeline.staged(draw(np.random.default_rng([seed, 77])))
    frames = film(at, min(end, 60 * minutes), Faults(bursts=0.0), seed, every=1.0)
    mine = (one for one in frames if one.camera == CAMERA.name)
    watched, network, made = [], detector.load(), []
    for frame in mine:
        watched.append(frame)
        made += detector.find(network, frame.picture[None])
    return [
        (frame.clock, found, [s for s in frame.seen if s.visible >= detector.LEAST_VISIBLE])
        for frame, found in zip(watched, made, strict=True)
    ]


def ours(frames: list[tuple]) -> list[tuple[list, list]]:
    """(numbers, boxes) of each frame, by our tracker."""
    tracker = Tracker(CAMERA)
    steps = (tracker.step(clock, found) for clock, found, _ in frames)
    return [([one.number for one in told], [one.box for one in told]) for told in steps]


def handed(frames: list[tuple], apart: bool = False) -> list[list]:
    """What a peer is handed of each frame: `supervision`'s detections, all in one, or those of
    each kind `apart`. Made outside of the clock."""
    import supervision

    made = []
    for _, found, _ in frames:
        xyxy = np.array([one.box for one in found], np.float32).reshape(-1, 4)
        kinds = np.array([scene.KINDS.index(one.kind) for one in found], int)
        scores = np.array([one.score for one in found], np.float32)
        whole = supervision.Detections(xyxy=xyxy, confidence=scores, class_id=kinds)
        made.append([whole[kinds == k] for k in range(len(scene.KINDS))] if apart else [whole])
    return made


def peer(detections: list[list], name, keep, frames, overlap, score, apart=False):
    """(numbers, boxes) of each frame, by a tracker of `trackers` with these settings, or by one
    for each kind, if the detections are `handed` apart."""
    import trackers

    settings = {
        "lost_track_buffer": keep,
        "frame_rate": 30.0,  # at which the buffer counts frames
        "minimum_consecutive_frames": frames,
        "minimum_iou_threshold": overlap,
        "track_activation_threshold": score,
    }
    made = [getattr(trackers, name)(**settings) for _ in (scene.KINDS if apart else "1")]
    told = []
    for each in detections:
        numbers, boxes = [], [np.zeros((0, 4))]
        for kind, (one, some) in enumerate(zip(made, each, strict=True)):
            found = one.update(some)
            known = found.tracker_id >= 0
            numbers += [(kind, number) for number in found.tracker_id[known].tolist()]
            boxes.append(found.xyxy[known])
        told.append((numbers, np.concatenate(boxes)))
    return told


def scores(frames: list[tuple], told: list[tuple]) -> dict[str, float]:
    """{"hota", "idf1"} by `trackeval`, over all kinds together."""
    from event_scores import iou
    from trackeval.metrics import HOTA, Identity

    true = [([s.number for s in seen], [s.box for s in seen]) for _, _, seen in frames]
    numbers = [
        {n: at for at, n in enumerate(sorted({n for ids, _ in rows for n in ids}))}
        for rows in (true, told)
    ]
    data = {
        "gt_ids": [np.array([numbers[0][n] for n in ids], int) for ids, _ in true],
        "tracker_ids": [np.array([numbers[1][n] for n in ids], int) for ids, _ in told],
        "num_gt_ids": len(numbers[0]),
        "num_tracker_ids": len(numbers[1]),
        "num_gt_dets": sum(len(ids) for ids, _ in true),
        "num_tracker_dets": sum(len(ids) for ids, _ in told),
        "similarity_scores": [
            iou(np.array(a), np.array(b)) for (_, a), (_, b) in zip(true, told, strict=True)
        ],
    }
    hota = HOTA().eval_sequence(data)["HOTA"].mean()
    theirs = Identity({"THRESHOLD": 0.5, "PRINT_CONFIG": False}).eval_sequence(data)["IDF1"]
    check.close(idf1(true, told), theirs, atol=1e-9, why="IDF1 has one definition")
    return {"hota": float(hota), "idf1": float(theirs)}


def best(frames: list[tuple]) -> tuple:
    """The peer's settings of the grid with the best HOTA on these frames."""
    detections = {apart: handed(frames, apart) for apart in (False, True)}

    def good(one):
        hota = scores(frames, peer(detections[one[-1]], *one))["hota"]
        return round(hota, 2), not one[-1]  # of equals the one with a single tracker: faster

    return max(GRID, key=good)


def main(arguments=None):
    """Choose, score, race, print the table and the receipt's path."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("apron_turnaround", device.tier("cpu"), threads=options.threads)
    frames = boxes(options.minutes, seed=1)
    receipt.sizes(frames=len(frames), boxes=sum(len(found) for _, found, _ in frames))
    contestants, found = {"ours": lambda: ours(frames)}, {}
    if all(map(importlib.util.find_spec, ("trackers", "trackeval", "supervision"))):
        setting = best(boxes(options.minutes, seed=2))
        detections = handed(frames, setting[-1])
        print("the peer's settings:", setting)
        found = {
            "ours": scores(frames, ours(frames)),
            "peer": scores(frames, peer(detections, *setting)),
        }
        for name, one in found.items():
            print(name, one)
            for key, value in one.items():
                receipt.record(f"{name}_{key}", value, key.upper(), interval="exact")
        if found["peer"]["hota"] >= found["ours"]["hota"] - EQUAL:
            contestants["peer"] = lambda: peer(detections, *setting)
        else:
            print("not raced: the peer's HOTA is lower than ours by more than", EQUAL)
    else:
        print("left out: trackers, trackeval or supervision is not installed")
    race = bench.race(contestants, options.rounds, reference="ours", device="cpu")
    print(race)
    for name, one in race.results.items():
        receipt.record(f"{name}_frame_rate", one, "frames/s", count=len(frames))
    if "peer" in race.ratios:
        receipt.record(
            "tracker_over_peer", bench.ratio(race.results["peer"], race.results["ours"])
        )
    _latency(receipt, options)
    print(receipt.write(name="race"))


def _latency(receipt, options):
    parked = [scene.Thing(k, *scene.ZONES[k], 0, at) for at, k in enumerate(scene.KINDS)]
    network, (picture, _) = detector.load(), scene.render(CAMERA, parked)
    tracker, clock = Tracker(CAMERA), itertools.count()

    def frame():
        return tracker.step(next(clock), detector.find(network, picture[None])[0])

    one = bench.measure(frame, repeats=max(20, options.rounds), device="cpu")
    receipt.record("frame_latency", one)
    receipt.record("cameras_a_core", one, "frames/s", count=1)


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, default, words in (
        ("rounds", 20, "interleaved rounds"),
        ("threads", 1, "of torch"),
        ("minutes", 50, "of the film at most"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{words} (default: %(default)s)"
        )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
