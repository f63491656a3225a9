"""An answer by text message: a verbatim excerpt, the link to its page, and how sure it is.

The question is asked of the city's pages first, then of its state's, then of the federal ones;
the first place that is sure enough answers, and where none is, nobody does. A page is quoted
and never obeyed: what it says to machines is only words.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from bm25 import Index
from messages import segments
from messages.text_segments import MOST

from .confidence import Confidence
from .gov_faq import key
from .passages import Passage, Passages
from .rankers import Found, Scorer, near

LABELS = ((0.9, "very high"), (0.7, "high"), (0.5, "medium"), (0.0, "low"))


class Answer(NamedTuple):
    """An excerpt, where it is, which heading it stands under, whose it is, and how sure."""

    excerpt: str
    url: str
    original: str
    heading: str
    place: str
    confidence: float

    @property
    def label(self) -> str:
        """The confidence in a word."""
        return next(word for least, word in LABELS if self.confidence >= least)


class Search:
    """Search over an index. `rank(documents)` gives a scorer of their `field` (a passage's
    headings, or its text where it has none); `states` are the states by city; `tuned` are
    factors by source, for ranking.
    """

    def __init__(
        self,
        index: Passages,
        rank: Callable[[Sequence[str]], Scorer],
        confidence: Confidence,
        states: Mapping[str, str] = {},  # noqa: B006
        tuned: Mapping[str, float] = {},  # noqa: B006
    ):
        self.index, self.rank, self.confidence = index, rank, confidence
        self.states, self.tuned, self.kept = states, tuned, {}

    def places(self, city: str) -> list[tuple[str, dict[str, str]]]:
        """Where to look, in order, with the filter of each."""
        state = self.states.get(city, city)
        made = [(city, {"city": city})] if city in self.states else []
        made += [(state, {"city": "", "state": state})] if state else []
        return [*made, ("federal", {"city": "", "state": ""})]

    def ask(self, query: str, city: str = "", today: str = "", **only: str) -> Answer | None:
        """The first place's answer that is sure enough; None where none is. Without `today`
        it is the real one (ISO); `only` filters by source, too, or by the oldest date.
        """
        for place, where in self.places(city):
            best = self.best(query, place, today, **where, **only)
            if best and best.confidence >= self.confidence.limit:
                return best
        return None

    def best(self, query: str, place: str, today: str = "", **only: str) -> Answer | None:
        """The best answer under these filters, however unsure it is. All passages are scored,
        so that a place of few pages has no other scale; its best leads over what other
        questions get anywhere. Of the passages under its heading the excerpt is the one whose
        text has most of the query's words, by BM25, the first of equals.
        """
        today = today or date.today().isoformat()
        passages, keys, scorer, texts = self._ready(today)
        fits = {one.number for one in self.index.all(today, **only)}
        factors = [self.tuned.get(one.source, 1.0) for one in passages]
        scores = [score * by for score, by in zip(scorer(query).tolist(), factors, strict=True)]
        mine = [at for at, one in enumerate(passages) if one.number in fits]
        own = max(mine, key=lambda at: scores[at], default=None)
        if own is None or scores[own] <= 0:
            return None
        alike = {one: near(one, keys[own]) for one in set(keys)}
        others = [score for score, k in zip(scores, keys, strict=True) if not alike[k]]
        lead = scores[own] - max(others, default=0.0)
        sure = self.confidence.of(Found(own, scores[own], lead, 0))
        if passages[own].heading:  # which of its pieces says most of what is asked
            under = [at for at in mine if _place(passages[at]) == _place(passages[own])]
            own = max(under, key=texts.scores(query).tolist().__getitem__)
        one = passages[own]
        return Answer(one.text, one.url, one.original, one.heading, place, sure)

    def _ready(self, today: str) -> tuple[list[Passage], list[str], Scorer, Index]:
        """The passages, their questions' keys, their scorer and their texts' words, made anew
        when the index has changed.
        """
        version = self.index.version()
        if self.kept.get("version") != version:
            self.kept = {"version": version}
        if today not in self.kept:
            passages = self.index.all(today)
            texts = [one.heading or one.text for one in passages]
            keys, own = [key(text) for text in texts], Index([one.text for one in passages])
            self.kept[today] = passages, keys, self.rank(texts), own
        return self.kept[today]


def _place(passage: Passage) -> tuple[str, str]:
    return passage.url, passage.heading


def as_text(answer: Answer | None, most: int = 3) -> str | None:
    """The answer as a text message of at most so many segments: as much of the excerpt as fits
    before the link, cut between words and marked by three full stops. None for no answer.
    """
    if answer is None:
        return None
    words = answer.excerpt.split()

    def text(many):
        cut = "" if many == len(words) else "..."
        return " ".join([*words[:many], *filter(None, [cut]), answer.url])

    def long(many):
        return len(text(many)) > MOST or len(segments(text(many))) > most

    if not long(len(words)):
        return text(len(words))
    many = bisect_left(range(1, len(words)), True, key=long)
    return text(many) if many else answer.url
