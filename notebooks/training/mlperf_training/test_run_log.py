"""Our log passes the committee's checker in the open division; broken ones do not."""

import importlib.util
import math

import pytest
from run_log import lines, minutes, open_bert

ROWS = [(250, 8, 30.0, 3.0), (500, 16, 60.0, 2.3), (750, 24, 90.0, 2.2)]
GIVEN = {"began_ms": 1_600_000_000_000, "target": 2.4, "samples": 5000, "batch": 32, "seed": 1}
CHECKER = pytest.mark.skipif(
    importlib.util.find_spec("mlperf_logging") is None,
    reason="mlperf_logging is a peer; .ci/peers runs this",
)


def checked(tmp_path, events):
    from mlperf_logging.compliance_checker import mlp_compliance

    log = tmp_path / "result_0.txt"
    log.write_text(lines(events))
    checker = mlp_compliance.make_checker("training", "2.0.0", quiet=True, werror=False)
    return mlp_compliance.main(str(log), "training_2.0.0/common.yaml", checker)[0]


@CHECKER
def test_the_log_passes_the_checker(tmp_path):
    assert checked(tmp_path, open_bert(rows=ROWS, **GIVEN))


@CHECKER
@pytest.mark.parametrize(
    "left_out", ["run_start", "run_stop", "eval_accuracy", "cache_clear", "train_samples"]
)
def test_a_log_without_an_event_does_not_pass(tmp_path, left_out):
    events = [one for one in open_bert(rows=ROWS, **GIVEN) if one[2] != left_out]
    assert not checked(tmp_path, events)


@CHECKER
def test_the_closed_division_asks_for_more(tmp_path):
    events = [
        (*one[:3], "closed", one[4]) if one[2] == "submission_division" else one
        for one in open_bert(rows=ROWS, **GIVEN)
    ]
    assert not checked(tmp_path, events)


def test_minutes_end_at_the_first_row_at_the_target():
    assert minutes(lines(open_bert(rows=ROWS, **GIVEN))) == 1.0


def test_a_run_that_misses_its_target_is_aborted():
    assert minutes(lines(open_bert(rows=ROWS[:1], **GIVEN))) == math.inf


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: open_bert(rows=[], **GIVEN), "at least one evaluation"),
        (lambda: lines([(1, "POINT", "seed", 1, {})]), "kinds are"),
        (
            lambda: lines(
                [(2, "POINT_IN_TIME", k, 1, {}) for k in "a"]
                + [(1, "POINT_IN_TIME", "b", 1, {})]
            ),
            "may not fall",
        ),
        (lambda: minutes(""), "one of them is missing"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
