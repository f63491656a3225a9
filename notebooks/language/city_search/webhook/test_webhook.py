"""Signatures of webhooks, and messages that come twice."""

import threading

import pytest

import webhook

URL = "https://example.com/myapp.php?foo=1&bar=2"
FORM = {
    "CallSid": "CA1234567890ABCDE",
    "Caller": "+14158675310",
    "Digits": "1234",
    "From": "+14158675310",
}
FORM |= {"To": "+18005551212"}


def test_the_example_of_twilio_s_documentation():
    assert webhook.sign("12345", URL, FORM) == "L/OH5YylLD5NRKLltdqwSvS0BnU="


def test_two_examples_of_twilio_s_library():
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"
    one = FORM | {"From": "+14158675309", "Caller": "+14158675309"}
    assert webhook.sign("12345", url, one) == "RSOYDt4T1cUTdK1PDd93/VVr8B8="
    twice = {"Sid": "CA123", "SidAccount": "AC123", "Digits": ["5678", "1234"]}
    assert webhook.sign("12345", url, twice) == "IK+Dwps556ElfBT0I3Rgjkr1wJU="


def test_the_order_of_parameters_is_their_names():
    assert webhook.sign("12345", URL, dict(reversed(FORM.items()))) == webhook.sign(
        "12345", URL, FORM
    )


def test_of_a_name_that_comes_twice_the_values_are_sorted_and_each_counts_once():
    signed = webhook.sign("t", URL, {"a": ["2", "1", "2"], "b": "x"})
    assert (
        signed
        == webhook.sign("t", URL, {"a": ["1", "2"], "b": "x"})
        != webhook.sign("t", URL, {"a": "1", "b": "x"})
    )


@pytest.mark.parametrize(
    "token, url, form",
    [
        ("12346", URL, FORM),
        ("12345", URL + "&x=1", FORM),
        ("12345", URL.replace("https", "http"), FORM),
        ("12345", URL, FORM | {"Digits": "1235"}),
        ("12345", URL, FORM | {"More": ""}),
        ("12345", URL, {name: value for name, value in FORM.items() if name != "To"}),
    ],
)
def test_whatever_is_changed_is_not_genuine(token, url, form):
    right = webhook.sign("12345", URL, FORM)
    assert webhook.genuine("12345", URL, FORM, right) and not webhook.genuine(
        token, url, form, right
    )


@pytest.mark.parametrize("forged", ["", "L/OH5YylLD5NRKLltdqwSvS0BnU", "é", "A" * 100_000])
def test_a_forged_signature_is_refused_whatever_it_is(forged):
    assert not webhook.genuine("12345", URL, FORM, forged)


@pytest.fixture
def answered(tmp_path):
    made = []

    def of(**options):
        made.append(webhook.Answered(tmp_path / "answered.db", **options))
        return made[-1]

    yield of
    for one in made:
        one.close()


def test_a_message_that_comes_twice_is_answered_once_also_after_a_restart(answered):
    done = []
    first = answered()
    assert first.once("SM1", lambda: done.append(1) or "ticket 7") == "ticket 7"
    assert first.once("SM1", lambda: done.append(2) or "ticket 8") == "ticket 7"
    first.close()
    assert answered().once(
        "SM1", lambda: done.append(3) or "ticket 9"
    ) == "ticket 7" and done == [1]


def test_an_answer_that_fails_is_tried_again(answered):
    box = answered()
    with pytest.raises(ZeroDivisionError):
        box.once("SM1", lambda: str(1 / 0))
    assert box.once("SM1", lambda: "now") == "now"


def test_what_is_old_loses_its_text_and_never_its_identifier(answered):
    box, done = answered(keep_s=60), []
    for at in range(0, 600, 20):
        box.once(f"SM{at}", lambda: "yes", now=at)
    (many,) = box.table.execute("SELECT count(*) FROM answered WHERE reply = 'yes'").fetchone()
    assert many == 4
    for now in (600, 10**9):  # the signature of a copy is right for ever
        assert box.once("SM0", lambda: done.append(1) or "again", now=now) == "" and not done


def test_two_that_hold_the_same_message_answer_once(tmp_path):
    done, start = [], threading.Barrier(2, timeout=10)

    def deliver():
        box = webhook.Answered(tmp_path / "answered.db")
        start.wait()
        box.once("SM1", lambda: done.append(1) or "one")
        box.close()

    workers = [threading.Thread(target=deliver) for _ in range(2)]
    for one in workers:
        one.start()
    for one in workers:
        one.join(20)
    assert done == [1]


def test_a_message_without_its_identifier_is_refused(answered):
    with pytest.raises(ValueError, match="identifier"):
        answered().once("", lambda: "yes")
