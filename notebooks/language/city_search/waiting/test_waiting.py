"""Erlang's formulas against their definitions, other people's tables and the simulation."""

import math

import pytest

import waiting


def by_definition(servers, load):
    top = load**servers / math.factorial(servers) * servers / (servers - load)
    return top / (sum(load**k / math.factorial(k) for k in range(servers)) + top)


@pytest.mark.parametrize(
    "servers, load", [(1, 0.5), (2, 1.5), (5, 4.9), (10, 3), (30, 24), (100, 90)]
)
def test_erlang_c_is_its_definition(servers, load):
    assert waiting.erlang_c(servers, load) == pytest.approx(
        by_definition(servers, load), rel=1e-12
    )


def test_one_server_waits_as_often_as_it_is_busy_and_two_as_the_book_says():
    assert waiting.erlang_c(1, 0.3) == pytest.approx(0.3)
    assert waiting.erlang_c(2, 1) == pytest.approx(1 / 3)  # 2 ρ² / (1 + ρ) at ρ = ½


def test_two_tables_of_others():
    # a call center of 55 people, 0.2 calls a second of 240 s: 23.87 % wait, 8.184 s in the mean
    busy = waiting.endless(55, 48.0)
    assert busy.waits == pytest.approx(0.2387, abs=5e-5)
    assert 240 * busy.wait == pytest.approx(8.184, abs=5e-4)
    # three tellers, 1.2 customers a minute, 0.5 served a minute by each: 2.16 minutes
    assert waiting.endless(3, 2.4).wait / 0.5 == pytest.approx(2.16, abs=5e-3)


@pytest.mark.parametrize("load", [0, 2.5, 4, 9])
def test_patience_without_an_end_is_the_endless_queue(load):
    assert waiting.erlang_a(4, load, math.inf) == waiting.endless(4, load)


def test_the_ends_of_the_load():
    assert waiting.erlang_c(4, 0) == 0 and waiting.erlang_c(4, 4) == waiting.erlang_c(4, 9) == 1
    assert waiting.endless(4, 4).wait == math.inf and waiting.endless(4, 0) == (0, 0, 0)
    assert waiting.erlang_a(4, 0, 1) == (0, 0, 0)
    assert 0 < waiting.erlang_c(2000, 1990) < 1


def test_endless_patience_is_erlang_c_and_none_is_erlang_b():
    patient = waiting.erlang_a(8, 6.5, 1e7)
    assert patient == pytest.approx(waiting.endless(8, 6.5), rel=1e-5, abs=1e-6)
    hasty = waiting.erlang_a(2, 1, 1e-9)
    assert hasty.leaves == pytest.approx(1 / 5, rel=1e-6)  # of Erlang B: ½ / (1 + 1 + ½)


def test_patience_as_long_as_a_call_needs_no_servers_at_all():
    # who waits leaves as fast as who is served: the number present is Poisson
    queue = waiting.erlang_a(6, 5, 1.0)
    poisson = [math.exp(-5) * 5**k / math.factorial(k) for k in range(60)]
    assert queue.waits == pytest.approx(sum(poisson[6:]), rel=1e-10)
    assert queue.wait == pytest.approx(
        sum((k - 6) * p for k, p in enumerate(poisson) if k > 6) / 5, rel=1e-10
    )


@pytest.mark.parametrize("load", [0.5, 300, 5000])
def test_large_queues_stay_finite_and_keep_their_balance(load):
    servers, patience = 400, 3.0
    queue = waiting.erlang_a(servers, load, patience)
    assert 0 <= queue.leaves <= 1 and queue.leaves == pytest.approx(queue.wait / patience)
    assert queue.leaves >= 1 - servers / load - 1e-9


@pytest.mark.parametrize(
    "servers, load, patience", [(3, 2.4, math.inf), (5, 4, 2.0), (4, 8, 0.5)]
)
def test_the_simulation_comes_to_the_formula(servers, load, patience):
    formula = (
        waiting.endless(servers, load)
        if patience == math.inf
        else waiting.erlang_a(servers, load, patience)
    )
    runs = [waiting.simulate(servers, load, patience, 8000, seed) for seed in range(6)]
    for name, wanted in formula._asdict().items():
        found = [getattr(one, name) for one in runs]
        mean = sum(found) / 6
        error = math.sqrt(sum((one - mean) ** 2 for one in found) / 5 / 6)
        assert abs(mean - wanted) <= 5 * error + 1e-12, name


def test_a_wrong_answer_comes_back_as_a_call():
    assert waiting.after_answers(10, 0.5) == 5
    assert waiting.after_answers(10, 0.5, wrong=0.2) == pytest.approx(6)
    assert waiting.after_answers(10, 1, wrong=1) == 10


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: waiting.erlang_c(0, 1), "servers=0"),
        (lambda: waiting.erlang_c(2.5, 1), "servers=2.5"),
        (lambda: waiting.erlang_c(float("inf"), 1), "servers=inf"),
        (lambda: waiting.erlang_c(float("nan"), 1), "servers=nan"),
        (lambda: waiting.erlang_c(2, -1), "load=-1"),
        (lambda: waiting.erlang_c(2, float("nan")), "load=nan"),
        (lambda: waiting.erlang_a(2, 1, 0), "patience=0"),
        (lambda: waiting.simulate(2, 0, 1, 10, 0), "load=0"),
        (lambda: waiting.after_answers(1, 1.2), "answered=1.2"),
    ],
)
def test_bad_input_is_told(call, words):
    with pytest.raises(ValueError, match=words):
        call()
