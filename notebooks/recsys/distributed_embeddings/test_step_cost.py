"""Bytes that can be counted by hand, and the fit of times."""

import numpy as np
import pytest
from placement import plan
from step_cost import Rates, a100, fitted, off_by, sent, traffic, work

TABLES = [(100, 8), (50, 4), (10, 8)]


def test_bytes_of_a_small_plan_by_hand():
    made = plan(TABLES, 2)  # tables 0 and 2 on device 0, table 1 on device 1
    found = traffic(made, 10, (1, 3, 2), dense=7)
    assert found["ids"] == [[10 * 3 * 4, 10 * 3 * 4]] * 2
    assert found["vectors"] == [[10 * 16 * 4] * 2, [10 * 4 * 4] * 2]
    assert found["gradients"] == [[10 * 16 * 4, 10 * 4 * 4]] * 2
    assert found["all-reduce"] == [[28]] * 2 and "lengths" not in found
    assert sent(found["vectors"], 0) == 640 and sent(found["vectors"], 1) == 160


def test_ragged_inputs_tell_lengths_and_model_parallel_ones_nothing():
    made = plan(TABLES, 2)
    assert (
        traffic(made, 10, (1, 3, 2), ragged=True)["lengths"] == [[2 * 10 * 4, 1 * 10 * 4]] * 2
    )
    assert "ids" not in traffic(made, 10, (1, 3, 2), model_parallel=True)


def test_copies_are_averaged_with_the_network():
    made = plan(TABLES, 2, replicate_threshold=80)
    assert made.replicated == (2,)
    assert traffic(made, 10, (1, 1, 1), dense=5)["all-reduce"] == [[(5 + 80) * 4]] * 2


def test_the_busiest_device_counts():
    made = work(plan(TABLES, 2), 10, (1, 3, 2), dense=7)
    # device 0: one row of 8 and two of 8 a sample, from both processes
    assert made.row_bytes == 4 * 4 * 10 * 2 * (8 + 16)
    # ids, vectors, gradients, the all-reduce as a ring
    assert made.link_bytes == 10 * 3 * 4 + 640 + 640 + 28
    assert made.exchanges == 4 and made.asked == 2 and made.flops == 6 * 7 * 10


def test_a_device_that_receives_from_all_is_the_busiest():
    alone = work(plan([(9, 8), (1, 1)], 2, "memory_optimized"), 10, (1, 0))
    # vectors of 8 leave device 1 of 2, gradients of 8 come back to it
    assert alone.link_bytes == 10 * 4 + 320 + 320
    all_on_one = plan([(9, 8)] * 8, 8)
    even = work(all_on_one, 10, (1,) * 8).link_bytes
    assert even == 7 * (10 * 4 + 320 + 320)
    from placement import Plan

    pieces = tuple(piece._replace(device=0) for piece in all_on_one.pieces)
    heap = Plan(all_on_one.tables, 8, "by hand", tuple(range(8)), pieces)
    # device 0 is sent all ids, sends all vectors, is sent all gradients
    assert work(heap, 10, (1,) * 8).link_bytes == 8 * even


def test_one_device_exchanges_nothing():
    made = work(plan(TABLES, 1), 10, (1, 1, 1), dense=7)
    assert made.exchanges == 0 and made.link_bytes == 0


def test_true_rates_are_found_again():
    truth = Rates(2e-3, 1e-3, 1e-5, 1e-10, 1e-9, 1e-13)
    works = [
        work(plan(TABLES * k, d), 1000 * b, (1, 2, 3) * k, dense=100)
        for k, d, b in ((1, 1, 1), (1, 2, 5), (3, 2, 2), (5, 4, 9), (2, 1, 40), (8, 3, 3))
    ]
    known = Rates(link_s=truth.link_s, flop_s=truth.flop_s)
    fit = fitted(works, [truth.seconds(one) for one in works], [known] * len(works))
    found = fit(known)
    for name in ("step_s", "exchange_s", "input_s", "row_s"):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), rel=1e-6)


def test_rates_are_never_negative_and_too_few_times_are_told():
    works = [work(plan(TABLES, 2), 10 * n, (1, 1, 1)) for n in (1, 2, 3, 4)]
    fit = fitted(works, [4e-3, 3e-3, 2e-3, 1e-3], [Rates()] * 4)
    assert min(fit(Rates()).parts(works[0]).values()) >= 0
    with pytest.raises(ValueError, match="3 works, 3 times"):
        fitted(works[:3], [1, 2, 3], [Rates()] * 3)


def test_off_by_is_a_factor_in_both_directions():
    assert off_by([2, 1], [1, 2]) == pytest.approx(2) and off_by([3.0], [3.0]) == 1


def test_beyond_eight_devices_the_ports_are_slower():
    assert a100(16).link_s == pytest.approx(12 * a100(8).link_s)
    assert np.isclose(a100(8).row_s, 1 / 2.039e12)
