"""The races: an epoch of training beside RecBole's feature-aware GRU; lists for each second.

    python -m bench_cold_start --rounds 3

The peer reads the same clicks, users, items and genres, at the same widths and threads, with
its own defaults else: one sample a click, 2,048 of them in a batch, cross-entropy over the
catalogue, histories of 50. Ours learns from impressions, ten for each list, 100 users a batch.
The tasks differ; the rate is clicks read for each second of an epoch.
"""

import argparse
import importlib.util
import tempfile
import time
from pathlib import Path

import click_world
import item_network
import numpy as np
import policy_run
import torch
from click_world import SLATE
from helpers import bench, check, device, receipts
from item_network import Recipe

PEER = "RecBole GRU4RecF"
OLD_NAMES = {"float_": "float64", "complex_": "complex128", "unicode_": "str_"}


def peer(world, log, width, folder):
    """A function that trains RecBole's GRU4RecF for an epoch; None where it is not there."""
    if importlib.util.find_spec("recbole") is None:
        return None
    for old, new in OLD_NAMES.items():  # it still asks NumPy 2 for names of NumPy 1
        setattr(np, old, getattr(np, new))
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.model.sequential_recommender import GRU4RecF
    from recbole.trainer import Trainer

    write_atomic_files(world, log, folder / "films")
    config = Config(model="GRU4RecF", dataset="films", config_dict=settings(width, folder))
    made = create_dataset(config)
    train, *_ = data_preparation(config, made)
    model = GRU4RecF(config, train.dataset).to(config["device"])
    trainer = Trainer(config, model)
    return lambda: trainer._train_epoch(train, 0)


def settings(width, folder):
    """What the peer is told: the same data and widths, its defaults else."""
    return {
        "data_path": str(folder),
        "load_col": {
            "inter": ["user_id", "item_id", "timestamp"],
            "item": ["item_id", "class"],
        },
        "selected_features": ["class"],
        "embedding_size": width,
        "hidden_size": width,
        "use_gpu": torch.cuda.is_available(),
        "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "full"},
        "train_neg_sample_args": None,
        "checkpoint_dir": str(folder),
        "show_progress": False,
        "state": "ERROR",
    }


def write_atomic_files(world, log, folder):
    """The clicks and genres in RecBole's format of files."""
    folder.mkdir(parents=True)
    rows = ["user_id:token\titem_id:token\ttimestamp:float"]
    for s, k in log.clicks_SK.nonzero().tolist():
        when = float(log.hour_S[s]) + k / 100
        rows.append(f"{int(log.user_S[s])}\t{int(log.items_SK[s, k])}\t{when}")
    (folder / "films.inter").write_text("\n".join(rows) + "\n", encoding="utf-8")
    rows = ["item_id:token\tclass:token_seq"]
    for item in range(world.items):
        genres = " ".join(f"g{g}" for g in world.genres_IG[item].nonzero()[:, 0].tolist())
        rows.append(f"{item}\t{genres}")
    (folder / "films.item").write_text("\n".join(rows) + "\n", encoding="utf-8")


def lists_for_each_second(model, cold, count=300):
    """(lists for each second, p99 in s) of one user after another, in this process."""
    times, luck = [], torch.Generator().manual_seed(0)
    for user in range(count):
        phi = model.state_UP[user % len(model.state_UP)][None]
        began = time.perf_counter()
        item_network.scores(model.known, phi, 0.3, cold, luck).topk(SLATE)
        times.append(time.perf_counter() - began)
    return 1 / np.median(times), np.quantile(times, 0.99)


def main(argv=None):
    """Check, race, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--users", type=int, default=400)
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("cold_start", device.tier("cpu"), threads=options.threads)
    world, recipe = (
        click_world.draw(0, options.users),
        Recipe(steps=options.users // 100, batch=100),
    )
    log = click_world.history(world)
    clicks = int(log.clicks_SK.sum())
    pairs = {"ours": lambda: item_network.train(log, world.genres_IG, world.users, recipe)}
    with tempfile.TemporaryDirectory() as folder:
        other = peer(world, log, recipe.width, Path(folder))
        if other is None:
            print("RecBole is not installed here and is left out")
        else:
            pairs[PEER] = other
            check.that(np.isfinite(other()), "the peer's loss must be a number")
        race = bench.race(pairs, repeats=options.rounds, warmup=1, reference=[*pairs][-1])
        print(race)
    for name, found in race.results.items():
        slug = "ours" if name == "ours" else "recbole"
        receipt.record(f"{slug}_training_rate", found, "clicks/s", count=clicks)
    if other is not None:
        receipt.record("training_speedup", race.ratios["ours"])
    model = policy_run.fit(log, world.genres_IG, world.users, Recipe())
    rate, p99 = lists_for_each_second(model, world.created_I >= 0)
    receipt.record("list_rate", rate, "lists/s")
    receipt.record("list_p99", p99, "s")
    receipt.sizes(users=options.users, items=world.items, clicks=clicks, lists=len(log))
    print(receipt.write(name=f"training_{options.threads}"))


if __name__ == "__main__":
    main()
