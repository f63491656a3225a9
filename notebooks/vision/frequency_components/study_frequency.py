"""The recorded study: how training changes what a network takes from each radius, by seeds.

    python -m study_frequency                 # in the slice's folder; a receipt
    python -m study_frequency --images 2000 --epochs 2 --seeds 1

Seven ways of training one network (`METHODS`), all by the same recipe; after each epoch every
model is asked about the whole test images and their parts. At its end it is attacked (FGSM, and
PGD with a random start), and its first kernels are measured. Batch norm is asked twice, with
running statistics and those of the test batch. Besides, a small training set is learnt with
natural and with shuffled labels, and watched on the low parts of its own images.

Each run's numbers are kept in a file of `--folder` when it ends. A study that is started again
with the same sizes and code goes on with the runs that are missing. Runs are independent: on
four machines, start shares `0/4` to `3/4` into one folder; a last call without one collects.
"""

import argparse
import functools
import hashlib
import json
import statistics
from pathlib import Path

import torch
from accuracy_by_radius import (
    by_radius,
    one_class_share,
    parts_of,
    robust_accuracy,
    survivors,
    watch,
)
from frequency_training import Recipe, adversarial, mixed, train
from gradient_attacks import fgsm, pgd
from helpers import data, device, receipts
from image_sets import draw, load, shuffled
from kernel_smoothness import high_share, roughness, roughness_penalty
from small_cnn import SmallCNN, first_kernels

EPSILON, PGD_STEPS, ATTACKED, FEW = 0.05, 20, 500, 500
METHODS = {
    "plain": ({}, {}),
    "batch_norm": ({"norm": True}, {}),
    "dropout": ({"dropout": 0.5}, {}),
    "mixup": ({}, {"change": mixed()}),
    "adversarial": ({}, {"change": adversarial(EPSILON)}),
    "batch_norm_adversarial": ({"norm": True}, {"change": adversarial(EPSILON)}),
    "smooth_penalty": ({}, {"penalty": roughness_penalty(10.0)}),
}  # what the network is made with, and what training changes
MEMORY = ("natural", "shuffled")


def attacked(model, images, labels):
    """Accuracies after both attacks, by name, PGD from a random start."""
    drawn = torch.Generator(device=images.device).manual_seed(0)
    ways = {
        "fgsm": lambda m, x, y: fgsm(m, x, y, EPSILON),
        "pgd": lambda m, x, y: pgd(m, x, y, EPSILON, EPSILON / 5, PGD_STEPS, drawn),
    }
    return {name: robust_accuracy(model, images, labels, way) for name, way in ways.items()}


def trained(method, seed, training, parts, recipe):
    """The numbers of one run: {"rows": accuracies by epoch, "scores": those of the end}."""
    about, changes = METHODS[method]
    torch.manual_seed(seed)
    model, rows = SmallCNN(**about).to(parts.labels_N.device), []
    train(model, training, recipe, seed=seed, at_epoch=watch(parts, rows), **changes)
    counts, _ = survivors(model, parts, 12)
    stretched = parts_of(*parts[:2], stretched=True)
    scores = {f"stretched_{name}": share for name, share in by_radius(model, stretched).items()}
    if about.get("norm"):
        found = by_radius(model, parts, "batch")
        scores |= {f"batch_statistics_{name}": share for name, share in found.items()}
    scores |= attacked(model, parts.images_NCHW[:ATTACKED], parts.labels_N[:ATTACKED])
    scores |= {"high_only": counts.high_only / len(parts.labels_N)}
    scores |= {"one_class_high_8": one_class_share(model, parts.high[8])}
    kernels = first_kernels(model)
    scores |= {"roughness": roughness(kernels).item()}
    return {"rows": rows, "scores": scores | {"kernel_high": high_share(kernels, 28, 8).item()}}


def memorised(kind, seed, training, recipe):
    """The same of a small set with natural or shuffled labels, asked about its own images."""
    few = draw(training, FEW, seed)
    few = shuffled(few, seed) if kind == "shuffled" else few
    torch.manual_seed(seed)
    model, rows = SmallCNN().to(few.labels_N.device), []
    train(model, few, recipe, seed=seed, at_epoch=watch(parts_of(*few.whole()), rows))
    return {"rows": rows, "scores": {}}


def kept(path, about, compute):
    """The numbers in the file if it is about the same; else computed, and written whole."""
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["about"] == about:
            return content["found"]
    found = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps({"about": about, "found": found}), encoding="utf-8")
    aside.replace(path)
    return found


def record(receipt, name, runs):
    """A curve of the means over seeds, and each score with its extremes, in percent."""
    rows = [run["rows"] for run in runs]
    columns = {"epoch": list(range(1, len(rows[0]) + 1))}
    for key in rows[0][0]:
        seeds = [[100 * row[key] for row in one] for one in rows]
        columns[key] = [statistics.mean(values) for values in zip(*seeds, strict=True)]
        last = [one[-1] for one in seeds]
        told = (min(last), max(last), len(last))
        receipt.record(f"study_{name}_{key}", statistics.mean(last), "%", *told)
    receipt.curve(name, **columns)
    for key in runs[0]["scores"]:
        unit, scale = ("mean square", 1) if key == "roughness" else ("%", 100)
        values = [scale * run["scores"][key] for run in runs]
        told = (min(values), max(values), len(values))
        receipt.record(f"study_{name}_{key}", statistics.mean(values), unit, *told)


def code():
    """The SHA-256 of the slice's modules: a run of other code is done again."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    texts = [path.read_bytes() for path in sources if not path.name.startswith("test_")]
    return hashlib.sha256(b"".join(texts)).hexdigest()


def runs_of(given, about):
    """{name: [the numbers of each seed's run]}, computed or taken from `given.folder`."""
    where, folder = device.device(), data.fetch("fashion_mnist")
    training = draw(load(folder, "train", where), given.images)
    parts = parts_of(*draw(load(folder, "t10k", where), given.tested).whole())
    recipe, long = Recipe(given.epochs), Recipe(given.memory_epochs)
    jobs = dict.fromkeys(METHODS, lambda n, s: trained(n, s, training, parts, recipe))
    jobs |= dict.fromkeys(MEMORY, lambda n, s: memorised(n, s, training, long))
    found, (mine, all_shares) = {name: [] for name in jobs}, map(int, given.share.split("/"))
    for count, (seed, name) in enumerate((s, n) for s in range(given.seeds) for n in jobs):
        if count % all_shares == mine:
            compute = functools.partial(jobs[name], name, seed)
            found[name].append(kept(given.folder / f"{name}_{seed}.json", about, compute))
            print(name, seed, found[name][-1]["rows"][-1], flush=True)
    return found


def main(argv=None):
    """Train, or take what is kept; write the receipt, unless it is a share of the runs only."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--images", type=int, default=6_000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--memory-epochs", type=int, default=40)
    parser.add_argument("--tested", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("../../../_build/study_frequency"))
    parser.add_argument("--share", default="0/1", help="of the runs, such as 1/4")
    given = parser.parse_args(argv)
    torch.set_num_threads(given.threads)
    receipt = receipts.start("frequency_components", device.tier(), given.threads)
    sizes = {"images": given.images, "epochs": given.epochs, "tested": given.tested}
    sizes |= {"memory_images": FEW, "memory_epochs": given.memory_epochs}
    found = runs_of(given, sizes | {"code": code()})
    if not given.share.endswith("/1"):
        return
    for name, runs in found.items():
        record(receipt, name, runs)
    receipt.sizes(**sizes, seeds=given.seeds)
    print(receipt.write("study"))


if __name__ == "__main__":
    main()
