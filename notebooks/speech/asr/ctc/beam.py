"""From letter probabilities to text by prefix-beam search, with words and boosted phrases.

The network gives P(letter | step); CTC (Graves et al. 2006) sums over alignments. The text of
an alignment drops repeats, then blanks, so that with c ranging over letters and "-" the blank
(Hannun et al. 2014, arXiv 1408.2873):

    P(text) = sum of prod_t P(a_t) over the alignments a of that text
    pb'(l)  = P(-) (pb(l) + pn(l))                        prefix l, last step blank
    pn'(l)  = P(c) pn(l)  and  pn'(lc) = P(c) (pb(l) [+ pn(l) if c differs from l's last])

    score(l) = log P(l) + alpha log P_words(l) + beta |words of l| + bonus(l)

The last three terms depend on the prefix alone: they are multiplied in when a prefix is born.
Other than in the usual decoders the sums run in plain probabilities, scaled at every step, and
the beam is a state that a stream carries from chunk to chunk.

Legend: B batch, T steps, V letters and blank (last)."""

import itertools
import math

import numpy as np
from quartznet import VOCABULARY

from .best_path import checked, collapse

ALPHA, BETA = 0.5, 1.5  # weight of the word model, bonus per word: pyctcdecode's defaults
# letters less probable than e^-5 at a step start no new prefix; prefixes e^-10 below the best
# are dropped, whatever the width
FLOORS = -5.0, -10.0


def beam_search(
    log_probs, lengths=None, width=32, language_model=None, boost=None, vocabulary=VOCABULARY
):
    """The text of highest score of each utterance, a list of B strings.

    >>> beam_search(torch.tensor([[0.4, 0.6], [0.4, 0.6]]).log(), vocabulary=("a",))
    ['a']

    There greedy hears blank twice (0.36), but three alignments say "a" (0.64). Arguments as
    `greedy`; `width` prefixes survive a step; `language_model` has the methods of `WordNGram`,
    `boost` is a PhraseBoost. Computed on the CPU in O(T width tokens), tokens being those above
    the floor; raises ValueError as `greedy` does, and for width < 1."""
    log_probs_BTV, lengths_B = checked(log_probs, lengths, vocabulary)
    found = []
    for row_TV, length in zip(log_probs_BTV.cpu(), lengths_B.tolist(), strict=True):
        beam = PrefixBeam(width, language_model, boost, vocabulary)
        beam.advance(row_TV[:length])
        found.append(beam.finish()[0][0])
    return found


class PrefixBeam:
    """A prefix-beam search that goes on where the last chunk ended.

    >>> beam = PrefixBeam(width=8, vocabulary=("a", "b"))
    >>> beam.advance(torch.tensor([[0.7, 0.2, 0.1]]).log()); beam.best()
    'a'

    `advance` takes log-probabilities (T, V), any T; `best` is the text so far; `finish` gives
    (text, score) of every surviving prefix, with the last word and the end counted, and leaves
    the search as it was. `floors` are logarithms, of letters and of prefixes; with -inf for
    both the search is exact while no prefix falls out of the width."""

    def __init__(
        self, width=32, language_model=None, boost=None, vocabulary=VOCABULARY, floors=FLOORS
    ):
        if width < 1:
            raise ValueError(f"width={width}: at least one prefix must survive a step")
        self.width, self.vocabulary, self.blank = width, vocabulary, len(vocabulary)
        self.model, self.boost = language_model, boost
        self.token_floor, self.beam_floor = floors[0], math.exp(floors[1])
        model_state = language_model.start() if language_model else None
        root = _Prefix(None, -1, 1.0, "", model_state, boost.start() if boost else None)
        self.beams, self.log_scale = {root: (1.0, 0.0)}, 0.0  # prefix: (ends in blank, not)

    def advance(self, log_probs_TV):
        """None; reads the steps (T, V) one by one."""
        steps = np.asarray(log_probs_TV, np.float64)
        rows, ids = np.nonzero(steps >= self.token_floor)
        probs = np.exp(steps[rows, ids]).tolist()
        bounds = np.searchsorted(rows, np.arange(len(steps) + 1)).tolist()
        ids, best = ids.tolist(), steps.argmax(1).tolist() if len(steps) else []
        for t, (start, end) in enumerate(itertools.pairwise(bounds)):
            if start == end:  # no letter above the floor: the best one stands in
                self._step([(best[t], math.exp(steps[t, best[t]]))])
            else:
                self._step(list(zip(ids[start:end], probs[start:end], strict=True)))

    def best(self):
        """The text of the best prefix so far, its last word perhaps unfinished."""
        return self._text(max(self.beams, key=lambda prefix: sum(self.beams[prefix])))

    def finish(self):
        """(text, score) of each surviving prefix, best first, as if the speech ended here."""
        ended = []
        for prefix, (in_blank, in_letter) in self.beams.items():
            if (total := in_blank + in_letter) > 0:
                score = math.log(total) + self.log_scale + self._end_bonus(prefix)
                ended.append((self._text(prefix), score))
        return sorted(ended, key=lambda pair: (-pair[1], pair[0]))

    def _step(self, tokens):
        """One step of the recursion: `tokens` are (id, probability) above the floor."""
        found, blank = {}, self.blank
        for prefix, (in_blank, in_letter) in self.beams.items():
            total = in_blank + in_letter
            for token, prob in tokens:
                if token == blank:
                    old = found.get(prefix)
                    found[prefix] = (total * prob, old[1] if old else 0.0)
                    continue
                gain = total
                if token == prefix.token:  # a repeat goes on, unless a blank stands between
                    old = found.get(prefix, (0.0, 0.0))
                    found[prefix] = (old[0], old[1] + in_letter * prob)
                    gain = in_blank
                if gain:
                    child = prefix.children.get(token) or self._born(prefix, token)
                    old = found.get(child, (0.0, 0.0))
                    found[child] = (old[0], old[1] + gain * prob * child.factor)
        self._keep(found)

    def _keep(self, found):
        """The `width` best of `found`, scaled so that the best is 1."""
        sums = {prefix: pair[0] + pair[1] for prefix, pair in found.items()}
        top = max(sums.values())
        if top <= 0:
            raise ValueError("every prefix has probability 0: log-probabilities of -inf came")
        floor = top * self.beam_floor
        kept = [prefix for prefix, total in sums.items() if total >= floor]
        if len(kept) > self.width:
            kept = sorted(kept, key=sums.__getitem__, reverse=True)[: self.width]
        self.beams = {p: (found[p][0] / top, found[p][1] / top) for p in kept}
        self.log_scale += math.log(top)

    def _born(self, parent, token):
        """The child of a prefix, its factor (word model, phrases) computed once."""
        letter, word, bonus = self.vocabulary[token], parent.word, 0.0
        model_state, boost_state = parent.model_state, parent.boost_state
        if self.boost:
            boost_state, bonus = self.boost.step(boost_state, letter)
        if self.model and word + letter != " ":
            bonus += self._unknown(word, letter)
        if letter != " ":
            word += letter
        elif word:
            if self.model:
                score, model_state = self.model.score(model_state, word)
                bonus += ALPHA * score + BETA
            word = ""
        child = _Prefix(parent, token, math.exp(bonus), word, model_state, boost_state)
        parent.children[token] = child
        return child

    def _end_bonus(self, prefix):
        bonus, state = 0.0, prefix.model_state
        if self.model:
            if prefix.word:
                score, state = self.model.score(state, prefix.word)
                bonus += ALPHA * score + BETA + self._unknown(prefix.word, " ")
            bonus += ALPHA * self.model.end(state)
        return bonus + (self.boost.end(prefix.boost_state) if self.boost else 0.0)

    def _unknown(self, word, letter):
        """What a word pays, once, when this letter or the space behind it leaves the trie."""
        left = self.model.is_prefix(word) and not self.model.is_prefix(word + letter)
        return self.model.unknown_score if left else 0.0

    def _text(self, prefix):
        letters = []
        while prefix.parent is not None:
            letters.append(self.vocabulary[prefix.token])
            prefix = prefix.parent
        return "".join(reversed(letters))


class _Prefix:
    """A node of the tree of prefixes: its last letter, and what its future depends on."""

    __slots__ = ("parent", "token", "factor", "word", "model_state", "boost_state", "children")

    def __init__(self, parent, token, factor, word, model_state, boost_state):
        self.parent, self.token, self.factor, self.word = parent, token, factor, word
        self.model_state, self.boost_state, self.children = model_state, boost_state, {}


def beam_search_reference(log_probs_TV, extra=lambda text: 0.0, vocabulary=VOCABULARY):
    """{text: score} of every text, by summing over all V^T alignments; the oracle of the tests.
    `extra` gives what word model and phrases add to a whole text."""
    probs = np.exp(np.asarray(log_probs_TV, np.float64))
    totals, blank = {}, len(vocabulary)
    for alignment in itertools.product(range(probs.shape[1]), repeat=len(probs)):
        text = "".join(vocabulary[i] for i in collapse(alignment, blank))
        path = math.prod(probs[t, i] for t, i in enumerate(alignment))
        totals[text] = totals.get(text, 0.0) + path
    return {text: math.log(total) + extra(text) for text, total in totals.items() if total}
