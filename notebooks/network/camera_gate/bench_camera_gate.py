"""The race: the detector on every frame, and behind gates; in one process, and over a socket.

In the chapter's folder, a receipt or a quick look:

    python -m bench_camera_gate
    python -m bench_camera_gate --rounds 3 --clips 4

Clips come as streams, one camera at a time. All have one detector and one limit; what a
contestant looks at must get the score that it has on all frames, and OpenCV's MOG2, where it is
installed, gets a threshold chosen like ours, so that no more frames pass on other clips. What
each loses is recorded beside its time.
"""

import argparse
import importlib.util

import numpy as np
import torch
from camera_scenes import FRAMES_A_SECOND, KINDS, render
from detector_service import Client, Server, watch
from frame_gates import WARM, background, person
from gate_curves import threshold_for
from helpers import bench, check, device, receipts
from plate_detector import detect

SHARE = 0.3  # of the frames of other clips that may pass: about as many show a person


def mog2_scores(frames):
    """The share of foreground in the fullest square of each frame, by OpenCV's MOG2."""
    import cv2

    cv2.setNumThreads(torch.get_num_threads())
    model = cv2.createBackgroundSubtractorMOG2(history=50, detectShadows=False)
    made = [cv2.boxFilter(model.apply(f) / 255.0, -1, (6, 6)).max() for f in frames.numpy()]
    return torch.tensor([0.0] * WARM + made[WARM:], dtype=torch.float32)


def gates():
    """{name: scores of a clip (T, H, W)}; a peer that is not installed is left out."""
    made = {
        "background": lambda frames: background(frames[None])[0],
        "person": lambda frames: person(frames[None])[0],
    }
    return made | ({"mog2": mog2_scores} if importlib.util.find_spec("cv2") else {})


def clips_of(count, first):
    """(frames, plate in view) of so many clips, all kinds by turns."""
    clips = [render(first + at, KINDS[at % len(KINDS)]) for at in range(count)]
    return [(torch.from_numpy(one.frames), torch.from_numpy(one.plate)) for one in clips]


def contestants(clips, others, client):
    """{name: scores all clips, NaN for what it drops}."""
    made = {"all": lambda: [detect(frames) for frames, _ in clips]}
    limits = {}
    for name, gate in gates().items():
        scores = torch.stack([gate(frames) for frames, _ in others])
        limits[name] = max(threshold_for(scores, SHARE), 1e-6)

    def gated(name):
        def call():
            found = []
            for frames, _ in clips:
                passed = gates()[name](frames) >= limits[name]
                scores = torch.full((len(frames),), torch.nan)
                scores[passed] = detect(frames[passed])
                found.append(scores)
            return found

        return call

    def socket():
        found = []
        for frames, _ in clips:
            passed = (gates()["person"](frames) >= limits["person"]).tolist()
            told = watch(frames.numpy(), passed, client)
            found.append(torch.tensor([torch.nan if one is None else one for one in told]))
        return found

    return made | {name: gated(name) for name in limits} | {"socket": socket}


def lost(found, whole, clips, limit):
    """How many events that the detector finds on all frames are not found here."""
    pairs = zip(found, whole, clips, strict=True)
    return sum(
        bool((ours[truth] > limit).any() < (theirs[truth] > limit).any())
        for ours, theirs, (_, truth) in pairs
    )


def agree(ways):
    """What each says, after what it looked at has the score that it has on all frames."""
    made = {name: way() for name, way in ways.items()}
    for name, found in made.items():
        for ours, theirs in zip(found, made["all"], strict=True):
            looked = ~ours.isnan()
            check.close(ours[looked], theirs[looked], atol=1e-5, why=f"{name}: one detector")
        count = sum(int((~one.isnan()).sum()) for one in found)
        check.that(count > 0, f"{name} looks at no frame")
    dropped = [one.isnan() for one in made["person"]]
    same = all(
        torch.equal(one.isnan(), d) for one, d in zip(made["socket"], dropped, strict=True)
    )
    check.that(same, "the socket must answer all that the gate for persons lets through")
    return made


def main(arguments=None):
    """Check, race, print the table and the receipt's path."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("camera_gate", device.tier("cpu"), threads=options.threads)
    clips, others = clips_of(options.clips, 3000), clips_of(options.clips, 4000)
    quiet = [torch.from_numpy(render(5000 + seed, "none").frames) for seed in range(6)]
    limit = max(float(detect(one).max()) for one in quiet)
    frames = sum(len(one) for one, _ in clips)
    receipt.sizes(clips=len(clips), frames=frames)
    with Server(detect) as address, Client(address, seconds=30) as client:
        ways = contestants(clips, others, client)
        if "mog2" not in ways:
            print("left out: opencv is not installed")
        found = agree(ways)
        race = bench.race(ways, options.rounds, reference="all", device="cpu")
    print(race)
    for name, took in race.results.items():
        receipt.record(f"cameras_{name}", took, "cameras", count=frames / FRAMES_A_SECOND)
        many = lost(found[name], found["all"], clips, limit)
        receipt.record(f"lost_{name}", many, "events", interval="exact")
        passed = float(np.mean([float((~one.isnan()).float().mean()) for one in found[name]]))
        receipt.record(f"passed_{name}", 100 * passed, "%", interval="exact")
    receipt.record("gated_speedup", race.ratios["person"])
    print(receipt.write(name="race"))


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, default, words in (
        ("rounds", 20, "interleaved rounds"),
        ("threads", 1, "of torch and OpenCV"),
        ("clips", 12, "of each a third carried, left, thrown"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{words} (default: %(default)s)"
        )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
