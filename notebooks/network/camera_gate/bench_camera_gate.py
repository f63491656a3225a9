"""The race: the detector on every frame, and behind gates; in one process, and over a socket.

In the chapter's folder, a receipt or a quick look:

    python -m bench_camera_gate
    python -m bench_camera_gate --rounds 3 --clips 6

Frames come as cameras send them: one of each, then the next of each. Nothing looks ahead, and
what passes is scored before the next frame comes. Pixels lie in memory: no picture is decoded.
All have one detector and one limit, and what a contestant looks at must get the score that it
has on all frames. OpenCV's MOG2, where it is installed, gets a threshold chosen like ours, so
that no more frames pass on other clips, and the memory with which it finds most there. `every`
looks at nothing and takes as many frames as the gate for persons lets pass. What each loses is
recorded beside its time. Over the socket, threads of gRPC are busy beside the one that counts.
"""

import argparse
import importlib.util
import math

import numpy as np
import torch
from camera_scenes import FRAMES_A_SECOND, KINDS, render
from detector_service import Client, Server, watch
from frame_gates import PERSON, SQUARE, WARM, Stream, every
from gate_curves import passes, recall, threshold_for
from helpers import bench, check, device, receipts
from plate_detector import detect

SHARE = 0.3  # of the frames of other clips that may pass: about as many show a person
HISTORIES = (50, 200, 500)  # frames that MOG2 remembers; 500 is OpenCV's own


class Mog2:
    """The share of foreground in the fullest square of each frame, by OpenCV's MOG2."""

    def __init__(self, history):
        import cv2

        cv2.setNumThreads(torch.get_num_threads())
        self.cv2, self.history, self.models, self.count = cv2, history, [], 0

    def score(self, frame_BHW):
        if not self.models:
            how = {"history": self.history, "detectShadows": False}
            self.models = [self.cv2.createBackgroundSubtractorMOG2(**how) for _ in frame_BHW]
        self.count += 1
        pairs = zip(self.models, frame_BHW.numpy(), strict=True)
        fits = [self.cv2.boxFilter(m.apply(f) / 255.0, -1, (6, 6)).max() for m, f in pairs]
        return torch.tensor(fits, dtype=torch.float32) * (self.count > WARM)


class Given:
    """A gate whose scores (B, T) are known before: it costs nothing."""

    def __init__(self, scores_BT):
        self.columns = iter(scores_BT.unbind(1))

    def score(self, frame_BHW):
        return next(self.columns)


def clips_of(count, block):
    """Frames (B, T, H, W) of so many clips, all kinds by turns, and where the plate is in view,
    (B, T). Blocks of seeds have no clip in common."""
    if not 0 < count < 1000:
        raise ValueError(f"{count} clips; 1 to 999 are allowed")
    clips = [render(1000 * block + at, KINDS[at % len(KINDS)]) for at in range(count)]
    frames = torch.from_numpy(np.stack([one.frames for one in clips]))
    return frames, torch.from_numpy(np.stack([one.plate for one in clips]))


def streamed(frames_BTHW, gate, limit, look):
    """What `look` says of frames (N, H, W) that pass, NaN for what is dropped, (B, T)."""
    found = torch.full(frames_BTHW.shape[:2], torch.nan)
    for at, frame_BHW in enumerate(frames_BTHW.unbind(1)):
        passed = gate.score(frame_BHW) >= limit
        if passed.any():
            found[passed, at] = look(frame_BHW[passed])
    return found


def scored(gate, frames_BTHW):
    """The scores of a gate, (B, T)."""
    return torch.stack([gate.score(frame_BHW) for frame_BHW in frames_BTHW.unbind(1)], 1)


def gates(frames, truth, limit):
    """{name: (makes a gate, its threshold)}, chosen on these clips, which judge nothing. A peer
    that is not installed is left out; of its memories that is taken which finds most here."""
    made = {"background": lambda: Stream(SQUARE), "person": lambda: Stream(PERSON)}
    chosen = {
        name: (gate, threshold_for(scored(gate(), frames), SHARE))
        for name, gate in made.items()
    }
    if importlib.util.find_spec("cv2"):
        seen, tried = torch.stack([detect(one) for one in frames]) > limit, {}
        for history in HISTORIES:
            scores = scored(Mog2(history), frames)
            at = threshold_for(scores, SHARE)
            tried[recall(scores >= at, seen, truth), -history] = at
        (_, history), at = max(tried.items())
        chosen["mog2"] = (lambda: Mog2(-history), at)
    return chosen


def contestants(frames, chosen, client):
    """{name: scores all clips, NaN for what it drops}."""
    gate, limit = chosen["person"]
    share = float((scored(gate(), frames) >= limit).float().mean())
    even = torch.where(passes(every(frames), share), 1.0, 0.0)

    def over(frames_NHW):
        return torch.tensor(watch(frames_NHW.numpy(), [True] * len(frames_NHW), client))

    def way(make, at, look=detect):
        return lambda: streamed(frames, make(), max(at, 1e-6), look)

    ones = torch.ones_like(even)
    made = {"all": way(lambda: Given(ones), 1), "every": way(lambda: Given(even), 1)}
    made |= {name: way(*pair) for name, pair in chosen.items()}
    return made | {"socket": way(gate, limit, over)}


def lost(found, whole, truth, limit):
    """How many events that the detector finds on all frames are not found here."""
    ours, theirs = (((one > limit) & truth).any(1) for one in (found, whole))
    return int((theirs & ~ours).sum())


def agree(ways):
    """What each says, after what it looked at has the score that it has on all frames."""
    made = {name: way() for name, way in ways.items()}
    check.that(not bool(made["all"].isnan().any()), "the detector alone drops a frame")
    for name, found in made.items():
        looked = ~found.isnan()
        check.that(bool(looked.any()), f"{name} looks at no frame")
        check.close(found[looked], made["all"][looked], atol=1e-5, why=f"{name}: one detector")
    count = {name: int((~found.isnan()).sum()) for name, found in made.items()}
    same = torch.equal(made["socket"].isnan(), made["person"].isnan())
    check.that(same, "the socket must answer all that the gate for persons lets through")
    check.that(count["every"] == count["person"], f"equal frames are looked at: {count}")
    return made


def main(arguments=None):
    """Check, race, print the table and the receipt's path."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("camera_gate", device.tier("cpu"), threads=options.threads)
    (frames, truth), others = clips_of(options.clips, 3), clips_of(options.clips, 4)
    quiet = [torch.from_numpy(render(5000 + seed, "none").frames) for seed in range(6)]
    limit = max(float(detect(one).max()) for one in quiet)
    chosen, count = gates(*others, limit), math.prod(frames.shape[:2])
    receipt.sizes(clips=len(frames), frames=count)
    with Server(detect) as address, Client(address, seconds=30) as client:
        ways = contestants(frames, chosen, client)
        if "mog2" not in ways:
            print("left out: opencv is not installed")
        found = agree(ways)
        race = bench.race(ways, options.rounds, reference="all", device="cpu")
    print(race)
    for name, took in race.results.items():
        receipt.record(f"cameras_{name}", took, "cameras", count=count / FRAMES_A_SECOND)
        many = lost(found[name], found["all"], truth, limit)
        receipt.record(f"lost_{name}", many, "events", interval="exact")
        passed = float((~found[name].isnan()).float().mean())
        receipt.record(f"passed_{name}", 100 * passed, "%", interval="exact")
    receipt.record("gated_speedup", race.ratios["person"])
    print(receipt.write(name="race"))


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, default, words in (
        ("rounds", 20, "interleaved rounds"),
        ("threads", 1, "of torch and OpenCV"),
        ("clips", 12, "cameras, a clip each; a third each carried, left, thrown"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{words} (default: %(default)s)"
        )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
