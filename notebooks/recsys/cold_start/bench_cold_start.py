"""The race of training: an epoch of ours beside one of RecBole's feature-aware GRU, GRU4RecF.

    python -m bench_cold_start --rounds 3

Both get the same clicks, users, items and genres, the same width, and one thread, then all. The
peer learns one sample a click, by cross-entropy over the catalogue (CE) or against one random
item (BPR), with its own defaults else, and may choose its batch, up to the whole epoch. Ours
learns from impressions, ten for each list, in its recipe's batch. So the tasks differ, and the
rate is clicks learned from for each second: the peer's are its samples, since its split keeps
each user's last two clicks. It is timed without what it prepares, ours with it: against us.
"""

import argparse
import contextlib
import importlib.util
import itertools
import tempfile
from dataclasses import replace
from pathlib import Path

import click_world
import item_network
import numpy as np
import torch
from helpers import bench, check, device, receipts
from item_network import Recipe

PEER, LOSSES, BATCHES = "RecBole GRU4RecF", ("CE", "BPR"), (512, 2048, 8192, 16384)
OLD_NAMES = {"float_": "float64", "complex_": "complex128", "unicode_": "str_"}
COLUMNS = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "class"]}


def peers(world, log, width, folder):
    """({name of loss and batch: a function that trains GRU4RecF for an epoch}, samples in an
    epoch, parameters); the first empty where RecBole is not installed."""
    if importlib.util.find_spec("recbole") is None:
        return {}, 0, 0
    for old, new in OLD_NAMES.items():  # it still asks NumPy 2 for names of NumPy 1
        setattr(np, old, getattr(np, new))
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.model.sequential_recommender import GRU4RecF
    from recbole.trainer import Trainer

    write_atomic_files(world, log, folder / "films")
    split = {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "full"}
    same = {"data_path": str(folder), "load_col": COLUMNS, "selected_features": ["class"]}
    same |= {"embedding_size": width, "hidden_size": width, "eval_args": split}
    same |= {"use_gpu": torch.cuda.is_available(), "state": "ERROR", "show_progress": False}
    negatives = {"CE": None, "BPR": {"distribution": "uniform", "sample_num": 1}}
    found = {}
    for loss, batch in itertools.product(LOSSES, BATCHES):
        own = {"train_batch_size": batch, "loss_type": loss, "checkpoint_dir": str(folder)}
        own |= {"train_neg_sample_args": negatives[loss]}
        config = Config(model="GRU4RecF", dataset="films", config_dict=same | own)
        train, *_ = data_preparation(config, create_dataset(config))
        model = GRU4RecF(config, train.dataset).to(config["device"])
        epoch = Trainer(config, model)._train_epoch
        name = f"{PEER}, {loss}, batch {batch}"
        found[name] = lambda epoch=epoch, train=train: epoch(train, 0)
    return found, len(train.dataset), sum(p.numel() for p in model.parameters())


def write_atomic_files(world, log, folder):
    """The clicks and genres in RecBole's format of files."""
    folder.mkdir(parents=True)
    rows = {"inter": ["user_id:token\titem_id:token\ttimestamp:float"]}
    for s, k in log.clicks_SK.nonzero().tolist():
        when = float(log.hour_S[s]) + k / 100
        rows["inter"].append(f"{int(log.user_S[s])}\t{int(log.items_SK[s, k])}\t{when}")
    rows["item"] = ["item_id:token\tclass:token_seq"]
    for item, has in enumerate(world.genres_IG):
        genres = " ".join(f"g{g}" for g in has.nonzero()[:, 0].tolist())
        rows["item"].append(f"{item}\t{genres}")
    for kind, lines in rows.items():
        (folder / f"films.{kind}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def record(receipt, race, threads, clicks, samples):
    """Our rate with these threads; for each of the peer's losses its rate at its fastest batch
    and ours over it."""
    mine = race.results["ours"]
    receipt.record(f"ours_training_rate_{threads}", mine, "clicks/s", count=clicks)
    for loss in LOSSES:
        others = {n: found for n, found in race.results.items() if f", {loss}, " in n}
        if others:
            note = min(others, key=lambda name: others[name].median_s)
            theirs, name = others[note], f"{loss.lower()}_rate_{threads}"
            receipt.record(f"recbole_{name}", theirs, "clicks/s", count=samples, note=note)
            gain = bench.ratio(theirs, mine, clicks / samples)
            receipt.record(f"training_speedup_{loss.lower()}_{threads}", gain, note=note)


def main(argv=None):
    """Check, race, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--users", type=int, default=400)
    options = parser.parse_args(argv)
    receipt = receipts.start("cold_start", device.tier("cpu"), threads=options.threads)
    world = click_world.draw(0, options.users)
    log, recipe = click_world.history(world), Recipe()
    recipe = replace(recipe, steps=-(-options.users // recipe.batch))  # everybody once
    clicks, lists = int(log.clicks_SK.sum()), len(log)
    ours = {"ours": lambda: item_network.train(log, world.genres_IG, world.users, recipe)}
    size = sum(p.numel() for p in ours["ours"]().parameters())
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # the peer's log
        others, samples, their_size = peers(world, log, recipe.width, Path(folder))
        for one in others.values():
            check.that(np.isfinite(one()), "the peer's loss must be a number")
        if not others:
            print("RecBole is not installed here and is left out")
        for threads in sorted({1, options.threads}):
            torch.set_num_threads(threads)
            race = bench.race(ours | others, repeats=options.rounds, warmup=1)
            print(f"{threads} threads:", race, sep="\n")
            record(receipt, race, threads, clicks, samples)
    receipt.sizes(users=options.users, items=world.items, clicks=clicks, samples=samples)
    receipt.sizes(lists=lists, parameters=size, peer_parameters=their_size, width=recipe.width)
    print(receipt.write(name="training"))


if __name__ == "__main__":
    main()
