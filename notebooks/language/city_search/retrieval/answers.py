"""An answer by text message: a verbatim excerpt, the link to its page, and how sure it is.

The question is asked of the city's pages first, then of its state's, then of the federal ones;
the first place that is sure enough answers, and where none is, nobody does. A page is quoted
and never obeyed: what it says to machines is only words.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from messages import segments

from .confidence import Confidence
from .gov_faq import key
from .passages import Passage, Passages
from .rankers import Found, Scorer

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
        """The first place's answer that is sure enough; None where none is. `only` filters by
        source or date, too.
        """
        for place, where in self.places(city):
            best = self.best(query, place, today, **where, **only)
            if best and best.confidence >= self.confidence.limit:
                return best
        return None

    def best(self, query: str, place: str, today: str = "", **only: str) -> Answer | None:
        """The best answer under these filters, however unsure it is. All passages are scored,
        so that a place of few pages has no other scale; its best leads over what other
        questions get anywhere.
        """
        passages, keys, scorer = self._ready(today)
        fits = [all(getattr(one, f) == v for f, v in only.items()) for one in passages]
        if not any(fits):
            return None
        factors = [self.tuned.get(one.source, 1.0) for one in passages]
        scores = [score * by for score, by in zip(scorer(query).tolist(), factors, strict=True)]
        own = max((at for at, fit in enumerate(fits) if fit), key=lambda at: scores[at])
        others = [s for s, k in zip(scores, keys, strict=True) if k != keys[own]]
        if scores[own] <= 0:
            return None
        lead = scores[own] - max(others, default=0.0)
        one, sure = passages[own], self.confidence.of(Found(own, scores[own], lead, 0))
        return Answer(one.text, one.url, one.original, one.heading, place, sure)

    def _ready(self, today: str) -> tuple[list[Passage], list[str], Scorer]:
        """The passages, their questions' keys and their scorer, made anew when the index has
        changed.
        """
        version = self.index.version()
        if self.kept.get("version") != version:
            self.kept = {"version": version}
        if today not in self.kept:
            passages = self.index.all(today)
            texts = [one.heading or one.text for one in passages]
            self.kept[today] = passages, [key(text) for text in texts], self.rank(texts)
        return self.kept[today]


def as_text(answer: Answer | None, most: int = 3) -> str | None:
    """The answer as a text message of at most so many segments: as much of the excerpt as fits
    before the link, cut between words and marked by three full stops. None for no answer.
    """
    if answer is None:
        return None
    words = answer.excerpt.split()
    for many in range(len(words), 0, -1):
        text = " ".join(words[:many]) + ("" if many == len(words) else " ...")
        if len(text) + len(answer.url) < 1500 and len(segments(f"{text} {answer.url}")) <= most:
            return f"{text} {answer.url}"
    return answer.url
