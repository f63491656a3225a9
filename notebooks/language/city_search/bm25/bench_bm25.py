"""The race: BM25 by ours, bm25s and tantivy, over the same passages, one query at a time.

Equal scores come first: bm25s in Lucene's form gives ours for every passage and query, within
its float32. Tantivy has settings of its own (k1 1.2, lengths rounded to a byte), so only that
its best passage is among our ten is asked. In the chapter's folder:

    python -m bm25.bench_bm25
    python -m bm25.bench_bm25 --rounds 3 --copies 1

Every contestant answers with its ten best. Building the index is outside of the clock. `copies`
repeat the passages, each with a number, to show a larger index.
"""

import argparse
import functools
import importlib.util

import torch
from helpers import bench, check, data, device, receipts

from .postings import Index, words

BEST = 10


def texts(copies: int) -> tuple[list[str], list[str]]:
    """(passages, queries): the pages' questions and answers, and the paraphrases."""
    from retrieval import gov_faq

    folder = data.fetch("gov_faq")
    rows = [f"{row.question} {row.answer}" for row in gov_faq.faqs(folder)]
    passages = [f"{text} {n}" for n in range(copies) for text in rows]
    return passages, [one.query for one in gov_faq.paraphrases(folder)[0]]


def ours_of(passages):
    """A function of a query: (places, scores) of the ten best, by ours."""
    index = Index(passages)

    def best(query):
        found = torch.topk(index.scores(query), BEST)
        return found.indices.tolist(), found.values.tolist()

    return best


def bm25s_of(passages):
    """The same by bm25s, with our words."""
    import bm25s

    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index([words(text) for text in passages], show_progress=False)

    def best(query):
        found, scores = index.retrieve([words(query)], k=BEST, show_progress=False, n_threads=0)
        return found[0].tolist(), scores[0].tolist()

    best.index = index
    return best


def tantivy_of(passages):
    """The same by tantivy, with its simple tokens in lower case."""
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text")
    schema.add_unsigned_field("place", stored=True)
    index = tantivy.Index(schema.build())
    writer = index.writer(num_threads=1)
    for place, text in enumerate(passages):
        document = tantivy.Document(text=text)
        document.add_unsigned("place", place)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def best(query):
        asked = index.parse_query(" ".join(words(query)), ["text"])
        hits = searcher.search(asked, BEST).hits
        return [searcher.doc(at)["place"][0] for _, at in hits], [score for score, _ in hits]

    return best


def contestants(passages, queries):
    """{name: answers a query}, after they agreed. A peer that is absent is left out."""
    made = {"ours": ours_of(passages)}
    index = Index(passages)
    if importlib.util.find_spec("bm25s"):
        made["bm25s"] = bm25s_of(passages)
        for query in queries:
            known = [word for word in words(query) if word in index.postings]
            theirs = torch.as_tensor(made["bm25s"].index.get_scores(known)).double()
            check.close(theirs, index.scores(query), rtol=1e-4, atol=1e-5, why="bm25s's scores")
    if importlib.util.find_spec("tantivy"):
        made["tantivy"] = tantivy_of(passages)
        hits = [made["tantivy"](q)[0][0] in made["ours"](q)[0] for q in queries]
        check.that(sum(hits) > 0.9 * len(hits), f"tantivy's best among ours: {sum(hits)}")
    return made


def main(arguments=None):
    """Check, race, print the table and the receipt's path."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="interleaved rounds")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--copies", type=int, default=10, help="of the passages")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("city_answers", device.tier("cpu"), threads=options.threads)
    passages, queries = texts(options.copies)
    receipt.sizes(passages=len(passages), queries=len(queries))
    made = contestants(passages, queries)
    for name in {"bm25s", "tantivy"} - made.keys():
        print(f"left out: {name} is not installed")

    def all_of(best):
        return [best(query) for query in queries]

    chosen = {name: functools.partial(all_of, best) for name, best in made.items()}
    race = bench.race(chosen, options.rounds, reference="ours", device="cpu")
    print(race)
    for name, found in race.results.items():
        receipt.record(f"{name}_queries", found, "queries/s", count=len(queries))
    for name, ratio in race.ratios.items():
        if name != "ours":
            receipt.record(f"{name}_over_ours", ratio)
    print(receipt.write(name="race"))


if __name__ == "__main__":
    main()
