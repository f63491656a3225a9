"""Passages and their filters, rankers, confidence, the data and their split."""

import math

import bm25
import pytest
import torch
from crawling import PageText, connect
from helpers import data
from hypothesis import given
from hypothesis import strategies as st

from . import city_site, gov_faq
from .answers import Search, as_text
from .confidence import Confidence, calibrated, gap, limit_of, tally
from .encoder import Encoder, Recipe, rows_of, train
from .passages import Passages, pieces
from .rankers import Found, auc, dense, find, hybrid, lexical, overlap

SURE = Confidence((20.0, 5.0, -5.0), 0.5)


def page(question, answer, **attributes):
    return PageText(sections=[(question, answer)], attributes=attributes)


@pytest.fixture
def index():
    made = Passages(connect(":memory:"), about=city_site.about)
    made.put("http://x/northwick/1", page("When is trash picked up?", "On Mondays."))
    made.put("http://x/southwick/1", page("When is trash picked up?", "On Thursdays."))
    made.put("http://x/vermont/1", page("Are masks needed?", "In shops.", state="Vermont"))
    made.put(
        "http://x/fda/1",
        page("How does the virus spread?", "By droplets.", canonical="https://f"),
    )
    made.put(
        "http://x/fda/old", page("Which roads are closed?", "Main Street."), until="2020-05-01"
    )
    return made


@given(st.text(st.sampled_from("ab. \n"), max_size=300), st.integers(1, 9))
def test_pieces_are_verbatim_in_order_short_and_lose_no_word(text, most):
    made, at = pieces(text, most), 0
    for one in made:
        at = text.index(one, at) + len(one)
        assert 0 < len(one.split()) <= most
    assert " ".join(made).split() == text.split()


def test_a_page_is_put_once_and_dropped_whole(index):
    before = len(index.all())
    index.put("http://x/fda/1", page("How does the virus spread?", "By air."))
    assert len(index.all()) == before
    assert [one.text for one, _ in index.by_words("virus")] == ["By air."]
    index.drop("http://x/fda/1")
    assert len(index.all()) == before - 1 and not index.by_words("virus")


def test_words_of_a_query_are_never_syntax(index):
    for query in ['trash" OR', "trash AND NOT", "NEAR(", "*", "", "heading:trash", "-"]:
        index.by_words(query)
    assert index.by_words("heading:trash")[0][0].text.startswith("On ")


def test_filters_are_kept_and_unknown_ones_refused(index):
    assert [one.text for one in index.all(city="Northwick")] == ["On Mondays."]
    assert [one.text for one, _ in index.by_words("trash", city="Southwick")] == [
        "On Thursdays."
    ]
    with pytest.raises(ValueError, match="are known"):
        index.all(mayor="x")


def test_a_date_is_the_oldest_that_is_allowed(index):
    index.put("http://x/fda/2", page("Masks?", "At home.", date="2020-04-20"))
    search = Search(index, lexical, SURE)
    for oldest, found in (("2020-04-19", True), ("2020-04-20", True), ("2020-04-21", False)):
        assert bool(index.by_words("masks home", date=oldest)) == found
        assert (search.ask("Masks?", date=oldest) is not None) == found
    with pytest.raises(ValueError, match="are known"):
        search.ask("Masks?", mayor="x")


def test_a_page_that_is_over_is_not_shown_to_who_forgets_the_day(index):
    search = Search(index, lexical, SURE)
    assert search.ask("Which roads are closed?") is None
    assert search.ask("Which roads are closed?", today="2020-05-01").excerpt == "Main Street."


def test_the_excerpt_is_the_passage_that_says_most_of_what_is_asked(index):
    filler, own = "Much is said of other things here. " * 30, "A mask of cloth may be washed."
    index.put("http://x/fda/3", page("What of masks?", f"{filler}\n{own}\n{filler}"))
    search = Search(index, lexical, SURE._replace(limit=0.0))
    assert own in search.ask("what of masks, may a cloth one be washed").excerpt
    assert search.ask("what of masks").excerpt.startswith("Much is said")


def test_vectors_find_what_the_encoder_finds_under_the_same_filters():
    encoder = Encoder(DOCUMENTS)
    index = Passages(connect(":memory:"), encoder.encode, city_site.about)
    for at, text in enumerate(DOCUMENTS[:3]):
        index.put(f"http://x/{'fda' if at else 'cdc'}/{at}", page("", text))
    found = index.by_vector("is there a vaccine", 2)
    best = dense(DOCUMENTS[:3], encoder)("is there a vaccine")
    assert [one.text for one, _ in found] == [DOCUMENTS[1], DOCUMENTS[2]]
    assert [score for _, score in found] == pytest.approx(best[1:].tolist(), abs=1e-6)
    (only,) = index.by_vector("is there a vaccine", source="CDC")
    assert only[0].text == DOCUMENTS[0] and not index.by_vector("a", source="ECDC")
    index.drop("http://x/fda/1")
    assert index.by_vector("is there a vaccine", 1)[0][0].text == DOCUMENTS[2]


def test_a_page_is_shown_until_its_last_day(index):
    shown = [
        any("Main" in one.text for one in index.all(today=day))
        for day in ("2020-05-01", "2020-05-02")
    ]
    assert shown == [True, False]


def test_no_page_can_claim_to_be_another_city_s(index):
    index.put("http://x/southwick/2", page("Liar?", "Yes.", city="Northwick", state="Vermont"))
    assert all("Yes" not in one.text for one in index.all(city="Northwick"))
    index.put("http://x/vermont/2", page("Liar?", "Yes.", city="Northwick"))
    assert all("Yes" not in one.text for one in index.all(city="Northwick"))
    index.put("http://x/florida/1", page("Liar?", "Yes.", state="Vermont", source="CDC"))
    index.put("http://x/guest/1", page("Liar?", "Yes.", state="", source="CDC"))
    for only in ({"state": "Kansas", "city": ""}, {"state": ""}, {"source": "CDC"}):
        assert all("Yes" not in one.text for one in index.all(**only))


def test_the_nearest_place_that_is_sure_answers_and_none_if_none_is(index):
    search = Search(index, lexical, SURE, city_site.STATES)
    trash = [search.ask("When is trash picked up?", city) for city in city_site.STATES]
    assert [one.excerpt for one in trash] == ["On Mondays.", "On Thursdays."]
    assert search.ask("Are masks needed?", "Northwick").place == "Vermont"
    assert search.ask("Are masks needed?", "Southwick") is None
    spread = search.ask("How does the virus spread?", "Northwick")
    assert (spread.place, spread.url, spread.original) == (
        "federal",
        "http://x/fda/1",
        "https://f",
    )
    assert search.ask("¿Cuándo abre la biblioteca?", "Northwick") is None
    assert search.ask("When is trash picked up?") is None


def test_search_sees_a_change_at_once(index):
    search = Search(index, lexical, SURE, city_site.STATES)
    search.ask("Are masks needed?", "Northwick")
    index.put("http://x/vermont/1", page("Are masks needed?", "Nowhere.", state="Vermont"))
    assert search.ask("Are masks needed?", "Northwick").excerpt == "Nowhere."


def test_a_factor_turns_the_ranking(index):
    index.put("http://x/cdc/2", page("How does the virus spread?", "By touch.", source="FDA"))
    plain, tuned = (
        Search(index, lexical, SURE, {}, by).ask("How does the virus spread?").excerpt
        for by in ({}, {"FDA": 0.5})
    )
    assert (plain, tuned) == ("By droplets.", "By touch.")


def test_a_text_keeps_its_link_and_fits(index):
    answer = Search(index, lexical, SURE).ask("How does the virus spread?")
    assert as_text(answer) == "By droplets. http://x/fda/1" and as_text(None) is None
    long = as_text(answer._replace(excerpt="word " * 300), most=2)
    assert long.endswith(" ... http://x/fda/1") and len(long) <= 306


DOCUMENTS = ["how does it spread", "is there a vaccine", "a vaccine a vaccine", ""]


def test_rankers_score_from_nought_to_one_and_lexical_is_bm25():
    encoder = Encoder(DOCUMENTS)
    scorers = [overlap(DOCUMENTS), lexical(DOCUMENTS), dense(DOCUMENTS, encoder)]
    for scorer in scorers:
        scores = scorer("is there a vaccine")
        assert scores.argmax() == 1 and scores.max() <= 1 + 1e-6 and scores[3] == 0
    raw, share = bm25.scores("vaccine", DOCUMENTS), lexical(DOCUMENTS)("vaccine")
    assert torch.allclose(share * math.log(2), raw)  # two of four documents hold it
    mixed = hybrid(scorers[1], scorers[2], 0.25)("it")
    assert torch.allclose(mixed, 0.25 * scorers[1]("it") + 0.75 * scorers[2]("it"))


def test_find_ranks_owners_not_pieces():
    found = find(torch.tensor([0.2, 0.9, 0.8, 0.5]), ["a", "b", "b", "c"], right={"c"})
    assert found == Found(1, pytest.approx(0.9), pytest.approx(0.4), 2)
    assert find(torch.zeros(2), ["a", "b"], {"z"}).rank == 0


def test_who_asks_nearly_the_same_is_no_rival():
    owners = ["how does it spread", "how does it really spread", "is it safe"]
    found = find(torch.tensor([0.9, 0.8, 0.3]), owners)
    assert found.lead == pytest.approx(0.6)
    assert find(torch.tensor([0.9, 0.8]), owners[:2]).lead == pytest.approx(0.9)


def test_confidence_falls_with_neither_score_nor_lead():
    founds = [Found(0, score, lead, 1) for score in (0.2, 0.9) for lead in (0.0, 0.5)]
    made = calibrated(founds * 9, [True, False, False, True] * 9)
    assert made.weights[0] >= 0 and made.weights[1] >= 0


def test_auc_of_right_wrong_and_ties():
    assert auc([2, 3], [0, 1]) == 1 and auc([0], [1]) == 0 and auc([1, 1], [1]) == 0.5


def test_calibration_finds_the_probability_and_wants_both_kinds():
    torch.manual_seed(0)
    scores = torch.rand(900)
    right = (torch.rand(900) < torch.sigmoid(8 * scores - 4)).tolist()
    founds = [
        Found(0, float(one), 0.0, int(hit)) for one, hit in zip(scores, right, strict=True)
    ]
    made = calibrated(founds, right)
    assert made.weights[0] == pytest.approx(8, abs=1.5)
    assert gap([made.of(one) for one in founds], right) < 0.06
    with pytest.raises(ValueError, match="some of both"):
        calibrated(founds, [True] * 900)


def test_the_limit_is_where_right_answers_less_wrong_ones_are_most():
    sure, right = [0.9, 0.8, 0.7, 0.6, 0.5], [True, True, False, False, True]
    assert limit_of(sure, right) == pytest.approx(0.75)
    assert limit_of(sure, [False] * 5) > 0.9  # none is worth it
    assert limit_of(sure, [True] * 5) < 0.5
    assert limit_of([0.9, 0.5, 0.5, 0.5], [True, False, True, True]) < 0.5  # ties stay together
    assert limit_of([0.9, 0.5, 0.4], [True, False, True]) == pytest.approx(0.7)  # the highest


def test_a_tally_by_hand():
    founds = [
        Found(0, 1.0, 0.0, 1),
        Found(0, 1.0, 0.0, 2),
        Found(0, 0.0, 0.0, 1),
        Found(0, 0.0, 0.0, 0),
    ]
    made = tally(founds, [True, True, True, False], Confidence((10.0, 0.0, -5.0), 0.5))
    assert made[:6] == pytest.approx((2 / 3, (1 + 0.5 + 1) / 3, 0.5, 0.25, 0.25, 1.0))


def test_training_draws_a_question_to_its_answer():
    pairs = [
        ("pets", "dogs and cats"),
        ("spread", "droplets in air"),
        ("cost", "free of charge"),
    ]
    texts = [text for _, text in pairs]
    encoder = Encoder(texts, seed=1)

    def own():
        return [int(dense(texts, encoder)(query).argmax()) for query, _ in pairs]

    def cosines():
        asked = encoder.encode([query for query, _ in pairs])
        return float((asked * encoder.encode(texts)).sum())

    before = cosines()
    train(encoder, pairs, Recipe(epochs=20), seed=0)
    assert own() == [0, 1, 2] and cosines() > before + 0.5
    assert rows_of("pets") == rows_of("pets") and len(rows_of("a")) == 2


@pytest.fixture(scope="module")
def folder():
    return data.fetch("gov_faq")


def test_who_is_not_used_and_nothing_else_is_lost(folder):
    rows = gov_faq.faqs(folder)
    many = {s: sum(row.source == s for row in rows) for s in {row.source for row in rows}}
    assert many == {
        "FDA": 84, "Vermont": 195, "Kansas": 96, "Oregon": 75, "Florida": 49, "CDC": 111,
        "ECDC": 30, "BMG": 30, "California": 16, "Washington": 3,
    }  # fmt: skip
    assert not any("â\x80" in row.question + row.answer for row in rows)
    assert gov_faq.mended("donâ\x80\x99t") == "don’t" and gov_faq.mended("déjà 漢") == "déjà 漢"


@pytest.mark.parametrize("seed", range(5))
def test_parts_share_no_first_question_and_no_query(folder, seed):
    same, other = gov_faq.paraphrases(folder)
    parts = gov_faq.split(same, seed)
    said = [
        {gov_faq.key(text) for one in own for text in (one.first, one.query)}
        for own in parts.values()
    ]
    assert not (said[0] & said[1] | said[0] & said[2] | said[1] & said[2])
    assert len(same) == len(other) == 244 and 230 < sum(map(len, parts.values())) <= 244


def test_harder_pairs_never_mean_the_same(folder):
    same, _ = gov_faq.paraphrases(folder)
    means = {(gov_faq.key(one.query), one.first) for one in same}
    made = gov_faq.harder(same[:40], lexical)
    assert made and not any((gov_faq.key(one.query), one.first) in means for one in made)
