"""The race against MONAI: everything but the network, and the whole; and LoadGen's scenarios.

`--rounds 6 --small` is a short trial. Checked before the clock starts: MONAI's preparation, its
inferer with our map and with its own, and its Dice give what ours do. The same network, threads
and volume; each side's batch is tried first, and its best is raced. *Everything but the
network* hands both a function that copies what it gets three times. Both take the largest class
in our way: PyTorch's argmax over the first axis is so slow on a CPU that it would decide the
race. What MONAI's users get, its `AsDiscrete(argmax=True)`, is timed beside it.
Memory is that of 128³ windows in the volume of case_00037; the whole way at 128³ is run once on
the test case: same classes, windows, seconds.
"""

import argparse
import importlib.util
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from time import perf_counter

import ct_phantom as cp
import ct_volumes as cv
import dice
import kidney_unet
import loadgen_scenarios as scenarios
import sliding_windows as sw
import torch
from helpers import bench, check, data, device, receipts

WINDOW = 32
BATCHES = (1, 2, 4, 8, 16)
DISCRETE = "MONAI, network for nothing, AsDiscrete"
FULL = 128  # the benchmark's window
FULL_SHAPE = (320, 384, 384)  # of case_00037, the largest of the eight


def given(x_B1SSS: torch.Tensor) -> torch.Tensor:
    """Scores for nothing: the window three times, freshly written."""
    return x_B1SSS.repeat(1, 3, 1, 1, 1)


def theirs(scan, network, batch: int = 1, own_map: bool = False, window=WINDOW):
    """(3, D, H, W) scores by MONAI, with our map of weights or with its own."""
    from monai.inferers import sliding_window_inference

    one = torch.as_tensor(sw.gaussian(window), dtype=torch.float32)
    patch = one[:, None, None] * one[:, None] * one
    return sliding_window_inference(
        scan[None, None],
        (window,) * 3,
        batch,
        network,
        overlap=0.5,
        mode="gaussian",
        sigma_scale=0.125,
        roi_weight_map=None if own_map else patch[None, None],
    )[0]


def classes_of(scores_CDHW: torch.Tensor) -> torch.Tensor:
    """(D, H, W) uint8: the largest class, in our way, a few slices at a time."""
    found = torch.empty(scores_CDHW.shape[1:], dtype=torch.uint8)
    for at in range(0, len(found), sw.AT_ONCE):
        found[at : at + sw.AT_ONCE] = sw.largest(scores_CDHW[:, at : at + sw.AT_ONCE])
    return found


def ours(scan, network, root: float = 3.0) -> torch.Tensor:
    """(3, D, H, W) scores by slabs, kept for the comparison."""
    parts = sw.slabs(scan, network, WINDOW, root=root)
    return torch.cat([part.clone() for _, part in parts], 1)


def prepared_by_monai(scan_hu, shape, steps) -> torch.Tensor:
    """(D, H, W): by MONAI's transforms, resampled to `shape`, then fitted to `steps`."""
    from monai import transforms as tr

    top, low = cv.CLIP_HU[1], cv.CLIP_HU[0]
    cut = [min(step, max(size, WINDOW)) for step, size in zip(steps, shape, strict=True)]
    way = [
        tr.Resize(shape, mode="trilinear", align_corners=True),
        tr.ThresholdIntensity(top, above=False, cval=top),
        tr.ThresholdIntensity(low, above=True, cval=low),
        tr.NormalizeIntensity(cv.MEAN_HU, cv.STD_HU),
        tr.SpatialPad((WINDOW,) * 3, mode="edge"),
        tr.CenterSpatialCrop(cut),
        tr.SpatialPad(steps, mode="constant", value=cv.AIR),
    ]
    return torch.as_tensor(tr.Compose(way)(torch.as_tensor(scan_hu)[None])[0])


def equal(case: cv.Case, scan, labels, network) -> None:
    """None; check.Failed where MONAI's preparation, scores, classes or Dice are others."""
    from monai import metrics

    target = tuple(cp.REDUCED * mm for mm in sw.TARGET_MM)
    shape = sw.resampled_shape(case.labels.shape, case.spacing, target)
    found = prepared_by_monai(case.scan_hu, shape, scan.shape)
    check.close(scan, found, atol=1e-4, why="float32 of 1,000 HU over 76.9")
    with torch.no_grad():
        why = "float32, other order of sums"
        check.close(ours(scan, network), theirs(scan, network), atol=1e-3, rtol=1e-4, why=why)
        plain, own = ours(scan, network, root=1.0), theirs(scan, network, own_map=True)
    same = (sw.largest(plain) == sw.largest(own)).float().mean()
    check.that(same > 0.999, "MONAI's own map is the Gaussian without the cube root")
    classes = sw.segment(scan, network, WINDOW)
    hot = [torch.stack([one == label for label in (1, 2)])[None] for one in (classes, labels)]
    score = metrics.DiceMetric(include_background=True)
    check.close(
        list(dice.by_class(classes, labels)),
        score(*hot)[0].tolist(),
        atol=1e-5,
        why="the benchmark adds 1e-6 above and below, MONAI counts in float32",
    )


def best_batch(call) -> int:
    """The batch with which `call(batch)` is fastest, the best of two calls each."""
    took = {}
    for batch in BATCHES:
        times = []
        for _ in range(2):
            began = perf_counter()
            call(batch)
            times.append(perf_counter() - began)
        took[batch] = min(times)
    return min(took, key=took.get)


def ways(scan, network, window: int = WINDOW) -> dict:
    """{name: function of a batch}: from a scan to its classes, ours and MONAI's."""
    return {
        "MONAI": lambda batch: classes_of(theirs(scan, network, batch, window=window)),
        "ours": lambda batch: sw.segment(scan, network, window, batch=batch),
    }


def contestants(scan, network) -> tuple[dict, dict]:
    """(functions without arguments, their batches): the whole, and everything but the network,
    each with the batch that suits it best.
    """
    tried = ways(scan, network)
    tried |= {f"{name}, network for nothing": way for name, way in ways(scan, given).items()}
    best = {name: best_batch(way) for name, way in tried.items()}
    found = {name: partial(way, best[name]) for name, way in tried.items()}
    if importlib.util.find_spec("monai"):  # its own last step, which asks PyTorch's argmax
        from monai.transforms import AsDiscrete

        last, batch = AsDiscrete(argmax=True), best["MONAI, network for nothing"]
        found[DISCRETE] = lambda: last(theirs(scan, given, batch))
    return found, best


def record(receipt, race, best: dict) -> None:
    """Times, and the ratios of MONAI's to ours."""

    def key(name):
        short = name.replace(", network for nothing", " rest").replace(",", "")
        return short.replace(" ", "_").lower()

    receipt.sizes(**{f"batch_{key(name)}": batch for name, batch in best.items()})
    found = race.results
    for name, one in found.items():
        receipt.record(f"seconds_{key(name)}", one)
    receipt.record("whole_over_monai", bench.ratio(found["MONAI"], found["ours"]))
    rest = found["ours, network for nothing"]
    for metric, name in {
        "rest_over_monai": "MONAI, network for nothing",
        "rest_over_as_discrete": DISCRETE,
    }.items():
        receipt.record(metric, bench.ratio(found[name], rest))


def record_memory(receipt, mine: int, its: int) -> None:
    """Bytes that the memory rises by, each in a process of its own, and ours as a share."""
    receipt.record("memory_mb_ours", mine / 1e6, "MB", interval="exact")
    receipt.record("memory_mb_monai", its / 1e6, "MB", interval="exact")
    receipt.record("memory_of_monai", mine / its, "share", interval="exact")


def memory_in_child(name: str, shape, window: int) -> int:
    """The rise of a fresh process's memory while `name` adds a volume's windows up, the network
    for nothing. In this process freed memory is used again, so a rise here would be too small.
    """
    sizes = ["--window", str(window), "--shape", *map(str, shape)]
    told = [sys.executable, __file__, "--memory", name, *sizes]
    done = subprocess.run(told, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def rise(name: str, shape, window: int = WINDOW) -> int:
    """Bytes between what is resident before the call and the highest mark during it (Linux);
    one thread and one window at a time for both.
    """
    torch.set_num_threads(1)
    for size in ((window,) * 3, shape):  # the first call loads libraries
        scan = torch.ones(tuple(size))  # written: pages of zeros would come in during the call
        call = ways(scan, given, window)[name]
        Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
        before = int(re.search(r"VmRSS:\s+(\d+)", status)[1])
        call(1)
        after = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
    return 1024 * (after - before)


@torch.no_grad()
def full_size(receipt, case: cv.Case, network) -> None:
    """Records windows and seconds of the benchmark's whole way at 128³ on one case, ours and
    MONAI's; check.Failed where their classes differ in more than ties.
    """
    scan, _ = cv.prepared(case, FULL)
    found, took = {}, {}
    for name, way in ways(scan, network, FULL).items():
        began = perf_counter()
        found[name] = way(2)
        took[name] = perf_counter() - began
        receipt.record(f"full_seconds_{name.lower()}", took[name], "s", repeats=1)
    same = (found["MONAI"] == found["ours"]).float().mean()
    check.that(same > 0.9999, "equal but for scores that tie within rounding")
    windows = len(sw.starts_of(scan.shape, FULL, FULL // 2))
    receipt.record("full_windows", windows, "windows", interval="exact")


def ask_loadgen(receipt, network, cases: list, seconds: float) -> None:
    """The two scenarios by LoadGen over prepared volumes, or a line that they are left out."""
    if not scenarios.available():
        print("left out: mlcommons-loadgen is not installed")
        return

    def answer(index: int) -> bytes:
        return sw.segment(cases[index], network, WINDOW).numpy().tobytes()

    least = (scenarios.MIN_SINGLE, scenarios.MIN_OFFLINE) if seconds > 5 else (4, 4)
    began = perf_counter()
    for index in range(len(cases)):
        answer(index)
    rate = 1.5 * len(cases) / (perf_counter() - began)
    ask = partial(scenarios.by_loadgen, answer=answer, library=len(cases), seconds=seconds)
    single, offline = (
        ask(name, least=each, per_second=rate)
        for name, each in zip(("SingleStream", "Offline"), least, strict=True)
    )
    valid = single.valid and offline.valid
    check.that(valid or seconds <= 5, "LoadGen calls both runs valid, or it is a trial")
    receipt.sizes(loadgen_seconds=seconds, loadgen_single=single.answered)
    receipt.record("single_stream_s", single.latency_s, "s", repeats=single.answered)
    receipt.record(
        "offline_per_second", offline.per_second, "volumes/s", repeats=offline.answered
    )


def options(argv=None) -> argparse.Namespace:
    """Rounds, threads, and whether it is a trial at small sizes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--small", action="store_true", help="a trial on a drawn case")
    parser.add_argument("--loadgen-seconds", type=float, default=60)
    parser.add_argument("--memory", choices=("ours", "MONAI"), help="of a call in this process")
    parser.add_argument("--shape", type=int, nargs=3)
    parser.add_argument("--window", type=int, default=WINDOW)
    return parser.parse_args(argv)


def main(argv=None) -> None:
    """Check, race, ask LoadGen, write the receipt."""
    o = options(argv)
    if o.memory:
        print(rise(o.memory, o.shape, o.window))
        return
    torch.set_num_threads(o.threads)
    receipt = receipts.start("kidney_segmentation", device.tier("cpu"), threads=o.threads)
    folder = data.fetch("kits19", ["*.nii.gz"])
    network = kidney_unet.load()
    names = ("case_00037", cp.TEST, "case_00021", "case_00152")
    cases = [cp.geometric()] * 2 if o.small else [cp.drawn(folder, name, 9) for name in names]
    prepared = [cp.reduced(case, WINDOW) for case in cases]
    scan, labels = prepared[0]
    if importlib.util.find_spec("monai"):
        with torch.no_grad():
            equal(cases[0], scan, labels, network)
            called, best = contestants(scan, network)
            race = bench.race(called, o.rounds, reference="MONAI")
        print(race)
        record(receipt, race, best)
        shape, window = (scan.shape, WINDOW) if o.small else (FULL_SHAPE, FULL)
        sizes = [memory_in_child(name, shape, window) for name in ("ours", "MONAI")]
        record_memory(receipt, *sizes)
        if not o.small:
            full_size(receipt, cp.drawn(folder, cp.TEST, 9, times=1), network)
    else:
        print("left out: MONAI is not installed")
    ask_loadgen(receipt, network, [scan for scan, _ in prepared], o.loadgen_seconds)
    print(receipt.write(name="race"))


if __name__ == "__main__":
    main()
