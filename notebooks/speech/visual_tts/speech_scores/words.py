"""Which words does a dub say? Of a known vocabulary, the one that sounds most alike.

A dub is warped onto its clip, whose word times are known: what comes to lie under a word of the
clip is the dub's own time of it. That piece is held against each word of the vocabulary, and
the nearest by warped distance is what was understood.

Where to cut, the clip tells, which helps any dub a little; a dub of other words shows how much.
PocketSphinx, with its own model of English, is told only how many and which words may come.

Shapes: `S` and `R` steps of 10 ms, `D` cepstra, `N` samples at 16 kHz.
"""

from difflib import SequenceMatcher

import numpy as np

from .cepstral import distances, warped_distances, warping_path

__all__ = ["recogniser", "share_understood", "word_spans", "words_heard"]


def word_spans(said_SD, true_RD, words):
    """Where a dub says what its clip says: (first, end) in steps of the dub for each of the
    clip's words, (text, start in s, end in s).
    """
    path, spans = warping_path(distances(said_SD, true_RD)), []
    for _, start, end in words:
        first = min(round(100 * start), path[-1, 1])
        under = path[(path[:, 1] >= first) & (path[:, 1] < max(round(100 * end), first + 1)), 0]
        spans.append((int(under[0]), int(under[-1]) + 1))
    return spans


def words_heard(said_SD, true_RD, words, templates):
    """The nearest of `templates`, {word: cepstra (R, D)}, at each word's own time in a dub."""
    known, pieces = list(templates), list(templates.values())
    spans = word_spans(said_SD, true_RD, words)
    return [known[warped_distances(said_SD[a:b], pieces).argmin()] for a, b in spans]


def share_understood(heard, asked):
    """The share of the words asked for that were heard in their order, with gaps.

    >>> share_understood(["one", "two"], ["one", "three", "two", "four"])
    0.5
    """
    alike = SequenceMatcher(None, heard, asked, autojunk=False)
    return sum(block.size for block in alike.get_matching_blocks()) / len(asked)


def recogniser(vocabulary, count):
    """A function from a sound (N,) to the words that PocketSphinx hears in it, `count` of the
    vocabulary; None where it is not installed.
    """
    try:
        from pocketsphinx import Decoder
    except ImportError:
        return None
    decoder = Decoder(samprate=16_000.0, loglevel="FATAL")
    grammar = f"#JSGF V1.0; grammar words; public <said> = {'<word> ' * count}; "
    decoder.add_jsgf_string("words", f"{grammar}<word> = {' | '.join(vocabulary)};")
    decoder.activate_search("words")

    def hear(sound_N):
        decoder.start_utt()
        faint = np.random.default_rng(0).normal(0, 1e-4, len(sound_N))  # for no digital silence
        whole = np.int16(32_767 * np.clip(sound_N + faint, -1, 1)).tobytes()
        decoder.process_raw(whole, no_search=False, full_utt=True)
        decoder.end_utt()
        found = decoder.hyp()
        return found.hypstr.split() if found else []

    return hear
