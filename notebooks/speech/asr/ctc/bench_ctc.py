"""The race: prefix-beam search over real log-probabilities, ours and pyctcdecode's.

    python bench_ctc.py                # 20 rounds; a receipt
    python bench_ctc.py --rounds 5 --utterances 10

All decode the same utterances of four accents with the same width and floors, one by one, on
one core. With a word model, pyctcdecode reads it through kenlm from the ARPA file that ours
writes. Word error rates stand beside the times: a faster beam that hears worse has not won.
"""

import argparse
import contextlib
import importlib.util
import logging
import os
import tempfile
from pathlib import Path

import digit_speech
import jiwer
import torch
from helpers import bench, data, device, receipts, root
from quartznet import VOCABULARY, load_model, recognise

from .beam import beam_search
from .best_path import greedy
from .word_model import WordNGram

WIDTH = 32


def spoken(folder, count):
    """(log-probabilities, texts): `count` utterances of each of the six speakers."""
    utterances = digit_speech.utterances(folder, "test", count=count)
    return recognise(load_model(), [one.signal for one in utterances]), [
        one.text for one in utterances
    ]


def word_model(folder, order=3):
    """A WordNGram of digit sentences that are not in the test."""
    train = digit_speech.utterances(folder, "train", ["jackson"], count=300)
    return WordNGram([one.text for one in train], order)


def contestants(log_probs, model, width=WIDTH, arpa=None):
    """Functions that return all texts, by name; peers are there where they are installed."""
    arrays = [x.numpy() for x in log_probs]
    ours = {
        "ours, greedy": lambda: [greedy(x)[0] for x in log_probs],
        "ours": lambda: [beam_search(x, width=width)[0] for x in log_probs],
        "ours, word model": lambda: [
            beam_search(x, width=width, language_model=model)[0] for x in log_probs
        ],
    }
    return ours | {
        name: lambda d=decoder: [d.decode(x, beam_width=width) for x in arrays]
        for name, decoder in peers(model, arpa).items()
    }


@contextlib.contextmanager
def silent_stderr():
    """A context in which nobody, C++ included, writes to standard error."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def peers(model, arpa=None):
    """pyctcdecode's decoders by name; none where it is absent."""
    try:
        logging.getLogger("pyctcdecode").setLevel(logging.ERROR)  # it warns of missing kenlm
        from pyctcdecode import build_ctcdecoder
    except ImportError:
        return {}
    labels = [*VOCABULARY, ""]
    found = {"pyctcdecode": build_ctcdecoder(labels)}
    if arpa is not None and importlib.util.find_spec("kenlm"):
        path = str(model.write_arpa(Path(arpa)))
        words = sorted(model.words)
        with silent_stderr():  # kenlm draws a progress bar there
            found["pyctcdecode, word model"] = build_ctcdecoder(labels, path, words)
    return found


def main(argv=None):
    """Race and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--utterances", type=int, default=10, help="of each speaker")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    os.environ.setdefault("REBUILT_RECEIPTS", str(root() / "_build" / "receipts" / "bench"))
    receipt = receipts.start("asr_streaming", device.tier("cpu"))
    folder = data.fetch("fsdd")
    log_probs, texts = spoken(folder, args.utterances)
    with tempfile.TemporaryDirectory() as scratch:
        pairs = contestants(log_probs, word_model(folder), arpa=Path(scratch) / "words.arpa")
        for name, decode in pairs.items():
            print(f"{name}: word error rate {ctc.word_error_rate(texts, decode()).rate:.2%}")
        race = bench.race(pairs, repeats=args.rounds, reference="ours", device="cpu")
    print(race)
    record(receipt, race)
    print(receipt.write())


def record(receipt, race):
    """Records how many times as fast as pyctcdecode each of ours is, round by round."""
    for metric, ours, peer in (
        ("beam_speedup", "ours", "pyctcdecode"),
        ("beam_words_speedup", "ours, word model", "pyctcdecode, word model"),
    ):
        if peer in race.results:
            pair = {name: race.results[name].times_s for name in (peer, ours)}
            ratios = sorted(a / b for a, b in zip(pair[peer], pair[ours], strict=True))
            low, middle, high = (ratios[int(q * (len(ratios) - 1))] for q in (0.25, 0.5, 0.75))
            receipt.record(metric, middle, "×", low, high, len(ratios))


if __name__ == "__main__":
    main()
