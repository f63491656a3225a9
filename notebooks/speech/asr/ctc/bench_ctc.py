"""The race: prefix-beam search over real log-probabilities, ours and pyctcdecode's.

    python -m ctc.bench_ctc                # from the slice's folder; 20 rounds; a receipt

All decode the same utterances of six speakers with the same width and floors, one by one, on
one core whatever `--threads` says: that is for the network before. With a word model,
pyctcdecode reads it through kenlm from the ARPA file that ours writes. Word error rates stand
beside the times: a faster beam that hears worse has not won."""

import argparse
import importlib.util
import logging
import tempfile
from pathlib import Path

import digit_speech
import jiwer
import torch
from helpers import bench, check, data, device, receipts
from quartznet import VOCABULARY, load_model, recognise

from .beam import beam_search
from .best_path import greedy
from .word_model import WordNGram

WIDTH = 32


def word_model(folder, order=3):
    """A WordNGram of digit sentences that are not in the test."""
    train = digit_speech.utterances(folder, "train", ["jackson"], count=100)
    return WordNGram([one.text for one in train], order)


def contestants(log_probs, model, width=WIDTH, arpa=None):
    """Functions that return all texts, by name; peers are there where they are installed."""
    arrays = [x.numpy() for x in log_probs]

    def ours(**options):
        return [beam_search(x, width=width, **options)[0] for x in log_probs]

    found = {"ours, greedy": lambda: [greedy(x)[0] for x in log_probs], "ours": ours}
    found["ours, word model"] = lambda: ours(language_model=model)
    for name, decoder in peers(model, arpa).items():
        found[name] = lambda d=decoder: [d.decode(x, beam_width=width) for x in arrays]
    return found


def peers(model, arpa=None):
    """pyctcdecode's decoders by name, where it is installed; with words only beside kenlm."""
    if importlib.util.find_spec("pyctcdecode") is None:
        return {}
    logging.getLogger("pyctcdecode").setLevel(logging.ERROR)  # it warns of missing kenlm
    from pyctcdecode import build_ctcdecoder

    labels = [*VOCABULARY, ""]
    found = {"pyctcdecode": build_ctcdecoder(labels)}
    if arpa is not None and importlib.util.find_spec("kenlm"):
        with_words = labels, str(model.write_arpa(Path(arpa))), sorted(model.words)
        found["pyctcdecode, word model"] = build_ctcdecoder(*with_words)
    return found


def same_errors(texts, found):
    """Whether pyctcdecode and ours make as many errors of each kind, with words and without;
    ties may part a letter, and ours keeps the spaces that were heard."""

    def kinds(name):
        errors = jiwer.process_words(texts, found[name])
        return errors.substitutions, errors.deletions, errors.insertions

    theirs = [name for name in found if name.startswith("pyctcdecode")]
    return all(kinds(name) == kinds(name.replace("pyctcdecode", "ours")) for name in theirs)


def main(argv=None):
    """Check, race, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1, help="a search has one")
    parser.add_argument("--utterances", type=int, default=10, help="of each speaker")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    receipt = receipts.start("asr_streaming", device.tier("cpu"), threads=args.threads)
    folder = data.fetch("fsdd")
    made = digit_speech.utterances(folder, "test", count=args.utterances)
    log_probs = recognise(load_model(), [one.signal for one in made])
    texts = [one.text for one in made]
    with tempfile.TemporaryDirectory() as scratch:
        pairs = contestants(log_probs, word_model(folder), arpa=Path(scratch) / "words.arpa")
        found = {name: decode() for name, decode in pairs.items()}
        check.that(same_errors(texts, found), "both searches must make the same errors")
        for name in {"pyctcdecode", "pyctcdecode, word model"} - found.keys():
            print(f"{name}: not installed here, so left out.")
        race = bench.race(pairs, repeats=args.rounds, warmup=1, reference="ours", device="cpu")
    print(race)
    for name, heard in found.items():
        metric = name.replace(", ", "_").replace(" ", "_")
        receipt.record(f"{metric}_wer", 100 * jiwer.wer(texts, heard), "%")
        receipt.record(f"{metric}_time", race.results[name])
    record(receipt, race)
    receipt.sizes(utterances=len(texts), width=WIDTH)
    print(receipt.write(name="ctc"))


def record(receipt, race):
    """Records how many times as fast as pyctcdecode each of ours is, round by round."""
    for metric, ours in (("beam_speedup", "ours"), ("beam_words_speedup", "ours, word model")):
        if (peer := ours.replace("ours", "pyctcdecode")) in race.results:
            receipt.record(metric, bench.ratio(race.results[peer], race.results[ours]))


if __name__ == "__main__":
    main()
