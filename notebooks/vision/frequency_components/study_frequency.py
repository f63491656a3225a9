"""The recorded study: how training changes what a network takes from each radius, by seeds.

    python -m study_frequency                 # in the slice's folder; a receipt
    python -m study_frequency --images 2000 --epochs 2 --seeds 1

Eight ways of training one network (`WAYS`), all by the same recipe but `plain_longer`, which
takes three times the epochs, so that plain training can be compared with batch norm at equal
accuracy. After each epoch every model is asked about the whole test images and their parts. At
its end it is attacked (FGSM, and PGD with a random start), and its first kernels are measured.
Batch norm is asked twice, with running statistics and those of the test batch. Besides, a small
training set is learnt with natural and with shuffled labels, and watched on the low parts of
its own images; and hands are learnt with each fourth of the signers left out in turn.

Each run's numbers are kept in a file of `--folder` when it ends. A study that is started again
with the same sizes and code goes on with the runs that are missing; `--minutes` ends it between
two runs. Runs are independent: on four machines, start shares `0/4` to `3/4` into one folder; a
last call without one collects.
"""

import argparse
import functools
import json
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import torch
from accuracy_by_radius import (
    answers,
    by_radius,
    gap,
    one_class_share,
    parts_of,
    robust_accuracy,
    survivors,
    watch,
)
from frequency_split import split, stretch
from frequency_training import Recipe, adversarial, mixed, train
from gradient_attacks import fgsm, pgd
from helpers import cards, data, device, receipts
from image_sets import by_signer, draw, load, shuffled, signed_digits
from kernel_smoothness import high_share, roughness, roughness_penalty
from small_cnn import SmallCNN, first_kernels

EPSILON, PGD_STEPS, ATTACKED, FEW, RADIUS = 0.05, 20, 500, 500, 8


class Way(NamedTuple):
    """What the network is made with, what training changes, how many times the epochs."""

    network: dict = {}
    training: dict = {}
    longer: int = 1


WAYS = {
    "plain": Way(),
    "plain_longer": Way(longer=3),
    "batch_norm": Way({"norm": True}),
    "dropout": Way({"dropout": 0.5}),
    "mixup": Way(training={"change": mixed()}),
    "adversarial": Way(training={"change": adversarial(EPSILON, 2)}),
    "batch_norm_adversarial": Way({"norm": True}, {"change": adversarial(EPSILON, 2)}),
    "smooth_penalty": Way(training={"penalty": roughness_penalty(10.0)}),
}
MEMORY = ("natural", "shuffled")
SIGNERS = {"signers_raw": None, "signers_stretched": lambda m, x, y, drawn: (stretch(x), y)}
TESTS = {
    "whole": lambda x: x,
    "whole_stretched": stretch,
    "low": lambda x: split(x, RADIUS)[0],
    "high": lambda x: split(x, RADIUS)[1],
    "high_stretched": lambda x: stretch(split(x, RADIUS)[1]),
}  # what the hands are asked as


def attacked(model, images, labels):
    """Accuracies after both attacks, by name, PGD from a random start."""
    drawn = torch.Generator(device=images.device).manual_seed(0)
    ways = {
        "fgsm": lambda m, x, y: fgsm(m, x, y, EPSILON),
        "pgd": lambda m, x, y: pgd(m, x, y, EPSILON, EPSILON / 5, PGD_STEPS, drawn),
    }
    return {name: robust_accuracy(model, images, labels, way) for name, way in ways.items()}


def trained(name, seed, training, parts, given):
    """The numbers of one run: {"rows": accuracies by epoch, "scores": those of the end}."""
    way, count = WAYS[name], len(parts.labels_N)
    torch.manual_seed(seed)
    model, rows = SmallCNN(given.width, **way.network).to(parts.labels_N.device), []
    recipe, at_epoch = Recipe(given.epochs * way.longer), watch(parts, rows)
    train(model, training, recipe, seed=seed, at_epoch=at_epoch, **way.training)
    found, kernels = survivors(model, parts, RADIUS), first_kernels(model)
    scores = {"high_only": found.high_only / count, "by_chance": found.by_chance / count}
    scores |= {f"one_class_high_{r}": one_class_share(model, parts.high[r]) for r in (4, 8)}
    stretched = by_radius(model, parts_of(*parts[:2], stretched=True))
    scores |= {f"stretched_{key}": share for key, share in stretched.items()}
    if way.network.get("norm"):
        batch = by_radius(model, parts, "batch")
        scores |= {f"batch_statistics_{key}": share for key, share in batch.items()}
    scores |= attacked(model, parts.images_NCHW[:ATTACKED], parts.labels_N[:ATTACKED])
    scores |= {"roughness": roughness(kernels).item()}
    return {"rows": rows, "scores": scores | {"kernel_high": high_share(kernels, 28, 8).item()}}


def memorised(kind, seed, training, given):
    """The same of a small set with natural or shuffled labels, asked about its own images."""
    few = draw(training, FEW, seed)
    few = shuffled(few, seed) if kind == "shuffled" else few
    torch.manual_seed(seed)
    model, rows = SmallCNN(given.width).to(few.labels_N.device), []
    own = parts_of(*few.whole(), (4, 8))
    train(model, few, Recipe(given.memory_epochs), seed=seed, at_epoch=watch(own, rows))
    return {"rows": rows, "scores": {}}


def signed(name, offset, hands, number_N, given):
    """One network of hands with the signers at `offset` left out: which answers are right.

    {"rows": [its share of right answers to them], and for the same and for other signers "own"
    and "other": {"group": number // 10, and each of `TESTS`: right or wrong}}.
    """
    learnt_N, *sides = by_signer(number_N, offset)
    torch.manual_seed(offset)
    model = SmallCNN(given.width, side=32, norm=True).to(number_N.device)
    recipe = Recipe(given.signer_epochs, 25, 2e-3)
    train(model, hands.take(learnt_N), recipe, seed=offset, change=SIGNERS[name])
    found = {}
    for who, chosen_N in zip(("own", "other"), sides, strict=True):
        x, y = hands.take(chosen_N).whole()
        found[who] = {"group": (number_N[chosen_N] // 10).tolist()}
        for test, change in TESTS.items():
            found[who][test] = (answers(model, change(x)).argmax(1) == y).int().tolist()
    right = found["other"]["whole"]
    return found | {"rows": [{"other_whole": sum(right) / len(right)}]}


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
        spread(receipt, f"study_{name}_{key}", [one[-1] for one in seeds], "%")
    receipt.curve(name, **columns)
    for key in runs[0]["scores"]:
        unit, scale = ("mean square", 1) if key == "roughness" else ("%", 100)
        values = [scale * run["scores"][key] for run in runs]
        spread(receipt, f"study_{name}_{key}", values, unit)


def spread(receipt, name, values, unit):
    """Record the mean of the values with their extremes."""
    receipt.record(name, statistics.mean(values), unit, min(values), max(values), len(values))


def compare(receipt, found):
    """What two ways of training differ in, each seed's networks held against each other."""

    def pairs(key, *ways):
        return zip(*([run["scores"][key] for run in found[way]] for way in ways), strict=True)

    ratios = [one / other for one, other in pairs("roughness", "adversarial", "plain")]
    spread(receipt, "robust_roughness_ratio", ratios, "×")
    gaps = [100 * (one - other) for one, other in pairs("pgd", "plain_longer", "batch_norm")]
    spread(receipt, "batch_norm_pgd_gap", gaps, "percentage points")


def record_signers(receipt, name, runs):
    """Accuracies over all runs, and what is lost at other signers: ± twice its error."""
    for test in TESTS:
        own, other = (
            [
                torch.tensor([one for run in runs for one in run[who][key]])
                for key in (test, "group")
            ]
            for who in ("own", "other")
        )
        lost, error = (100 * value for value in gap(*own, *other))
        ends = (lost - 2 * error, lost + 2 * error, len(other[0]))
        receipt.record(f"{name}_{test}_gap", lost, "percentage points", *ends)
        for who, (right, _) in (("own", own), ("other", other)):
            share = 100 * right.double().mean().item()
            receipt.record(f"{name}_{test}_{who}", share, "%", repeats=len(right))


def code():
    """The hash of what the study executes: a run of other code is done again."""
    notebook = Path(__file__).with_name("frequency_components.ipynb")
    return cards.code_hash(notebook, Path(__file__).name)


def jobs_of(given):
    """{(name, seed or offset): a function that computes the run's numbers}."""
    where, folder = device.device(), data.fetch("fashion_mnist")
    training = draw(load(folder, "train", where), given.images)
    parts = parts_of(*draw(load(folder, "t10k", where), given.tested).whole())
    hands, number_N = signed_digits(data.fetch("sign_digits"), 32, where)
    jobs = {}
    for seed in range(given.seeds):
        for name in WAYS:
            jobs[name, seed] = functools.partial(trained, name, seed, training, parts, given)
        for name in MEMORY:
            jobs[name, seed] = functools.partial(memorised, name, seed, training, given)
    for offset in range(4):
        for name in SIGNERS:
            jobs[name, offset] = functools.partial(signed, name, offset, hands, number_N, given)
    return jobs


def runs_of(given, about):
    """{name: [the numbers of each run]}, computed or taken from `given.folder`.

    None when `given.minutes` were over before all were there.
    """
    found, begun = {}, time.monotonic()
    mine, shares = map(int, given.share.split("/"))
    for count, ((name, seed), job) in enumerate(jobs_of(given).items()):
        if count % shares == mine:
            if time.monotonic() - begun > 60 * given.minutes:
                return None
            run = kept(given.folder / f"{name}_{seed}.json", about, job)
            found.setdefault(name, []).append(run)
            print(name, seed, run["rows"][-1], flush=True)
    return found


def main(argv=None):
    """Train, or take what is kept; write the receipt, unless it is a share of the runs only."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--images", type=int, default=6_000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--memory-epochs", type=int, default=40)
    parser.add_argument("--signer-epochs", type=int, default=25)
    parser.add_argument("--tested", type=int, default=1000)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="begin no run after"
    )
    parser.add_argument("--folder", type=Path, default=Path("../../../_build/study_frequency"))
    parser.add_argument("--share", default="0/1", help="of the runs, such as 1/4")
    given = parser.parse_args(argv)
    torch.set_num_threads(given.threads)
    receipt = receipts.start("frequency_components", device.tier(), given.threads)
    names = ("images", "epochs", "memory_epochs", "signer_epochs", "tested", "width")
    sizes = {name: getattr(given, name) for name in names} | {"memory_images": FEW}
    found = runs_of(given, sizes | {"code": code()})
    if not found or not given.share.endswith("/1"):
        return
    for name, runs in found.items():
        (record_signers if name in SIGNERS else record)(receipt, name, runs)
    compare(receipt, found)
    receipt.sizes(**sizes, seeds=given.seeds)
    print(receipt.write("study"))


if __name__ == "__main__":
    main()
