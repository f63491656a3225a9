"""What a piece of a notebook needs from the cells before it."""

import pytest

from press.teach.checkpoints import lacking, made, needed


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
