"""`press rehearse`: which cells run and how, what a person is told, and the exit status."""

import pytest

from press import Repository, rehearse
from press.cli import main
from press.files import lock
from press.repository import HOME

CELL = {"cell": 4, "findings": [], "work": [["mm", "float32", 10**9, 0, 2]], "links": [["up", 10**6, False, 1]]}
COUNTS = {"operations": 2, "bytes_moved": 2 * 10**9, "syncs": 1, "peak_bytes": 10**9}
TOLD = {"cells": [CELL], "findings": ["cell 4, line 2: needless transfer"], "counts": COUNTS, "complete": True}


def test_tier_gpu_is_chosen_and_wrong_answers_do_not_run(small):
    chapter = small.repository.chapters[0]
    found = {cell["index"]: cell["source"] for cell in rehearse.cells(chapter)}
    assert [source for source in found.values() if source.endswith('TIER = "gpu"')] == [found[2]]
    assert not any("a wrong answer ran" in source for source in found.values())
    assert all(chapter.cells[index].cell_type == "code" for index in found)


def test_a_person_is_told_finds_sums_and_predictions_as_predictions():
    said = rehearse.lines(TOLD)
    assert said[0] == "found: cell 4, line 2: needless transfer"
    assert "2,000,000,000 bytes moved" in said[1]
    cards = [line for line in said if line.startswith("predicted, not measured")]
    assert len(cards) == 3 and "Tesla T4 at least 0.00633 s, most of it memory" in cards[0]


@pytest.mark.parametrize(
    ("told", "status"),
    [
        (TOLD, 0),
        (TOLD | {"cells": [CELL | {"error": "RuntimeError: two devices", "follows": False}]}, 1),
        (TOLD | {"findings": ["not finished after 9 s"], "complete": False}, 1),
        ({"findings": ["ended with status 1"], "complete": False}, 1),
    ],
)
def test_the_exit_status_says_whether_a_cell_failed(small, monkeypatch, capsys, told, status):
    monkeypatch.setattr(rehearse, "one", lambda *_: told)
    assert rehearse.rehearse(small.repository, None) == status
    assert told["findings"][0] in capsys.readouterr().out


def test_a_process_that_fails_says_why_and_leaves_nothing(small):
    small.write("helpers/device.py", "")  # no tiers there: it ends at once
    told = rehearse.one(small.repository, small.repository.chapters[0], 60)
    assert "cells" not in told and "ended with status 1" in told["findings"][0]
    assert not list((small.repository.build / "running").iterdir())
    assert not (small.repository.build / "receipts").exists()


@pytest.mark.parametrize("option", [[], ["--predict"]])
def test_no_rehearsal_begins_beside_a_run_that_would_clear_its_folder_away(small, capsys, option):
    with lock(small.repository.build / ".press.lock", "press run"):
        assert main(["--root", str(small.root), "rehearse", *option]) == 2
    assert "another press is at work here" in capsys.readouterr().err


def test_a_notebook_of_the_book_begins_on_the_pretended_gpu():
    """Its first searches, few of them; `make rehearse` runs all of it, and the other notebooks."""
    repository = Repository(HOME)
    (chapter,) = repository.select(["signals/rolling_distance"])
    until = next(at for at, cell in enumerate(chapter.cells) if "getattr(rd, name)(queries" in cell.source)
    told = rehearse.one(repository, chapter, 240, until=until, share=5)
    errors = [f"cell {cell['cell']}: {cell['error']}" for cell in told["cells"] if "error" in cell]
    assert told["complete"] and errors == []
    assert told["counts"]["operations"] > 50 and told["counts"]["bytes_up"] > 10**7
