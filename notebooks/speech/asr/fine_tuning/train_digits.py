"""Makes `digits_base.safetensors`: a small QuartzNet that heard two US speakers say digits.

    python -m fine_tuning.train_digits    # in the slice's folder; minutes; writes the file

It hears the recordings 5-24 of jackson and theo alone. The recordings 0-4 of all six speakers
say how good it is: the word error rates are printed and kept in the checkpoint. The seed fixes
data, weights and order; another number of threads or another torch rounds otherwise."""

import argparse
import time
from collections import defaultdict

import ctc
import digit_speech
import jiwer
import torch
from helpers import data, device
from quartznet import DIGITS_BASE, QuartzNet, recognise, save_model

from .training import Recipe, train

SIZES = {"name": "5x1", "width": 0.3, "field": 0.16}
SOURCE = [name for name, accent in digit_speech.ACCENTS.items() if accent == "USA"]
# one digit or eight, and little silence around: so the model learns to do without context
STYLE = digit_speech.Style(digits=(1, 8), lead_s=(0.0, 0.4), trail_s=(0.02, 0.6))
RECIPE = Recipe(epochs=22, rate=0.03, batch=16, warmup=100)


def word_error_rates(model, folder, count=20, seed=1):
    """The word error rate of each accent on utterances of held-out recordings, in percent."""
    texts = defaultdict(lambda: ([], []))  # (said, heard) by accent
    for one in digit_speech.utterances(folder, "test", count=count, seed=seed):
        said, heard = texts[one.accent]
        said.append(one.text)
        heard.append(ctc.greedy(recognise(model, [one.signal])[0])[0].strip())
    return {accent: round(100 * jiwer.wer(*pair), 2) for accent, pair in texts.items()}


def main(argv=None):
    """Train, measure, save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", default=str(DIGITS_BASE))
    parser.add_argument("--utterances", type=int, default=450, help="of each speaker")
    parser.add_argument("--epochs", type=int, default=RECIPE.epochs)
    args = parser.parse_args(argv)
    device.seed(0)
    folder, began = data.fetch("fsdd"), time.time()
    spoken = digit_speech.utterances(folder, "train", SOURCE, args.utterances, style=STYLE)
    model = QuartzNet.build(**SIZES)
    recipe = Recipe(**vars(RECIPE) | {"epochs": args.epochs})
    losses = train(model, [u.signal for u in spoken], [u.text for u in spoken], recipe, print)
    notes = SIZES | {"speakers": SOURCE, "recordings": "5-24", "utterances": len(spoken)}
    notes |= {"epochs": recipe.epochs, "last_loss": round(sum(losses[-50:]) / 50, 3)}
    notes |= {"word_error_rates_percent": word_error_rates(model, folder)}
    notes |= {"torch": torch.__version__, "data": "Free Spoken Digit Dataset, CC BY-SA 4.0"}
    print(save_model(model, args.out, notes), notes, f"{time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
