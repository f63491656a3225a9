"""Makes `digits_base.safetensors`: a small QuartzNet that heard two US speakers say digits.

    python train_digits_base.py    # minutes on two cores; writes the checkpoint beside it

Only the recordings 5-24 of jackson and theo are heard, in composed utterances; each is also
heard a tenth slower and faster, which moves pitch and formants along. The recordings 0-4 of all
six speakers stay aside and say how good it is: the word error rates are printed and kept in the
checkpoint. The seed fixes data, weights and order; another number of threads rounds otherwise,
so that the result is the same only within that.
"""

import argparse
import time

import digit_speech
import torch
from helpers import data, device
from quartznet import BLANK, VOCABULARY, QuartzNet
from quartznet_files import DIGITS_BASE, save_model
from quartznet_training import Recipe, recognise, train
from scipy.signal import resample_poly

SIZES = {"name": "5x1", "width": 0.3, "field": 0.12}
SOURCE = [name for name, accent in digit_speech.ACCENTS.items() if accent == "USA"]
RECIPE = Recipe(epochs=20, rate=0.02, batch=16, warmup=100, cutouts=3)
SPEEDS = {"slower": (11, 10), "as it is": (1, 1), "faster": (9, 10)}


def at_speed(signal, up, down):
    """A signal of N samples as N up / down samples, with its pitch moved along: float32."""
    return torch.from_numpy(resample_poly(signal.numpy(), up, down).copy()).float()


def greedy_text(log_probs_SV):
    """The most probable path, collapsed; `ctc.greedy` is the chapter's decoder, this script
    needs no more."""
    path = log_probs_SV.argmax(1).unique_consecutive().tolist()
    return "".join(VOCABULARY[letter] for letter in path if letter != BLANK).strip()


def word_error_rates(model, folder, count=20, seed=1):
    """The word error rate of each accent on utterances of held-out recordings, in percent."""
    import jiwer

    spoken = digit_speech.utterances(folder, "test", count=count, seed=seed)
    heard = [greedy_text(found) for found in recognise(model, [one.signal for one in spoken])]
    rates = {}
    for accent in dict.fromkeys(digit_speech.ACCENTS.values()):
        rows = [row for row, one in enumerate(spoken) if one.accent == accent]
        rates[accent] = 100 * jiwer.wer(
            [spoken[row].text for row in rows], [heard[row] for row in rows]
        )
    return {accent: round(rate, 2) for accent, rate in rates.items()}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", default=str(DIGITS_BASE))
    parser.add_argument(
        "--utterances", type=int, default=200, help="of each speaker at each speed"
    )
    args = parser.parse_args(argv)
    device.seed(0)
    folder, signals, texts, began = data.fetch("fsdd"), [], [], time.time()
    for seed, ratio in enumerate(SPEEDS.values()):
        spoken = digit_speech.utterances(
            folder, "train", SOURCE, count=args.utterances, seed=seed
        )
        signals += [at_speed(one.signal, *ratio) for one in spoken]
        texts += [one.text for one in spoken]
    model = QuartzNet.build(**SIZES)
    losses = train(model, signals, texts, RECIPE, report)
    rates = word_error_rates(model, folder)
    notes = {
        **SIZES,
        "speakers": SOURCE,
        "recordings": "5-24",
        "utterances": len(signals),
        "epochs": RECIPE.epochs,
    }
    notes |= {
        "loss": round(sum(losses[-50:]) / 50, 3),
        "word_error_rates_percent": rates,
        "torch": torch.__version__,
    }
    notes |= {"data": "Free Spoken Digit Dataset, CC BY-SA 4.0"}
    print(save_model(model, args.out, notes), rates, f"{time.time() - began:.0f} s")


def report(update, updates, loss):
    if update % 100 == 0:
        print(f"update {update} of {updates}: loss {loss:.2f}", flush=True)


if __name__ == "__main__":
    main()
