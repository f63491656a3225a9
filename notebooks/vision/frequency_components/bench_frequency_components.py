"""The races: the split by six formulations, and PGD steps beside torchattacks.

    python -m bench_frequency_components               # in the slice's folder; a receipt
    python -m bench_frequency_components --images 500 --rounds 3

All formulations of the split must agree before they are timed, and so must both attacks.
torchattacks takes part where it is installed. Images are random, since no time depends on them.
"""

import argparse
import functools

import numpy as np
import scipy.fft
import torch
from frequency_split import low_pass, mask, split, waves
from gradient_attacks import fgsm, pgd
from helpers import bench, check, device, receipts
from small_cnn import SmallCNN

SIDE, RADIUS = 28, 8
EPSILON, STEP, STEPS = 8 / 255, 2 / 255, 10
LABELS = {
    "ours": "ours: products with the waves within the radius",
    "half": "half a transform there, one back",
    "whole": "whole transforms, two back",
    "shifted": "whole, shifted, one image at a time",
    "matrix": "one 784 × 784 matrix",
    "scipy": "SciPy, half a transform",
}  # the name of a contestant's metric, and what tables say
WHY = "the same steps, pixels up to 1 in float32"


def half_split(images_BCHW, radius, fft=torch.fft, **how):
    """Half a transform, since images are real, and one inverse; the rest is the high part."""
    height, width = images_BCHW.shape[-2:]
    kept = mask(height, width, radius)[:, : width // 2 + 1]
    kept = kept.to(images_BCHW.device) if fft is torch.fft else kept.numpy()
    low = fft.irfft2(fft.rfft2(images_BCHW, **how) * kept, s=(height, width), **how)
    return low, images_BCHW - low


def whole_split(images_BCHW, radius):
    """Complex transforms of all frequencies, and one inverse for each part."""
    spectrum = torch.fft.fft2(images_BCHW)
    kept = mask(*images_BCHW.shape[-2:], radius, device=images_BCHW.device)
    return torch.fft.ifft2(spectrum * kept).real, torch.fft.ifft2(spectrum * ~kept).real


def shifted_split(images_BCHW, radius):
    """As one writes it first: image by image, the spectrum's middle shifted to the centre."""
    low_BCHW, high_BCHW = np.empty_like(images_BCHW), np.empty_like(images_BCHW)
    rows, columns = (np.arange(side) - side // 2 for side in images_BCHW.shape[-2:])
    kept = np.hypot(rows[:, None], columns) < radius
    for image, low, high in zip(images_BCHW, low_BCHW, high_BCHW, strict=True):
        spectrum = np.fft.fftshift(np.fft.fft2(image), axes=(-2, -1))
        for part, chosen in ((low, kept), (high, ~kept)):
            centred = np.fft.ifftshift(spectrum * chosen, axes=(-2, -1))
            part[...] = np.fft.ifft2(centred).real
    return low_BCHW, high_BCHW


def filter_matrix(side, radius, device=None):
    """The filter as a matrix (side², side²): its columns are the filtered unit images."""
    units = torch.eye(side * side, device=device).view(-1, 1, side, side)
    return split(units, radius)[0].view(side * side, -1)


def matrix_split(images_BCHW, matrix):
    """The filter as a product with its matrix, which is symmetric."""
    low = (images_BCHW.flatten(-2) @ matrix).view_as(images_BCHW)
    return low, images_BCHW - low


def split_contestants(images_BCHW, radius, threads):
    """The splits to race by name; SciPy and NumPy take part on a CPU only."""
    matrix = filter_matrix(images_BCHW.shape[-1], radius, images_BCHW.device)
    plain = {"ours": split, "half": half_split, "whole": whole_split}
    ways = {n: functools.partial(way, images_BCHW, radius) for n, way in plain.items()}
    ways["matrix"] = functools.partial(matrix_split, images_BCHW, matrix)
    if images_BCHW.device.type == "cpu":
        given, how = (images_BCHW.numpy(), radius), {"fft": scipy.fft, "workers": threads}
        ways["shifted"] = functools.partial(shifted_split, *given)
        ways["scipy"] = functools.partial(half_split, *given, **how)
    return {LABELS[name]: way for name, way in ways.items()}


def check_splits(pairs):
    """The largest difference of any formulation from ours; `check.Failed` beyond 1e-5."""
    results, worst = {name: call() for name, call in pairs.items()}, 0.0
    ours = results[LABELS["ours"]]
    for found in results.values():
        for one, other in zip(found, ours, strict=True):
            why = "784 terms in float32 in another order, pixels up to 1"
            worst = max(worst, check.close(one, other, atol=1e-5, why=why))
    return worst


def moved_bytes(images_BCHW, radius):
    """What ours moves through memory: four products, a mask, a difference.

    For a pixel in float32, with p waves for each pixel of a side: read 4, write 4 p; 4 p, 4 p²;
    mask, 8 p²; 4 p², 4 p; 4 p, 4; read 8, write 4. The least that any program moves is 12.
    """
    side = images_BCHW.shape[-1]
    share = waves(side, radius, False, images_BCHW)[0].shape[1] / side
    return round(images_BCHW.numel() * (20 + 16 * share + 16 * share**2))


def attack_contestants(model, images_BCHW, labels_B):
    """PGD without a random start, ours and torchattacks' where it is installed."""
    ours = functools.partial(pgd, model, images_BCHW, labels_B, EPSILON, STEP, STEPS)
    pairs = {"ours": ours}
    try:
        import torchattacks
    except ImportError:
        return pairs
    attack = torchattacks.PGD(model, eps=EPSILON, alpha=STEP, steps=STEPS, random_start=False)
    return pairs | {"torchattacks": functools.partial(attack, images_BCHW, labels_B)}


def check_attacks(model, images_BCHW, labels_B):
    """The largest difference of FGSM and PGD from torchattacks', None where it is absent.

    Raises `check.Failed` beyond 1e-6, ValueError unless images are a power of two: the
    peer divides its loss by it, and only then does rounding change no gradient's sign.
    """
    pairs = attack_contestants(model, images_BCHW, labels_B)
    if len(labels_B).bit_count() != 1:
        raise ValueError(f"{len(labels_B)} images; a power of two is allowed")
    if len(pairs) == 1:
        return None
    import torchattacks

    theirs = torchattacks.FGSM(model, eps=EPSILON)(images_BCHW, labels_B)
    quick = check.close(fgsm(model, images_BCHW, labels_B, EPSILON), theirs, atol=1e-6, why=WHY)
    return max(quick, check.close(pairs["ours"](), pairs["torchattacks"](), atol=1e-6, why=WHY))


def record_splits(receipt, race, images_BCHW, radius):
    """Each contestant's images per second, and ours over the others; of ours its bytes beside a
    plain copy's rate, and the products' share of time: the rest is the difference."""
    for name, label in LABELS.items():
        if label in race.results:
            count = len(images_BCHW)
            receipt.record(f"split_{name}_rate", race.results[label], "images/s", count=count)
            if name != "ours":
                ratio = bench.ratio(race.results[label], race.results[LABELS["ours"]])
                receipt.record(f"split_speedup_over_{name}", ratio)
    ours = race.results[LABELS["ours"]]
    share = moved_bytes(images_BCHW, radius) / ours.median_s / bench.peak().copy_bytes_per_s
    receipt.record("split_copy_share", share, "of a plain copy")
    calls = {w.__name__: functools.partial(w, images_BCHW, radius) for w in (low_pass, split)}
    low = bench.race(calls, repeats=len(ours.times_s)).ratios["split"]
    receipt.record("split_products_share", low, "of the time")


def record_attacks(receipt, race, count):
    """Steps per second, each of one image, and ours over torchattacks where it took part."""
    for name, found in race.results.items():
        receipt.record(f"attack_{name}_rate", found, "image steps/s", count=count * STEPS)
    if "torchattacks" in race.ratios:
        receipt.record("attack_speedup_over_torchattacks", race.ratios["ours"])


def main(argv=None):
    """Check, race, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, default in {"images": 2000, "rounds": 20, "threads": device.cores()}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args(argv)
    torch.set_num_threads(given.threads)
    tier = device.tier()
    receipt = receipts.start("frequency_components", tier, given.threads)
    receipt.sizes(
        images=given.images, side=SIDE, radius=RADIUS, steps=STEPS, rounds=given.rounds
    )
    device.seed(0)
    images = torch.rand(given.images, 1, SIDE, SIDE).to(tier.device)
    splits = split_contestants(images, RADIUS, given.threads)
    receipt.record("split_difference", check_splits(splits), "absolute")
    race = bench.race(splits, repeats=given.rounds, reference=LABELS["ours"])
    print(race)
    record_splits(receipt, race, images, RADIUS)
    model, labels = SmallCNN().to(tier.device).eval(), torch.randint(10, (256,)).to(tier.device)
    attacks = attack_contestants(model, images[:256], labels)
    worst = check_attacks(model, images[:256], labels)
    if worst is None:
        print("torchattacks is not installed here: ours runs alone")
    else:
        receipt.record("attack_difference", worst, "absolute", repeats=2 * len(labels))
    race = bench.race(attacks, repeats=given.rounds, reference=[*attacks][-1])
    print(race)
    record_attacks(receipt, race, len(labels))
    print(receipt.write("race"))


if __name__ == "__main__":
    main()
