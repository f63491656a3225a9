"""Search by words: BM25 in Lucene's form."""

from .postings import Index, scores, words

__all__ = ["Index", "scores", "words"]
