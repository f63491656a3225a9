"""The formula held against the CPU: what is printed, what is kept, when nothing is; and that it shows wrong counts."""

import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch

from rehearsal import against_the_cpu as against
from rehearsal import beside, dispatch, flops
from rehearsal.predict import Card, Prediction

INF = float("inf")
CARD = Card("made up", 1e9, {"": 1e9, "float64": 5e8}, INF, INF, "nowhere", "", 1e-6, 0.0, 0.0)
QUIET, BUSY = {"cores": 0.1, "names": {}}, {"cores": 1.5, "names": {"make": 1.25}}


def one(predicted_s=2.0, measured_s=4.0, bound="memory"):
    return against.Compared(Prediction("made up", predicted_s, {bound: predicted_s}, 0, True), measured_s, 3.0, 5.0, 7)


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """No measuring: fixed results, in a folder of their own; the Watch is told what to see."""
    seen = [QUIET]
    monkeypatch.setattr(against, "KEPT", tmp_path)
    monkeypatch.setattr(against, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(against, "here", lambda: CARD)
    monkeypatch.setattr(against, "generic", lambda card: {"sums": one()})
    monkeypatch.setattr(against, "chapters", lambda card, stems: {"asr": one(), "odd": "KeyError: 'points'"})
    monkeypatch.setattr(beside.Watch, "told", lambda self: seen.pop(0) if len(seen) > 1 else seen[0])
    return tmp_path / "against_the_cpu.json", seen


def test_what_is_kept(quick):
    path, _ = quick
    assert against.main(["--record"]) == 0
    kept = json.loads(path.read_text())
    row = {"predicted_s": 2.0, "measured_s": 4.0, "low_s": 3.0, "high_s": 5.0, "ratio": 0.5}
    row |= {"rounds": 7, "bound": "memory"}
    assert kept["generic"] == {"sums": row}
    assert kept["chapters"] == {"asr": {"part": "ours"} | row, "odd": {"part": "ours", "error": "KeyError: 'points'"}}
    assert kept["beside"] == QUIET and len(kept["date"]) == 10 and kept["machine"]["versions"]["torch"]
    assert "cuda" not in kept["machine"]["versions"] and "Pretended" not in path.read_text()
    reached = {"copy_bytes_per_s": 1e9, "flops_per_s": {"float32": 1e9, "float64": 5e8}, "launch_s": 1e-6}
    assert kept["calibration"] == reached | {"threads": torch.get_num_threads()}


@pytest.mark.parametrize(("seen", "measured"), [([BUSY], False), ([QUIET, BUSY], True)])
def test_beside_other_work_nothing_is_kept_and_it_is_named(quick, capsys, seen, measured):
    path, told = quick
    told[:] = seen
    assert against.main(["--record"]) == 1 and not path.exists()
    printed = capsys.readouterr().out
    assert "busy: 1.5 cores of other work (make 1.25)" in printed
    assert ("predicted / measured" in printed) is measured  # nobody waits for what is not kept


def test_without_record_the_table_is_printed_beside_other_work_and_nothing_is_kept(quick, capsys):
    path, told = quick
    told[:] = [BUSY]
    assert against.main([]) == 0 and not path.exists()
    printed = capsys.readouterr().out
    assert "2000.000 ms 4000.000 ms                 0.50×  memory" in printed
    assert "odd                               cannot be compared: KeyError: 'points'" in printed


def test_all_chapters_are_recorded_or_none(quick):
    with pytest.raises(SystemExit):
        against.main(["--record", "asr"])


@pytest.mark.parametrize(
    ("found", "doubtful"), [(one(9.0, 4.0, "arithmetic"), True), (one(9.0, 4.0), False), (one(7.0, 4.0), False)]
)
def test_more_arithmetic_than_the_machine_has_time_for_is_doubted(found, doubtful):
    (_, line) = against.table({"one": found})
    assert ("does it count too much?" in line) is doubtful is found.doubtful


def torchs_own(name, args, result):
    """FLOPs as torch counts them: no groups in a weight's gradient, all places of a sparse matrix."""
    formula = torch.utils.flop_counter.flop_registry.get(getattr(torch.ops.aten, name.removeprefix("aten::")))
    return int(formula(*args, out_val=result)) if formula else 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "times"), [("a depthwise convolution's step", 100), ("a sparse product", 100)])
def test_torchs_formulas_would_have_been_seen(monkeypatch, name, times):
    monkeypatch.setattr(against, "FEWEST_ROUNDS", 1)
    monkeypatch.setattr(against, "SECONDS", 0.0)
    card = Card("no memory", INF, {"": 1e9}, INF, INF, "nowhere", "", 0.0, 0.0, 0.0)
    (right,) = against.generic(card, [name]).values()
    monkeypatch.setattr(dispatch, "flops", torchs_own)
    (wrong,) = against.generic(card, [name]).values()
    assert dispatch.flops is not flops.flops and wrong.predicted.seconds > times * right.predicted.seconds > 0


MODULE = """
import torch


def ours(sizes, device):
    x = torch.ones(sizes["n"], sizes["n"], device=device)
    return lambda: x @ x


def naive(sizes, device):
    raise AssertionError("only ours is compared")
"""


def test_a_chapters_own_part_is_counted_and_timed(monkeypatch, tmp_path):
    home = tmp_path / "notebooks" / "part" / "chapter"
    home.mkdir(parents=True)
    (home / "rehearsed_square.py").write_text(MODULE)
    kept = {"source": "notebooks/part/chapter/rehearsed_square.py", "sizes": {"check": {"n": 32}}, "parts": {}}
    (tmp_path / "square.json").write_text(json.dumps(kept))
    (tmp_path / "unsized.json").write_text(json.dumps(kept | {"sizes": {"check": {}}}))
    (tmp_path / "against_the_cpu.json").write_text("{}")
    monkeypatch.setattr(against, "ROOT", tmp_path)
    monkeypatch.setattr(against, "KEPT", tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    found = against.chapters(CARD)
    assert found.keys() == {"square", "unsized"} and found["unsized"] == "KeyError: 'n'"
    square = found["square"]
    assert square.predicted.seconds == pytest.approx(2 * 32**3 / 1e9) and square.rounds == against.MOST_ROUNDS
    assert 0 < square.low <= square.seconds <= square.high


def test_every_workload_can_be_compared(monkeypatch):
    monkeypatch.setattr(against, "SECONDS", 0.0)
    assert all(found.predicted.seconds > 0 for found in against.generic(CARD, share=64).values())


def test_other_work_is_seen_and_named():
    watch = beside.Watch()
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(1)
        told = watch.told()
    finally:
        other.kill()
        other.wait()
    assert beside.is_busy(told) and any("python" in name for name in told["names"])
    assert not beside.is_busy({"cores": 0.2, "names": {}})


def test_own_work_is_no_others_and_what_has_ended_is_named_so(monkeypatch):
    own = os.getpid()
    processes = [{own: ("python", 10.0), 7: ("make", 1.0)}]
    processes += [{own: ("python", 14.0), 7: ("make", 3.0), 8: ("cc", 1.0), 9: ("sh", 0.1)}]
    busy, clock = [100.0, 110.0], [5.0, 15.0]
    monkeypatch.setattr(beside, "_by_process", lambda: processes.pop(0))
    monkeypatch.setattr(beside, "_busy_seconds", lambda: busy.pop(0))
    monkeypatch.setattr(beside, "time", SimpleNamespace(monotonic=lambda: clock.pop(0)))
    told = beside.Watch().told()
    assert told == {"cores": 0.6, "names": {"make": 0.2, "cc": 0.1, beside.Watch.ENDED: 0.3}}
    assert beside.sentence(told) == "busy: 0.6 cores of other work (what has ended since 0.3, make 0.2, cc 0.1)"
