"""A switch between two desks: for the next message, not in the middle of a talk, and back."""

import sqlite3

import pytest

from . import conversation
from .conversation import Desk, Versions

ANNE, BO = "+15550100001", "+15550200002"


@pytest.fixture
def versions(hour):
    def desk(name):
        return Desk(
            lambda text: {"pothole": "report", "alerts": "alerts"}.get(text.split()[-1]),
            lambda text, city: f"{name} answers",
            {name: ""},
            clock=hour,
        )

    return Versions({"old": desk("Oldtown"), "new": desk("Newtown")}, "old")


@pytest.fixture
def table():
    made = sqlite3.connect(":memory:", isolation_level=None)
    yield made
    made.close()


def test_the_next_message_is_answered_by_the_version_that_was_switched_to(versions, table):
    assert versions.answer(table, ANNE, "hello").startswith("Oldtown")
    versions.use(table, "new")
    assert versions.used(table) == "new"
    assert versions.answer(table, ANNE, "hello").startswith("Newtown")
    versions.use(table, "old")
    assert versions.answer(table, ANNE, "hello").startswith("Oldtown")


def test_a_report_that_was_begun_ends_with_the_version_that_began_it(versions, table, hour):
    versions.answer(table, ANNE, "a pothole")
    versions.answer(table, BO, "a pothole")
    versions.use(table, "new")
    assert versions.answer(table, ANNE, "12 Main Street").startswith("Ticket 1 for Oldtown")
    assert versions.answer(table, ANNE, "hello").startswith("Newtown")
    hour.at += conversation.FORGET_S + 1  # Bo's rested for too long: nothing is open
    assert versions.answer(table, BO, "hello").startswith("Newtown")


def test_a_question_in_an_open_talk_is_answered_by_the_version_that_began_it(versions, table):
    versions.answer(table, ANNE, "send alerts")
    versions.use(table, "new")
    assert versions.answer(table, ANNE, "hello").startswith("Oldtown answers")
    assert versions.answer(table, ANNE, "hello").startswith("Newtown answers")


def test_stop_holds_in_every_version(versions, table):
    assert "no more texts" in versions.answer(table, ANNE, "STOP")
    versions.use(table, "new")
    assert versions.answer(table, ANNE, "hello") == ""


def test_a_version_that_does_not_exist_is_refused_and_one_that_went_is_not_used(
    versions, table
):
    with pytest.raises(ValueError, match=r"version='newer'; one of \['new', 'old'\]"):
        versions.use(table, "newer")
    versions.use(table, "new")
    assert Versions({"old": versions.desks["old"]}, "old").used(table) == "old"
