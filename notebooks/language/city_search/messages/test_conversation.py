"""Talks in a table: who may be written to, where a talk stands, whose city, one ticket."""

import sqlite3

import pytest

from . import conversation
from .conversation import Desk
from .intents import Intents
from .invented_town import CITIES, CURATED, EXAMPLES, SUITE, Curated

ANNE, BO = "+15550100001", "+15550200002"


@pytest.fixture
def talk(hour):
    table = sqlite3.connect(":memory:", isolation_level=None)
    desk = Desk(Intents(EXAMPLES).of, Curated().best, CITIES, "Northwick", hour)
    yield lambda text, sender=ANNE: desk.answer(table, sender, text)
    table.close()


@pytest.fixture
def table(talk):
    return talk.__closure__[1].cell_contents


def rows(table, name):
    return table.execute(f"SELECT * FROM {name}").fetchall()


def test_a_report_asks_where_and_becomes_one_ticket(talk, table):
    assert "Where is it?" in talk("there is a pothole in my street")
    assert talk("12 Main Street").startswith("Ticket 1 for Northwick")
    (ticket,) = rows(table, "tickets")
    assert ticket[1:5] == (
        ANNE,
        "there is a pothole in my street",
        "12 Main Street",
        "Northwick",
    )
    assert talk("12 Main Street").startswith("I do not know")  # the talk is over


def test_the_city_is_the_callers_unless_the_message_names_one(talk):
    assert "Mondays" in talk("when is trash picked up")
    assert "Thursdays" in talk("when is trash picked up", BO)
    assert "Thursdays" in talk("when is trash picked up in Southwick")
    assert "Thursdays" in talk("when is trash picked up")  # of this talk
    assert "Mondays" in talk("when is trash picked up", "+49301")  # unknown: the home


def test_a_search_that_always_answers_takes_no_report_and_no_wish_for_alerts():
    desk = Desk(Intents(EXAMPLES).of, lambda text, city: "an answer", CITIES)
    table = sqlite3.connect(":memory:")
    for number, (text, wanted) in enumerate(SUITE):
        reply = desk.answer(table, f"+1555{number:04}", text)
        assert reply.startswith("an answer") == (not wanted), text


def test_of_two_cities_whose_names_end_alike_the_longer_name_is_meant():
    desk = Desk(lambda text: None, lambda text, city: city, {"Wick": "+1", "New Wick": "+2"})
    table = sqlite3.connect(":memory:")
    assert desk.answer(table, "+1", "what of new wick?").startswith("New Wick")
    assert desk.answer(table, "+2", "what of wick?").startswith("Wick")


@pytest.mark.parametrize("nothing", ["", "?", "😀"])
def test_a_place_without_words_is_asked_for_again(talk, table, nothing):
    talk("there is a pothole in my street")
    assert "Where is it?" in talk(nothing) and not rows(table, "tickets")
    assert talk("12 Main Street").startswith("Ticket 1")


def test_a_city_of_two_words_is_known_and_a_part_of_a_word_is_none():
    desk = Desk(lambda text: None, lambda text, city: city, {"New Wick": "+1", "Ton": "+2"})
    table = sqlite3.connect(":memory:")
    assert desk.answer(table, "+2", "what of new wick?").startswith("New Wick")
    assert desk.answer(table, "+1", "a ton of trash").startswith("Ton")
    assert desk.answer(table, "+1", "a tonne of it").startswith("Ton")


def test_a_talk_that_rested_begins_anew(talk, hour, table):
    talk("there is a pothole in my street")
    hour.at += conversation.FORGET_S + 1
    assert talk("12 Main Street").startswith("I do not know") and not rows(table, "tickets")


@pytest.mark.parametrize("word", ["STOP", "stop", " Stop. ", "STOP ALL", "opt-out", "Cancel"])
def test_stop_ends_the_talk_and_everything_sent(talk, table, word):
    talk("there is a pothole in my street")
    assert "no more texts" in talk(word)
    assert talk(word) == "" and talk("12 Main Street") == "" and not rows(table, "tickets")
    assert "again" in talk("START")
    assert talk("12 Main Street").startswith("I do not know")  # the report is gone


def test_a_sentence_with_stop_in_it_stops_nothing(talk):
    assert talk("does the bus stop here").startswith("I do not know")
    assert "Mondays" in talk("when is trash picked up")


def alert(table, city="Northwick", during=None):
    sent = []

    def send(sender, text):
        sent.append(sender)
        if during:
            during()

    return conversation.alert(table, city, "storm", send), sent


def test_alerts_go_to_those_of_the_city_who_said_yes_and_did_not_stop(talk, table):
    for who in (ANNE, BO):
        assert "Reply YES" in talk("send me alerts", who)
        assert "You get alerts" in talk("YES", who)
    talk("send me alerts", "+15550100003")  # never says yes
    assert alert(table) == (1, [ANNE])
    talk("STOP")
    assert alert(table) == (0, []) and alert(table, "Southwick") == (1, [BO])
    talk("START")
    assert alert(table) == (0, [])  # to be asked for anew


def test_who_stops_while_others_are_sent_to_gets_none(talk, table):
    other = "+15550100009"
    for who in (ANNE, other):
        talk("send me alerts", who)
        talk("yes", who)
    sent = alert(table, during=lambda: [talk("STOP", who) for who in (ANNE, other)])
    assert sent[0] == 1


def test_alerts_of_a_second_city_come_beside_the_first_and_stop_ends_both(talk, table):
    for text in ("send me alerts", "yes", "send me alerts of Southwick", "yes", "yes"):
        talk(text)
    assert alert(table) == alert(table, "Southwick") == (1, [ANNE])
    talk("STOP")
    assert alert(table) == alert(table, "Southwick") == (0, [])


def test_who_stops_and_starts_again_while_others_are_sent_to_asked_for_no_alert(talk, table):
    for who in (ANNE, "+15550100009"):
        talk("send me alerts", who)
        talk("yes", who)
    words = ("STOP", "START")
    again = lambda: [talk(word, who) for who in (ANNE, "+15550100009") for word in words]  # noqa: E731
    assert alert(table, during=again)[0] == 1


def test_another_message_than_yes_is_answered_and_asks_for_no_alerts(talk, table):
    talk("send me alerts")
    assert "Mondays" in talk("when is trash picked up") and alert(table) == (0, [])


def test_help_is_answered_and_after_stop_nothing_is(talk):
    assert "Reply STOP" in talk("HELP")
    assert talk("stop") and talk("HELP") == ""


def test_a_vote_is_one_a_resident_and_answer_and_changes_no_answer(talk, table):
    assert "no answer of mine" in talk("BAD")
    for _ in range(50):
        first = talk("when is trash picked up")
        assert "A person will look" in talk("BAD")
    assert len(rows(table, "review")) == 1 and talk("when is trash picked up") == first


def test_a_long_report_is_kept_short(talk, table):
    talk("there is a pothole in my street " + "x" * 2000)
    talk("y" * 2000)
    assert all(len(one) <= conversation.MOST for one in rows(table, "tickets")[0][2:4])


def test_text_that_looks_like_a_statement_of_the_table_is_text(talk, table):
    talk("there is a pothole in my street")
    talk("'); DROP TABLE tickets; --")
    assert rows(table, "tickets")[0][3] == "'); DROP TABLE tickets; --"


@pytest.mark.parametrize("text", ["", "?!", "😀", "\x00", "‮"])
def test_what_has_no_words_is_not_known(talk, text):
    assert talk(text).startswith("I do not know")


@pytest.mark.parametrize("text, wanted", SUITE)
def test_the_suite_of_messages(text, wanted):
    assert Intents(EXAMPLES).of(text) == (wanted or None)


def test_likeness_is_one_for_an_example_and_zero_without_a_shared_word():
    known = Intents(EXAMPLES)
    assert known.guess("Send me alerts!") == ("alerts", pytest.approx(1))
    assert known.guess("bonjour").likeness == known.guess("").likeness == 0
    assert known.of("") is None


def test_likeness_is_the_cosine_by_hand():
    known = Intents({"a": ["x y"], "b": ["y z"]})
    few, both = known.weights["x"] ** 2, known.weights["y"] ** 2
    assert known.guess("x") == ("a", pytest.approx((few / (few + both)) ** 0.5))


@pytest.mark.parametrize("examples", [{}, {"a": []}, {"a": ["?"]}])
def test_examples_without_words_are_refused(examples):
    with pytest.raises(ValueError, match="examples without words"):
        Intents(examples)


def test_curated_questions_are_of_the_city_or_of_all_and_strangers_get_none():
    curated = Curated()
    assert "northwick.example/trash" in curated.best("trash picked up when?", "Northwick")
    assert curated.best("when is the library open", "Southwick") is None
    assert "sunset" in curated.best("what time does the park close?", "Southwick")
    assert curated.best("who is the president of the moon", "Northwick") is None
    assert curated.best("", "Northwick") is None and Curated([]).best("trash", "x") is None


def test_the_suite_holds_no_example_and_every_curated_city_is_one():
    examples = {one for held in EXAMPLES.values() for one in held}
    assert not examples & {text for text, _ in SUITE}
    assert {row[0] for row in CURATED} <= {*CITIES, ""}
