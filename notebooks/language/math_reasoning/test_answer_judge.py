"""The judge's verdicts, what it does not judge, and that nothing hangs or lingers."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import answer_judge
import pytest
import real_samples
import tex_forms
from answer_judge import WORKERS, equivalent
from hypothesis import given, settings
from hypothesis import strategies as st

SAME = [
    (r"\frac{1}{2}", "0.5"),
    (r"\frac12", r"\dfrac{2}{4}"),
    ("[2,5)", "[2,5)"),
    (r"\left[2,5\right)", "[2, 5)"),
    ("x=5", "5"),
    ("10{,}000", "10000"),
    ("10,000", r"10{,}000"),
    (r"50,\!625", "50625"),
    ("6,-2", "-2, 6"),
    (r"\{1,2\}", r"\{2,1\}"),
    (r"1\frac{1}{10}", "1.1"),
    (r"-1\frac{1}{2}", "-1.5"),
    ("(x+1)^2", "x^2+2x+1"),
    (r"\sqrt{8}", r"2\sqrt2"),
    (r"\left(\frac{1}{2},3\right)", "(0.5,3)"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\\frac{4}{2}\end{pmatrix}"),
    (r"\text{Evelyn}", "Evelyn"),
    (r"90^\circ", "90"),
    (r"5\text{ cm}", "5"),
    (r"25\%", "25"),
    (r"\sum_{k=1}^{3} k", "6"),
    (r"\pm 2", "-2,2"),
    (r"1\pm\sqrt{2}", r"1-\sqrt2, 1+\sqrt2"),
    (r"\varnothing", r"\{\}"),
    (r"\tan 45^\circ", "1"),
    (r"\cos 60^{\circ}", "0.5"),
    (r"\boxed{5},\boxed{6}", "5,6"),
    (r"\sum_{k=1}^{\infty} \frac{1}{k^2}", r"\frac{\pi^2}{6}"),
    (r"-\infty", r"-\infty"),
    (r"(\frac{2}{2},234)", "(1,234)"),
    (r"x \leq 3", r"x\le 3"),
    (r"0.\overline{3}", "0.3"),  # so does the published ruler say, which unwraps it
    ("5 feet", "5 inches"),  # the published ruler takes units away
]
OTHER = [
    ("[2,5)", "(2,5)"),
    ("(1,2)", "(2,1)"),
    ("1,2", "1,2,3"),
    ("1,1", "1,2"),
    ("1,2", "1,1"),
    (r"\text{even}", r"\text{odd}"),
    ("Evelyn", "5"),
    ("(x+1)^2", "x^2+2x+2"),
    ("0.333", r"\frac{1}{3}"),
    ("9999.857142857143", r"9999\frac{6}{7}"),
    (r"\pi", "3.14159"),
    (r"\sum_{k=1}^{3} k", r"\sum_{j=1}^{3} k"),
    ("A", "B"),
    (r"\infty", r"-\infty"),
    (r"\infty", "1"),
    (r"\pm 2", "2"),
    (r"\pm 2", "2,-3"),
    ("(1,234)", "1234"),
    ("0,1", "01"),
]
UNJUDGED = [
    (r"\frac{1}{", "1"),
    (r"\frac{1}{", r"\frac{1}{"),
    ("1}{", "1}{"),
    ("", ""),
    (" ", "1"),
    ("1" * 1_000_000, "1"),
    ("1" * 1_000_000, "1" * 1_000_000),
    ("{" * 60 + "1" + "}" * 60, "1"),
    ("(" * 400, "1"),
    ("x>3", "x>4"),
    ("5]", "5"),
    (r"\frac{1}{0}", "1"),
    ("yes", "Yes"),  # words, or products of letters
    ("abcd", "dcba"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_the_same_both_ways(a, b):
    assert equivalent(a, b, 20) is True and equivalent(b, a, 20) is True


@pytest.mark.parametrize(("a", "b"), OTHER)
def test_not_the_same_both_ways(a, b):
    assert equivalent(a, b, 20) is False and equivalent(b, a, 20) is False


@pytest.mark.parametrize(("a", "b"), UNJUDGED)
def test_not_judged(a, b):
    assert equivalent(a, b, 20) is None and equivalent(b, a, 20) is None


@pytest.fixture
def living():
    """A worker that has started, so that its start is in no clock."""
    assert equivalent(r"\sqrt{4}", "2", 60) is True
    return WORKERS.process.pid


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_power_that_explodes_is_not_judged_in_time_and_its_worker_is_gone(living):
    begun = time.monotonic()
    assert equivalent("9^{9^{9^{9}}}", "1", 0.5) is None
    assert time.monotonic() - begun < 2.5 and gone(living)
    assert equivalent(r"\sqrt{9}", "3", 60) is True  # the next one has a worker of its own


def test_a_worker_that_was_killed_is_not_judged_and_the_next_call_is(living):
    os.kill(living, signal.SIGSTOP)  # hangs, as one that computes for ever
    killer = threading.Timer(0.2, os.kill, (living, signal.SIGKILL))
    killer.start()
    assert equivalent(r"\sqrt{16}", "4", 30) is None
    killer.join()
    assert equivalent(r"\sqrt{16}", "4", 60) is True


def test_parts_share_the_seconds_and_no_worker_starts_for_one_that_has_none(living):
    many = ",".join([r"9^{9^{9^{9}}}"] * 6)
    begun = time.monotonic()
    assert equivalent(many, ",".join([r"\sqrt{7}"] * 6), 0.5) is None
    assert time.monotonic() - begun < 1.5 and gone(living) and WORKERS.process is None


def test_the_start_of_a_worker_is_in_no_part_s_time(monkeypatch):
    slow = type("Slow", (answer_judge.Worker,), {})
    slow.start = lambda self: time.sleep(0.6)
    slow.ask = lambda self, a, b, seconds: seconds > 0.3
    monkeypatch.setattr(answer_judge, "WORKERS", slow())
    assert equivalent(r"(\sqrt{4},\sqrt{9})", "(2,3)", 0.5) is True


@pytest.mark.parametrize("said", ["no json", "[1,"])
def test_garbage_from_a_worker_is_no_verdict(monkeypatch, tmp_path, said):
    odd = tmp_path / "worker.py"
    odd.write_text(
        f"print('\"ready\"', flush=True); input(); print({said!r}, flush=True); input()"
    )
    monkeypatch.setattr(answer_judge, "WORKER", odd)
    monkeypatch.setattr(answer_judge, "WORKERS", answer_judge.Worker())
    assert equivalent(r"\sqrt{4}", "2", 20) is None
    assert answer_judge.WORKERS.process is None


def test_a_worker_whose_caller_died_ends_by_itself():
    resource = pytest.importorskip("resource")
    code = "import algebra_worker as w, sys; w.MEMORY_BYTES = 10**11; w.main()"
    own = {**os.environ, "PYTHONPATH": os.path.dirname(answer_judge.__file__)}
    pipe = subprocess.PIPE
    one = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, env=own)
    assert json.loads(one.stdout.readline()) == "ready"
    one.stdin.write(json.dumps(["9^{9^{9^{9}}}", "1", 0.1]).encode() + b"\n")
    one.stdin.close()
    assert one.wait(60) in (-signal.SIGXCPU, 0) and resource


def test_threads_share_the_worker(living):
    found = []
    ask = lambda n: found.append(equivalent(rf"\sqrt{{{n * n}}}", f"{n}", 60))  # noqa: E731
    many = [threading.Thread(target=ask, args=(n,)) for n in range(2, 8)]
    for one in many:
        one.start()
    for one in many:
        one.join()
    assert found == [True] * 6


def test_who_waits_for_another_longer_than_it_may_is_not_judged(living):
    with WORKERS.lock:
        begun = time.monotonic()
        assert equivalent(r"\sqrt{4}", "2", 0.2) is None
        assert time.monotonic() - begun < 2


def test_an_algebra_that_does_not_start_is_an_error_and_no_verdict(monkeypatch, tmp_path):
    broken = tmp_path / "worker.py"
    broken.write_text("print('\"no grammar here\"')\n")
    monkeypatch.setattr(answer_judge, "WORKER", broken)
    monkeypatch.setattr(answer_judge, "WORKERS", answer_judge.Worker())
    with pytest.raises(RuntimeError, match="no grammar here.*antlr4"):
        equivalent(r"\sqrt{4}", "2", 5)
    assert answer_judge.WORKERS.process is None


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), "5", None])
def test_a_time_that_bounds_nothing_is_refused(seconds):
    with pytest.raises(ValueError, match="seconds"):
        equivalent("1", "1", seconds)


@pytest.mark.parametrize("pair", [(1, "1"), ("1", None)])
def test_what_is_no_text_is_refused(pair):
    with pytest.raises(ValueError, match="two texts"):
        equivalent(*pair, 1)


@settings(deadline=None)
@given(st.fractions(max_denominator=1000))
def test_a_fraction_is_its_own_quotient(value):
    tex = rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
    assert equivalent(tex, f"{value.numerator}/{value.denominator}", 5) is True
    assert (
        equivalent(tex, f"{value.numerator + value.denominator}/{value.denominator}", 5)
        is False
    )


@pytest.mark.parametrize(
    ("answer", "form"),
    [
        (r"x=\frac12 \text{ cm}", r"\frac{1}{2}"),
        (r"\$100,000", "100000"),
        ("0,1", "0,1"),
        (r"\sqrt3", r"\sqrt{3}"),
        (r"\sqrt[3]a", r"\sqrt[3]{a}"),
        (r"\left(2,3\right)", r"\left(2,3\right)"),
        ("an apple", "apple"),
        (r"\boxed{\text{10 points}}", "10"),
        ("is $5$ only", "5"),
    ],
)
def test_the_published_normal_form(answer, form):
    assert tex_forms.published(answer) == form


def test_the_recorded_verdicts_are_ours_of_today():
    head, found = real_samples.judges()
    assert head[0] == "reference" and head[-1] == "ours" and len(found) > 90
    for a, b, *_, ours in found:
        assert real_samples.SPELT[equivalent(a, b, 30)] == ours, (a, b)


def test_the_worker_is_quiet_about_what_it_cannot_read():
    import algebra_worker

    with pytest.raises(ValueError, match="no expression"):
        algebra_worker.read("x>3")
    assert "sympy" in sys.modules
