"""Trains the network that the page and the browser have:

    python -m cell_detector.train_detector

On the training split of `bccd`, with one thread; what it reached is written beside the weights.
"""

import argparse
import json
import time
from pathlib import Path

import annotations
import average_precision
import torch
from helpers import data
from safetensors.torch import save_file

from . import loading, training

HOME = Path(__file__).resolve().parents[1] / "weights"


def splits() -> dict[str, list]:
    """The annotated photos of `bccd` by split."""
    found = {}
    for one in annotations.read(data.fetch("bccd")):
        found.setdefault(one.split, []).append(one)
    return found


def main(arguments=None) -> None:
    """Train, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--epochs", type=int, default=training.Settings.epochs)
    parser.add_argument("--into", type=Path, default=HOME)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    of, settings, losses = splits(), training.Settings(epochs=options.epochs), []
    begun = time.process_time()
    net = training.train(
        loading.samples(of["train"]),
        settings,
        told=lambda _, loss: losses.append(round(loss, 4)),
    )
    seconds = time.process_time() - begun
    options.into.mkdir(parents=True, exist_ok=True)
    state = {
        name: value.half() if value.is_floating_point() else value
        for name, value in net.state_dict().items()
    }
    save_file(state, options.into / "detector.safetensors")
    net = loading.opened(
        options.into / "detector.safetensors"
    )  # judged as it is stored, in half precision
    made = {
        "photos": len(of["train"]),
        "epochs": settings.epochs,
        "cpu_seconds": round(seconds, 1),
        "losses": losses,
    }
    for name in ("val", "test"):
        scores = average_precision.evaluate(of[name], loading.answers(net, of[name]))
        made[name] = {key: round(value, 4) for key, value in scores.items()} | {
            "by_class": scores.by_class
        }
    (options.into / "trained.json").write_text(
        json.dumps(made, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
