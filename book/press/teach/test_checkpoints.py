"""What a piece of a notebook needs from the cells before it."""

import inspect
import sys

import pytest

from press.conftest import PREDICT, act, code, markdown
from press.teach.checkpoints import lacking, made, module, needed


def wanted(cells, uses):
    """The names that a section lacks and that its checkpoint has to make."""
    return lacking(uses) & set().union(*(made(cell, surely=True) for cell in cells))


def test_only_the_cells_that_are_needed_are_kept():
    cells = ["import math", "a = 1", "b = math.pi + a", "c = 2", "def f(c):\n    return c + b"]
    assert needed(cells, ["f(3)"]) == [cells[0], cells[1], cells[2], cells[4]]
    assert needed(cells, ["def g(a, b):\n    return a + b"]) == []
    assert needed(cells, ["[c for c in (1, 2)]"]) == []


@pytest.mark.parametrize(
    ("uses", "kept"),
    [
        (["x = 1", "print(x)"], []),  # bound before it is read
        (["print(x)", "x = 1"], ["x = 0"]),
        (["x += 1"], ["x = 0"]),
        (["for x in range(3):\n    print(x)"], []),
        (["for i in range(3):\n    x = i\n    print(x)"], []),
        (["for i in range(3):\n    print(x)\n    x = i"], ["x = 0"]),
        (["if True:\n    x = 1", "print(x)"], ["x = 0"]),  # perhaps not bound
        (["with open('f') as x:\n    x.read()"], []),
        (["try:\n    x = 1\nexcept OSError:\n    pass", "print(x)"], ["x = 0"]),
        (["while x:\n    pass"], ["x = 0"]),
        (["x = 1", "def f():\n    return x", "f()"], []),
        (["def f():\n    return x"], ["x = 0"]),  # a function may be called
        (["def f(x):\n    return x"], []),
        (["import x", "x.y()"], []),
        (["x, y = 1, 2", "print(x)"], []),
        (["[x for x in y]"], []),
        (["async with y as x:\n    await x.z()"], []),
        (["await x"], ["x = 0"]),
    ],
)
def test_a_name_is_wanted_where_it_is_read_before_it_is_bound(uses, kept):
    assert needed(["x = 0"], uses) == kept
    assert wanted(["x = 0"], uses) == ({"x"} if kept else set())


def test_a_cell_that_changes_a_wanted_name_is_needed_with_the_one_that_makes_it():
    cells = ["x = [0, 0]", "x[0] = 1", "y = 3", "x.shape = y"]
    assert needed(cells, ["print(x)"]) == cells
    assert needed(cells[:2] + ["x = 5"], ["print(x)"]) == ["x = 5"]


def test_what_a_function_reads_may_be_made_after_it():
    cells = ["def f():\n    return limit", "limit = 3", "g = lambda: other", "other = 4"]
    assert needed(cells, ["f()"]) == cells[:2]
    assert needed(cells, ["g()"]) == cells[2:]


def test_what_only_a_branch_makes_is_needed_but_not_demanded():
    cells = ["a = 1", "if a > 2:\n    b = 1"]
    assert needed(cells, ["if a > 2:\n    print(b)"]) == cells
    assert wanted(cells, ["if a > 2:\n    print(b)"]) == {"a"}


def test_builtins_are_not_wanted():
    assert wanted(["a = 1"], ["print(len([a]))"]) == {"a"}


@pytest.fixture
def late(small, tmp_path, monkeypatch):
    """A function from the cells before a section, and those in it, to the namespace that its checkpoint fills."""
    monkeypatch.syspath_prepend(tmp_path / "late")

    def filled(before, own, **there):
        parts = [markdown("## Begin"), *map(code, before), markdown('## Go "on"'), *map(code, own)]
        small.write_notebook([*small.cells()[:3], *parts])
        text, calls = module(small.repository.chapters[0])
        small.write("../late/start_here_moving_mean.py", text)
        sys.modules.pop("start_here_moving_mean", None)
        exec(compile(calls['Go "on"'], "cell", "exec"), there)
        return there

    return filled


def test_the_module_makes_what_a_section_needs_in_the_notebook_that_calls_it(late):
    found = late(
        ["a = 2", "unused = 1 / 0", 'text = """over\n    lines\\n"""', "def double():\n    return a * 2"],
        ["double(), text"],
    )
    assert found["double"]() == 4 and found["text"] == "over\n    lines\n" and "unused" not in found


def test_where_a_guess_stands_beside_its_measurement_the_receipt_is_made(small):
    guess = act(PREDICT, "rate", "predict", metric="mean_rate")
    own = [
        markdown("## Begin"),
        code("receipt = {}"),
        markdown("## Guess"),
        guess,
        markdown("## Recap"),
        markdown("## End"),
    ]
    small.write_notebook([*small.cells()[:3], *own])
    assert list(module(small.repository.chapters[0])[1]) == ["Guess", "Recap"]


def test_what_is_there_already_is_left_alone(late):
    assert late(["a = 2"], ["print(a)"], a=5)["a"] == 5


def test_a_function_from_a_checkpoint_shows_its_source_and_its_line(late):
    found = late(["a = 2", "def broken():\n    return a / 0"], ["broken()"])
    assert inspect.getsource(found["broken"]) == "def broken():\n    return a / 0\n"


def test_a_cell_that_waits_is_awaited(small):
    cells = [
        markdown("## Begin"),
        code("import asyncio"),
        code("a = await asyncio.sleep(0, 3)"),
        markdown("## On"),
        code("a"),
    ]
    small.write_notebook([*small.cells()[:3], *cells])
    text, calls = module(small.repository.chapters[0])
    assert "async def start" in text and calls["On"].endswith("await start('On')")
