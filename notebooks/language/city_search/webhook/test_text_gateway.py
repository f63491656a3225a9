"""Forms over a real socket: signed, forged, changed, twice, cut off, and killed half way."""

import http.client
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree as xml
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import webhook
from webhook import text_gateway

ONE, TWO = (f"SM{number:032x}" for number in (1, 2))
FORM = {"MessageSid": ONE, "From": "+15550100001", "Body": "a pothole"}


def ticket(table, sender, text):
    table.execute("CREATE TABLE IF NOT EXISTS tickets (text TEXT)")
    table.execute("INSERT INTO tickets VALUES (?)", (text,))
    return f"noted: {text}" if text != "fail" else str(int("nothing"))


def tickets(path):
    with closing(sqlite3.connect(path)) as table:
        if not table.execute("SELECT 1 FROM sqlite_master WHERE name = 'tickets'").fetchone():
            return []
        return [text for (text,) in table.execute("SELECT text FROM tickets")]


@pytest.fixture
def served(tmp_path):
    with text_gateway.door("secret", tmp_path / "city.db", ticket, patience_s=0.5) as url:
        yield url, tmp_path / "city.db"


def test_a_signed_message_gets_its_reply_and_its_copy_the_same_one(served):
    url, path = served
    first = text_gateway.post(url, "secret", FORM)
    assert first == (200, ["noted: a pothole"])
    assert text_gateway.post(url, "secret", FORM) == first and tickets(path) == ["a pothole"]


def test_a_copied_request_changes_nothing_and_a_changed_one_is_refused(served):
    url, path = served
    signed = webhook.sign("secret", url, FORM)
    text_gateway.post(url, "secret", FORM)
    assert text_gateway.post(url, "other", FORM, signature=signed).status == 200
    changed = FORM | {"MessageSid": TWO}
    assert text_gateway.post(url, "other", changed, signature=signed) == (403, [])
    assert tickets(path) == ["a pothole"]


@pytest.mark.parametrize("forged", ["", "AAAA", "é"])
def test_a_forged_message_does_nothing(served, forged):
    url, path = served
    if not forged.isascii():
        forged = forged.encode().decode("latin-1")
    assert text_gateway.post(url, "other", FORM, signature=forged).status == 403
    assert text_gateway.post(url, "guess", FORM).status == 403
    assert tickets(path) == []


def test_the_same_message_from_eight_senders_at_once_is_one_ticket(served):
    url, path = served
    found, start = [], threading.Barrier(8, timeout=10)

    def send():
        start.wait()
        found.append(text_gateway.post(url, "secret", FORM))

    workers = [threading.Thread(target=send) for _ in range(8)]
    for one in workers:
        one.start()
    for one in workers:
        one.join(20)
    assert found == [(200, ["noted: a pothole"])] * 8 and tickets(path) == ["a pothole"]


def test_an_answer_that_fails_leaves_no_half_and_is_posted_again(served):
    url, path = served
    assert text_gateway.post(url, "secret", FORM | {"Body": "fail"}).status == 500
    assert tickets(path) == []
    assert text_gateway.post(url, "secret", FORM).status == 200


KILLED = """
import os, sys
from webhook import text_gateway
def answer(table, sender, text):
    table.execute("CREATE TABLE IF NOT EXISTS tickets (text TEXT)")
    table.execute("INSERT INTO tickets VALUES (?)", (text,))
    os._exit(9)
with text_gateway.door("secret", sys.argv[1], answer) as url:
    form = {"MessageSid": "SM" + "0" * 31 + "1", "From": "+1555", "Body": "lost"}
    text_gateway.post(url, "secret", form)
"""


def test_a_process_killed_between_ticket_and_reply_leaves_neither(served):
    url, path = served
    code = [sys.executable, "-c", KILLED, str(path)]
    done = subprocess.run(code, cwd=Path(__file__).parents[1], check=False, timeout=30)
    assert done.returncode == 9 and tickets(path) == []
    assert text_gateway.post(url, "secret", FORM) == (200, ["noted: a pothole"])
    assert tickets(path) == ["a pothole"]


def test_every_value_of_a_form_is_signed(served):
    url, _ = served
    more = FORM | {"NumMedia": "0", "Empty": "", "Body": "a&b=c ü 😀"}
    assert text_gateway.post(url, "secret", more).texts == ["noted: a&b=c ü 😀"]


@pytest.mark.parametrize("missing", ["MessageSid", "From", "Body"])
def test_a_message_without_its_parts_is_refused(served, missing):
    url, path = served
    form = {name: value for name, value in FORM.items() if name != missing}
    assert text_gateway.post(url, "secret", form).status == 400 and tickets(path) == []


@pytest.mark.parametrize(
    "changed",
    [{"MessageSid": ""}, {"MessageSid": "SM1"}, {"From": "anonymous"}, {"From": "+1\n555"}],
)
def test_an_identifier_or_a_number_of_another_shape_is_refused(served, changed):
    url, path = served
    assert text_gateway.post(url, "secret", FORM | changed).status == 400
    assert tickets(path) == []


@pytest.mark.parametrize(
    "whole, moved",
    [
        (FORM | {"NumMedia": "0"}, FORM | {"MessageSid": ONE + "NumMedia0"}),
        (FORM | {"FromCity": "X"}, FORM | {"From": FORM["From"] + "FromCityX"}),
    ],
)
def test_a_copy_whose_value_takes_in_the_next_field_is_signed_and_refused(served, whole, moved):
    url, path = served
    signed = webhook.sign("secret", url, whole)
    assert signed == webhook.sign(
        "secret", url, moved
    )  # nothing stands between names and values
    assert text_gateway.post(url, "other", moved, signature=signed).status == 400
    assert tickets(path) == []


def test_a_text_that_spells_out_a_sender_and_an_identifier_forges_neither(served):
    url, path = served
    whole = FORM | {"Body": f"xFrom+15550100099MessageSid{TWO}To"}
    moved = {"Body": "x", "From": "+15550100099", "MessageSid": TWO}
    moved["To"] = f"From{FORM['From']}MessageSid{ONE}"
    signed = webhook.sign("secret", url, whole)
    assert signed == webhook.sign("secret", url, moved)
    for form in (moved, whole):
        assert text_gateway.post(url, "other", form, signature=signed).status == 400
    assert tickets(path) == []
    usual = FORM | {"SmsMessageSid": ONE, "SmsSid": ONE}  # as a gateway sends it
    assert text_gateway.post(url, "secret", usual).status == 200


def test_an_address_that_takes_in_the_first_field_is_another_address(served):
    url, path = served
    signed = webhook.sign("secret", url, FORM | {"AccountSid": "AC1"})
    assert signed == webhook.sign("secret", url + "AccountSidAC1", FORM)
    moved = text_gateway.post(url + "AccountSidAC1", "other", FORM, signature=signed)
    assert moved.status == 404 and tickets(path) == []


def test_a_body_that_is_too_long_is_refused_and_the_sender_reads_why(served):
    long = FORM | {"Body": "x" * 30_000_000}
    assert text_gateway.post(served[0], "secret", long) == (413, [])


def raw(url, headers, body=b""):
    where = urllib.parse.urlsplit(url)
    with closing(http.client.HTTPConnection(where.hostname, where.port, timeout=5)) as made:
        made.putrequest("POST", where.path)
        for name, value in headers.items():
            made.putheader(name, value)
        made.endheaders(body)
        return made.getresponse().status


@pytest.mark.parametrize(
    "headers, status",
    [
        ({}, 411),
        ({"Content-Length": "-1"}, 411),
        ({"Content-Length": "²"}, 411),
        ({"Content-Length": "65537", "Content-Type": text_gateway.FORM}, 413),
        ({"Content-Length": "9" * 5000, "Content-Type": text_gateway.FORM}, 413),
        ({"Content-Length": "9" * 400, "Content-Type": text_gateway.FORM}, 413),
        ({"Content-Length": "2", "Content-Type": "application/json"}, 415),
    ],
)
def test_what_is_no_form_is_refused_before_it_is_read(served, headers, status):
    assert raw(served[0], headers) == status


def test_a_form_of_too_many_fields_or_of_no_text_is_refused(served):
    form = {"Content-Type": text_gateway.FORM}
    for body in (b"&".join(b"a=1" for _ in range(101)), b"\xff\xfe"):
        size = {"Content-Length": str(len(body))}
        assert raw(served[0], form | size, body) == 400


@pytest.mark.parametrize("beginning", [b"POST /sm", b"POST /sms HTTP/1.1\r\nContent-Length: 9"])
def test_a_sender_that_drips_is_let_go(served, beginning):
    where = urllib.parse.urlsplit(served[0])
    start = time.monotonic()
    with socket.create_connection((where.hostname, where.port), timeout=5) as made:
        made.sendall(beginning)
        try:
            for _ in range(100):
                time.sleep(0.05)
                made.sendall(b"x")
        except OSError:
            pass
    assert time.monotonic() - start < 4
    assert text_gateway.post(served[0], "secret", FORM).status == 200


def test_a_form_that_ends_early_is_not_answered(served):
    form = {"Content-Type": text_gateway.FORM, "Content-Length": "50"}
    assert raw(served[0], form, b"MessageSid=SM1") == 408


@given(st.text(max_size=20) | st.sampled_from(["\ufffe", "a\uffff", "\x7f", "\U0010ffff"]))
def test_markup_is_xml_whatever_the_reply(reply):
    told = xml.fromstring(text_gateway.markup(reply))
    assert len(told) == (1 if reply else 0)


def test_markup_holds_any_text_and_nothing_for_no_reply():
    assert text_gateway.markup("") == "<Response />"
    told = text_gateway.markup("1 < 2 & \x00\ud800 \x0b😀")
    assert told == "<Response><Message>1 &lt; 2 &amp;  😀</Message></Response>"
