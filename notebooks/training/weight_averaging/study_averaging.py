"""The recorded study: methods of averaging and of uncertainty, on a grid of parts and seeds.

    python study_averaging.py  # from the slice's folder; hours
    python study_averaging.py --images 3000 --tested 400 --epochs 16 --threads 1  # as recorded

What is compared starts from the same weights and has as many epochs, but for `ensemble` and
`multiswag`, which have three runs. SGD's rates are those of the authors' recipe for such a
network, AdamW's are common ones, the fork is ours; nothing was tuned on what is reported. A
stopped study goes on: each part and seed keeps a file. The receipt holds the parts named (all
by default): means over seeds, 95 % intervals (Student's t), curves of the first seed.

Parts: `methods`, `surface` (a plane, curves), `uncertainty` (five classes known, five unknown;
one run and three), `widths` (a fifth of the labels wrong), `bits` (8 in training, few after).
"""

import argparse
import copy
import itertools
import json
import os
from functools import partial
from pathlib import Path

import loss_plane
import numpy as np
import torch
import weight_posteriors as wp
from averaging import WeightAverage, updates
from block_float import LowPrecisionSGD, round_activations, with_rounded_weights
from fashion_task import draw, load, task_of
from helpers import cards, data, device, receipts, root
from predictive_scores import best_temperature, detection_auroc, entropies, scores
from scipy import stats
from small_training import ADAM, SGD, logits_of

EMA = 0.99  # decay for each step: a memory of about a hundred
MEMBERS, SAMPLES, DECAY = 3, 30, 3e-4
KNOWN, UNKNOWN = range(5), range(5, 10)
WIDTHS = (1, 2, 4, 8, 16)
BITS, WHOLE = (2, 3, 4, 5, 6, 8), 24  # 24 bits are a float32's
SIDE, POINTS = 13, 21  # of the plane, and of the ways between starts
CODE = "study_averaging.py"


def methods(task, seed):
    """Scores of SGD, its averages, cycles, and Adam."""
    decays, stays = task.recipes()
    run, found = task.begun(seed, decays), {}
    asgd, ema = WeightAverage(run.model), WeightAverage(run.model, EMA)
    found["sgd"] = task.branch(seed, run, decays, at_step=updates(asgd, ema))
    swa, blended = WeightAverage(run.model), WeightAverage(run.model, buffers="average")
    high = WeightAverage(run.model, EMA)
    calls = {"at_epoch": updates(swa, blended), "at_step": updates(high)}
    found["high"] = task.branch(seed, run, stays, **calls)
    found["sgd_recomputed"] = task.refreshed(copy.deepcopy(found["sgd"]))
    found |= {"swa_last": copy.deepcopy(swa.model), "swa_average": blended.model}
    for name, average in {"asgd": asgd, "ema": ema, "swa": swa, "ema_high": high}.items():
        found[name] = task.refreshed(average.model)
    probs = {name: task.probabilities(model) for name, model in found.items()}
    probs |= cycles(task, seed, run, decays) | with_adam(task, seed)
    told = {}
    for name, one in probs.items():
        values = scores(one, task.test.labels_N)._asdict()
        told |= {f"{name}_{field}": value for field, value in values.items()}
    return told | {"swa_gain": 100 * (told["swa_accuracy"] - told["sgd_accuracy"])}


def cycles(task, seed, run, decays):
    """{method: probabilities} of three ends of cycles, as averaged weights and predictions."""
    ends = task.cycles(seed, run, decays, MEMBERS)
    average = WeightAverage(ends[0])
    for end in ends:
        average.update(end)
    mean = task.probabilities(task.refreshed(average.model))
    return {"fge_mean": mean, "fge_ensemble": sum(map(task.probabilities, ends)) / MEMBERS}


def with_adam(task, seed):
    """{method: probabilities} of AdamW with the annealed rate, and of SWA on top of it."""
    decays, stays = task.recipes(2e-3, 1e-3, optimiser=ADAM)
    run = task.begun(seed, decays)
    average = WeightAverage(run.model)
    task.branch(seed, run, stays, at_epoch=updates(average))
    plain = task.probabilities(task.branch(seed, run, decays))
    return {"adam": plain, "adam_swa": task.probabilities(task.refreshed(average.model))}


def surface(task, seed):
    """Loss and error at SGD and SWA, each refreshed; of the first seed curves, too."""
    decays, stays = task.recipes()
    run = task.begun(seed, decays)
    swa = WeightAverage(run.model)
    task.branch(seed, run, stays, at_epoch=updates(swa))
    sgd = loss_plane.weights_of(task.branch(seed, run, decays))
    average = loss_plane.weights_of(swa.model)
    look = partial(loss_plane.along, copy.deepcopy(run.model))
    ends = look([average, sgd], task.train, task.train, task.test)
    found = {"train_loss_excess": ends[0][0] - ends[1][0]}
    found["test_accuracy_gain"] = 100 * (ends[0][3] - ends[1][3])
    if seed == 0:
        few = [one.part(torch.arange(0, one.count, 5)) for one in (task.train, task.test)]
        found |= starts(task, look, few, sgd)
    return found


def starts(task, look, few, first):
    """The plane through SGD from three starts; a straight and a bent way between two."""
    decays, _ = task.recipes()
    others = [task.branch(n, task.begun(n, decays), decays) for n in (100, 200)]
    second, third = map(loss_plane.weights_of, others)
    shares = np.linspace(0, 1, POINTS).tolist()
    found = loss_plane.plane_rows(look, few, (first, second, third), SIDE)
    middle = loss_plane.bend(others[0], first, second, task.train, epochs=task.epochs // 2)
    for name, m in {"straight": (first + second) / 2, "bent": middle}.items():
        points = [loss_plane.bezier(first, m, second, t) for t in shares]
        found["curve_" + name] = loss_plane.columns({"t": shares}, look(points, few[0], *few))
    return found


def collected(task, seed, run, stays):
    """(SWA model, `Swag`) of the branch that stays high, four collections for each epoch."""
    swa, swag = WeightAverage(run.model), wp.Swag(20)
    every = max(task.train.count // stays.batch // 4, 1)

    def at_step(step, model):
        if step % every == 0:
            swa.update(model)
            swag.update(loss_plane.weights_of(model))

    task.branch(seed, run, stays, at_step=at_step)
    return task.refreshed(swa.model), swag


def uncertainty(task, seed, unknown):
    """Scores and the detection of unknown classes, for one run and for three."""
    decays, stays = task.recipes()
    both, singles, gaussians = (task.test, unknown), [], []
    for member in range(MEMBERS):
        run = task.begun(10 * seed + member, decays)
        singles.append(task.branch(10 * seed + member, run, decays))
        gaussians.append(collected(task, 10 * seed + member, run, stays))
    sgd, (swa, swag) = singles[0], gaussians[0]
    heat = best_temperature(logits_of(sgd.eval(), task.held), task.held.labels_N)
    drops = task.begun(10 * seed, decays, dropout=0.2)
    drops = task.branch(10 * seed, drops, decays)
    lent, few = copy.deepcopy(swa), task.train.part(torch.arange(0, task.train.count, 5))

    def sample(gaussian, images, samples=SAMPLES, **how):
        return wp.swag_probabilities(gaussian, lent, few, images, samples, **how)

    ways = {
        "sgd": lambda images: task.probabilities(sgd, images),
        "swa": lambda images: task.probabilities(swa, images),
        "temperature": lambda images: (logits_of(sgd, images) / heat).softmax(1),
        "dropout": lambda images: wp.dropout_probabilities(drops, images, SAMPLES),
        "laplace": lambda x: wp.laplace_probabilities(sgd, task.train, x, DECAY, SAMPLES),
        "swag_diagonal": lambda x: sample(swag, x, scale=1.0, low_rank=False),
        "swag": lambda images: sample(swag, images),
        "ensemble": lambda x: sum(task.probabilities(one, x) for one in singles) / MEMBERS,
        "multiswag": lambda x: (
            sum(sample(g, x, SAMPLES // MEMBERS) for _, g in gaussians) / MEMBERS
        ),
    }
    found = {}
    for name, way in ways.items():
        known, odd = (way(images) for images in both)
        told = scores(known, task.test.labels_N)._asdict()
        told["auroc"] = detection_auroc(entropies(known), entropies(odd))
        found |= {f"{name}_{field}": value for field, value in told.items()}
    excess = found["multiswag_nll"] - found["ensemble_nll"]
    return found | {"multiswag_over_ensemble_excess": excess}


def widths(task, seed):
    """Test error in percent by width, with wrong labels: one run and three, SGD and SWAG."""
    found = {}
    for width in WIDTHS:
        own, sgd, swag = task._replace(width=width), [], []
        decays, stays = own.recipes()
        for member in range(10 * seed, 10 * seed + MEMBERS):
            run = own.begun(member, decays)
            sgd.append(own.probabilities(own.branch(member, run, decays)))
            swa, gaussian = collected(own, member, run, stays)
            about = own.train, own.test, SAMPLES // MEMBERS
            swag.append(wp.swag_probabilities(gaussian, swa, *about))
        ways = {"sgd": sgd[0], "swag": swag[0]}
        ways |= {"ensemble": sum(sgd) / MEMBERS, "multiswag": sum(swag) / MEMBERS}
        for name, probs in ways.items():
            found[f"{name}_width_{width}_error"] = error_of(probs, own)
    for name, (a, b) in itertools.product(("sgd", "multiswag"), itertools.pairwise(WIDTHS)):
        narrow, wide = (found[f"{name}_width_{width}_error"] for width in (a, b))
        found[f"{name}_from_{a}_to_{b}_gap"] = wide - narrow
    sgd, many, multi = (found[f"{n}_width_8_error"] for n in ("sgd", "ensemble", "multiswag"))
    return found | {"multiswag_gain": sgd - multi, "multiswag_over_ensemble_gain": many - multi}


def bits(task, seed):
    """Test error in percent: 8 bits while training, and few bits after it, then refreshed.

    `rounding_3_bits_gain`: by how much less SWA's error rises than SGD's with 3 bits.
    """
    found, kept = {}, {}
    for name, optimiser in {"full": SGD, "low": partial(LowPrecisionSGD, bits=8)}.items():
        decays, stays = task.recipes(optimiser=optimiser)
        run = task.begun(seed, decays, change=None if name == "full" else round_activations)
        average = WeightAverage(run.model)
        task.branch(seed, run, stays, at_epoch=updates(average))
        kept[name + "_sgd"] = task.branch(seed, run, decays)
        kept[name + "_swa"] = task.refreshed(average.model)
    for name, model in kept.items():
        found[name + "_error"] = error_of(task.probabilities(model), task)
    for count in (*BITS, WHOLE):
        for name in ("full_sgd", "full_swa"):
            rounded = task.refreshed(with_rounded_weights(kept[name], count))
            found[f"{name}_{count}_bits_error"] = error_of(task.probabilities(rounded), task)
    for count in BITS:
        sgd, swa = (
            found[f"{name}_{count}_bits_error"] - found[f"{name}_{WHOLE}_bits_error"]
            for name in ("full_sgd", "full_swa")
        )
        found[f"rounding_{count}_bits_gain"] = sgd - swa
    return found | {"swalp_gap": found["low_swa_error"] - found["full_sgd_error"]}


def error_of(probs, task):
    """The test error in percent of these probabilities."""
    return 100 * (1 - scores(probs, task.test.labels_N).accuracy)


PARTS = {part.__name__: part for part in (methods, surface, uncertainty, widths, bits)}


def measured(part, seed, given, folder, where):
    """{metric: value} of a part and seed, which draws its own images, or what was kept."""
    code = cards.code_hash(Path(__file__).with_name("weight_averaging.ipynb"), CODE)[:8]
    settings = [part, seed, given.images, given.tested, given.epochs, given.width, code]
    name = "-".join(map(str, settings)) + ".json"
    path = (root() or Path.cwd()) / "_build" / "study_averaging" / name
    if path.is_file():
        return json.loads(path.read_text())
    count, epochs = given.images, given.epochs
    if part == "widths":  # fewer images and more epochs, so that a network can fit wrong labels
        count, epochs = count // 5, 3 * epochs
    more = {"uncertainty": {"classes": KNOWN}, "widths": {"wrong": 0.2}}.get(part, {})
    more |= {"tested": given.tested, "seed": seed}
    task = task_of(folder, where, count, given.width, epochs, **more)
    others = []
    if part == "uncertainty":
        unknown = draw(load(folder, "t10k", where), 5 * given.tested, classes=UNKNOWN)
        others = [unknown.scaled_as(task.train)]
    found = PARTS[part](task, seed, *others)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".part").write_text(json.dumps(found))
    os.replace(path.with_suffix(".part"), path)
    return found


def record(receipt, part, found):
    """Record the seeds' means, and of differences from their own SGD; the first's curves."""
    curves = [name for name in found[0] if name.startswith("curve_")]
    names = [name for name in found[0] if name not in curves]
    for name in curves:
        receipt.curve(f"{part}_{name.removeprefix('curve_')}", **found[0][name])
    told = {name: np.array([one[name] for one in found]) for name in names}
    for name, base in ((name, "sgd_" + name.rpartition("_")[2]) for name in names):
        if base in told and name != base:
            told[f"less_sgd_{name}"] = told[name] - told[base]
    ends = {"error": "%", "nll": "nat", "excess": "nat", "gain": "points", "gap": "points"}
    for name, values in told.items():
        mean, half, count = values.mean(), 0.0, len(values)
        if count > 1:
            half = stats.t.ppf(0.975, count - 1) * values.std(ddof=1) / count**0.5
        about = (ends.get(name.rpartition("_")[2], ""), mean - half, mean + half, count)
        receipt.record(f"study_{part}_{name}", mean, *about, note="mean, its 95 % interval")


def main(argv=None):
    """Measure what is missing, and write the receipt; tested: test images of each class."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    sizes = {"seeds": 3, "images": 10_000, "tested": 1000, "epochs": 24, "width": 8}
    for name, size in (sizes | {"threads": device.cores()}).items():
        parser.add_argument(f"--{name}", type=int, default=size)
    given = parser.parse_args(argv)
    torch.set_num_threads(given.threads)
    folder = data.fetch("fashion_mnist")
    tier = device.tier()
    receipt = receipts.start("weight_averaging", tier, given.threads)
    receipt.sizes(**{name: vars(given)[name] for name in sizes})
    for part in given.parts:
        found = []
        for seed in range(given.seeds):
            found.append(measured(part, seed, given, folder, tier.device))
            print(f"{part}, seed {seed}: done", flush=True)
        record(receipt, part, found)
    print(receipt.write("study"))


if __name__ == "__main__":
    main()
