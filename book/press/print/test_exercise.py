"""Exercises in the page: the same words in CPython and in a browser, from a folder and without a network."""

import base64
import gzip
import html
import json
import re
import subprocess
import sys

import nbformat
import pytest

from press import PressError, chromium, npm
from press.conftest import code, exercise_cells
from press.gates import load
from press.print import exercise
from press.print.attempt import tried
from press.print.test_live import tarball
from press.repository import HOME, Repository
from press.teach.variants import defined

VERSION = npm.pinned()["pyodide"]["version"]
REAL = HOME / f"_build/data/pyodide/pyodide-{VERSION}.tgz"
BOOK = Repository(HOME)
TRIALS = {("rolling_distance", "score_matches"), ("distributed_embeddings", "step_bytes")}
TRIALS |= {(chapter.stem, name) for chapter in BOOK.chapters for name in exercise.inpage(chapter.cells)}
ROLES = ("checker", "stub", "solution", "wrong")
CHECKER = """\
def check_mean(fn):
    check.attempt(fn, [(([1.0, 3.0],), 2.0, "add them"), (([0.1, 0.2],), 0.15)], rtol=1e-12, why="one division")"""
STUB = "def mean(values): ...  # your turn"
RIGHT = "def mean(values):\n    return sum(values) / len(values)"
ANSWERS = {  # what else learners write
    "max": "def mean(values):\n    return max(values)",
    "list": "def mean(values):\n    return [sum(values) / len(values)]",
    "text": "def mean(values):\n    return '2.0'",
    "error": "def mean(values):\n    total = 0\n    return total / 0",
    "no return": "def mean(values):\n    sum(values) / len(values)",
    "set": "def mean(values):\n    return {1}",
    "nan": "def mean(values):\n    return float('nan')",
    "complex": "def mean(values):\n    return 2j",
    "bool": "def mean(values):\n    return True",
    "recursion": "def mean(values):\n    return mean(values)",
    "nothing": "",
    "no code": "def mean(values:\n",
    "stops": "import sys\n\nsys.exit(3)",
    "first line": "\nmean = 1 / 0",
    "package": "import no_such_package",
    "prints": "def mean(values):\n    print('seen', values)\n    return 1",
    "prints much": "print('x' * 100_000)\n" + RIGHT,
    "right": RIGHT,
}
CALL = "check_mean(mean)"


def cells(stem, name):
    """The cells of a chapter's exercise, marked as one in the page."""
    chapter = next(chapter for chapter in BOOK.chapters if chapter.stem == stem)
    found = [cell for cell in chapter.cells if cell.metadata.get("exercise", {}).get("id") == name]
    return [
        nbformat.from_dict({**cell, "metadata": {**cell.metadata, "exercise": {"id": name, "inpage": True}}})
        for cell in found
    ]


IN_A_NOTEBOOK = """
import json, sys

sys.modules["numpy"] = None
from helpers import check


def said(sources):
    names = {"__name__": "__main__", "check": check}
    try:
        for one in sources:
            exec(one, names)
    except AssertionError as problem:
        return str(problem)


print("\\n" + json.dumps([said(sources) for sources in json.load(sys.stdin)]))
"""


def by_python(*attempts):
    """What a notebook tells of each (checker, answer, call): the words of the error that stops it, None where there is
    none; without NumPy. One process has names of its own for each."""
    how = {"input": json.dumps(attempts), "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", IN_A_NOTEBOOK], cwd=HOME, check=True, **how)
    return json.loads(done.stdout.splitlines()[-1])


def test_an_answer_is_told_the_checker_s_words_and_what_it_printed():
    found = json.loads(tried(ANSWERS["prints"], CHECKER, CALL))
    assert found == {
        "right": False,
        "said": by_python((CHECKER, ANSWERS["prints"], CALL))[0],
        "printed": "seen [1.0, 3.0]\n",
    }
    assert json.loads(tried(RIGHT, CHECKER, CALL)) == {
        "right": True, "said": "", "printed": "mean: right in all 2 cases.\n"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("no code", "Python cannot read line 1: '(' was never closed"),
        ("stops", "Your code stopped with SystemExit in line 3: 3"),
        ("first line", "Your code stopped with ZeroDivisionError in line 2: division by zero"),
        ("nothing", "Nothing is named mean: keep the name of the task"),
        ("package", "There is no no_such_package in this page, only Python's own library: write it in plain Python."),
    ],
)
def test_what_no_checker_sees_is_told_in_words(answer, said):
    assert json.loads(tried(ANSWERS[answer], CHECKER, CALL))["said"] == said


@pytest.mark.parametrize("code", ["import no_numpy.fft\n" + RIGHT, RIGHT.replace("\n", "\n    import no_numpy\n")])
def test_who_imports_what_a_page_lacks_is_told_that_only_python_s_own_library_is_there(code):
    said = json.loads(tried(code, CHECKER, CALL))["said"]
    assert said == "There is no no_numpy in this page, only Python's own library: write it in plain Python."


def test_long_prints_are_cut():
    assert json.loads(tried(ANSWERS["prints much"], CHECKER, CALL))["printed"].endswith("letters more")


# The packs and the gate ---------------------------------------------------------------------------------------------


@pytest.fixture
def pinned(tmp_path, monkeypatch):
    """A stand-in for Pyodide, pinned and in a mirror."""
    content = tarball({f"package/{name}": f"the text of {name}".encode() for name in exercise.FILES})
    (tmp_path / "mirror/pyodide").mkdir(parents=True)
    (tmp_path / "mirror/pyodide/pyodide-9.9.9.tgz").write_bytes(content)
    monkeypatch.setenv("REBUILT_DATA_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setattr(npm, "RUNTIMES", tmp_path / "runtimes.tsv")
    row = ["pyodide", "9.9.9", exercise.live.sha256(content), "MPL-2.0", "Someone", "tests"]
    npm.RUNTIMES.write_text("\t".join(npm.COLUMNS) + "\n" + "\t".join(row) + "\n")


def published(own, repository, folder):
    """What the page tells the script, once the exercise of these cells is published."""
    notebook = nbformat.v4.new_notebook(cells=own)
    exercise.publish(notebook, repository, folder)
    shown = next(cell for cell in own if "stub" in cell.metadata.tags).outputs[0].data["text/html"]
    return json.loads(html.unescape(re.search('data-exercise="([^"]*)"', shown)[1])), shown


def test_a_marked_exercise_is_published_with_packs_and_licence(small, pinned, tmp_path):
    small.write("helpers/check.py", "the checks")
    own = exercise_cells(inpage=True)
    told, shown = published(own, small.repository, tmp_path)
    assert (told["call"], told["title"]) == ("check_median(median)", "Take the median")
    packed = (tmp_path / "_live/pyodide-9.9.9.js").read_text()
    assert "Mozilla Public License 2.0" in packed and "tree/9.9.9" in packed
    files = json.loads(re.search(r"\{.*\}", (tmp_path / "_live/checking.js").read_text())[0])
    assert gzip.decompress(base64.b64decode(files["helpers/check.py"])) == b"the checks"
    assert shown.count("<script") == 1, "one request more"


def test_an_exercise_without_the_mark_stays_as_it_is(small, tmp_path):
    exercise.publish(nbformat.v4.new_notebook(cells=exercise_cells()), small.repository, tmp_path)
    assert not list(tmp_path.glob("_live/*"))


def test_a_missing_runtime_is_named(small, pinned, tmp_path, monkeypatch):
    small.write("helpers/check.py", "the checks")
    monkeypatch.setattr(exercise, "FILES", ("other.js",))
    with pytest.raises(PressError, match=r"has no other.js"):
        published(exercise_cells(inpage=True), small.repository, tmp_path)


@pytest.mark.parametrize(
    ("tag", "source", "said"),
    [
        ("checker", "def check_median(fn):\n    check.attempt(fn, [(([1],), np.ones(1))])", "np"),
        ("solution", "import numpy\n\n\ndef median_of(values):\n    return 1\n\n\ncheck_median(median_of)", "numpy"),
        ("wrong", "def wrong(values):\n    return moving_mean(values, 1)", "moving_mean"),
        ("stub", "import math\nfrom helpers import show\n\n\ndef median(values): ...", "helpers"),
    ],
)
def test_an_exercise_in_the_page_that_needs_more_is_refused(small, tag, source, said):
    own = exercise_cells(inpage=True)
    small.write_notebook([*small.cells()[:-9], *own])
    assert "runs in the page" not in "\n".join(map(str, load()["card"].problems(small.repository)))
    next(cell for cell in own if tag in cell.metadata.tags).source = source
    small.write_notebook([*small.cells()[:-9], *own])
    assert f"runs in the page, which has no {said}" in "\n".join(map(str, load()["card"].problems(small.repository)))


# In a browser -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a page of all trials, and one of the mean."""
    if not chromium.find():
        pytest.skip(chromium.WANTED)
    if not REAL.is_file():
        pytest.skip("Pyodide is not here: make book downloads it")
    made = tmp_path_factory.mktemp("exercise")
    write(made, "trials", {f"{stem}-{name}": cells(stem, name) for stem, name in sorted(TRIALS)})
    about = {"exercise": {"id": "mean", "inpage": True}}
    own = [nbformat.v4.new_markdown_cell("### Take the mean", metadata={"tags": ["exercise"], **about})]
    write(made, "mean", {"mean": [*own, code(CHECKER, "checker", **about), code(STUB, "stub", **about)]})
    return made


def write(made, name, exercises):
    """A page of exercises, each in a section of its name."""
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>t</title><body><main><h1>{name}</h1>'
    for section, own in exercises.items():
        told, shown = published(own, BOOK, made)
        page += f'<section id="{section}"><div class="cell"><div class="cell_input"><pre>{html.escape(told["stub"])}'
        page += f'</pre></div><div class="cell_output">{shown}</div></div></section>'
    path = made / "notebooks/a/b" / f"{name}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page + "</main>")


def visit(folder, browser, name, first=None, **options):
    """A page opened as a file, without a network, and the names of what it asks for; the script `first` runs first."""
    window = browser.new_context(offline=True, **options)
    if first:
        window.add_init_script(first)
    page, asked = window.new_page(), []
    page.on("request", lambda request: asked.append(re.split(r"[/?]", request.url.partition("?")[0])[-1]))
    page.goto((folder / "notebooks/a/b" / f"{name}.html").as_uri())
    return page, asked


@pytest.fixture
def opened(folder, browser):
    """A function that opens a page in a window of its own, as `visit` does; they close after the test."""
    pages = []

    def one(name, **options):
        pages.append(visit(folder, browser, name, **options))
        return pages[-1]

    yield one
    for page, _ in pages:
        page.context.close()


DONE = ", ".join(f".rebuilt-exercise[data-state={state}]" for state in ("right", "wrong", "failed"))


def told(page, answer):
    """What a page, or the section of one exercise, says to an answer: its words, and what was printed."""
    page.get_by_role("textbox").fill(answer)
    page.get_by_role("button", name="Check").click()
    page.locator(DONE).wait_for(timeout=60_000)
    return page.get_by_role("status").inner_text(), page.locator(".rebuilt-exercise pre").text_content()


# Python takes seconds to start: the exercises of a page share the worker of the first, to the others it is up at once.
SHARED = """(() => {
  const Real = Worker;
  let first = null;
  window.Worker = function (address) {
    if (first) {
      first.postMessage = () => {
        delete first.postMessage;
        queueMicrotask(() => first.onmessage({ data: { up: true } }));
      };
      return first;
    }
    const made = first = new Real(address);
    made.terminate = () => { first = null; Real.prototype.terminate.call(made); };
    return made;
  };
})()"""


@pytest.fixture(scope="module")
def trials(folder, browser):
    """The page of all trials, with what it asked for."""
    page, asked = visit(folder, browser, "trials", SHARED)
    assert set(asked) == {"trials.html", "exercise.js"}, "nothing is loaded before the first check"
    yield page, asked
    page.context.close()


def sources(stem, name):
    """The checker, its call, the stub, the solution and the wrong answers of an exercise."""
    found = {role: [one.source for one in cells(stem, name) if role in one.metadata.tags] for role in ROLES}
    (checker,), (stub,), (solution,) = (found[role] for role in ROLES[:3])
    return checker, f"{defined(checker)}({defined(stub)})", stub, solution, found["wrong"]


@pytest.fixture(scope="module")
def in_notebooks():
    """What a notebook tells of each answer of all trials that is not right, by its checker and itself."""
    every = [sources(*one) for one in sorted(TRIALS)]
    found = [(checker, answer, call) for checker, call, stub, _, wrong in every for answer in (stub, *wrong)]
    return dict(zip([one[:2] for one in found], by_python(*found), strict=True))


@pytest.mark.parametrize(("stem", "name"), sorted(TRIALS))
def test_stub_solution_and_wrong_answers_are_told_the_same_in_cpython_and_in_a_browser(
    trials, in_notebooks, stem, name
):
    (page, asked), (checker, _, stub, solution, wrong) = trials, sources(stem, name)
    own = page.locator(f"section#{stem}-{name}")
    assert own.get_by_role("textbox").input_value() == stub
    for answer in (stub, *wrong):
        said = in_notebooks[checker, answer]
        assert said and told(own, answer)[0] == f"✗ Not yet. {said}"
    said, printed = told(own, solution)
    assert said == "✓ Right." and "right in all" in printed
    assert f"pyodide-{VERSION}.js" in asked and "checking.js" in asked


def test_whatever_a_learner_writes_is_told_the_same(opened):
    page, asked = opened("mean")
    assert set(asked) == {"mean.html", "exercise.js"}, "nothing is loaded before the first check"
    for answer in ANSWERS.values():
        found = json.loads(tried(answer, CHECKER, CALL))
        said = "✓ Right." if found["right"] else f"✗ Not yet. {found['said']}"
        assert told(page, answer) == (said, found["printed"])


def test_an_endless_loop_is_stopped_and_told_and_the_next_answer_runs(opened):
    page, _ = opened("mean")
    page.clock.install()
    page.get_by_role("textbox").fill("def mean(values):\n    while True:\n        pass")
    page.get_by_role("button", name="Check").click()
    page.locator("[data-state=running]").wait_for(timeout=60_000)
    page.clock.fast_forward(10_000)
    page.locator(DONE).wait_for(timeout=5_000)
    said = page.get_by_role("status").inner_text()
    assert said == "✗ Not yet. Your code was stopped after 10 seconds. Does one of its loops never end?"
    assert told(page, RIGHT)[0] == "✓ Right."


def test_an_attempt_is_kept_and_reset_brings_the_stub_back(opened):
    page, _ = opened("mean")
    page.get_by_role("textbox").fill(RIGHT)
    page.reload()
    assert page.get_by_role("textbox").input_value() == RIGHT
    page.get_by_role("button", name="Reset").click()
    assert page.get_by_role("textbox").input_value() == STUB
    page.get_by_role("textbox").press("Control+z")
    assert page.get_by_role("textbox").input_value() == RIGHT


def test_tab_traps_nobody_and_lines_keep_their_indent(opened):
    page, _ = opened("mean")
    area = page.get_by_role("textbox", name="Your answer: Take the mean")
    focused = "document.activeElement.textContent || document.activeElement.tagName"
    area.focus()
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "Check"
    area.fill("")
    area.press_sequentially("if 1:")
    area.press("Enter")
    area.press_sequentially("a")
    area.press("Enter")
    area.press_sequentially("b")
    area.press("Tab")
    assert area.input_value() == "if 1:\n    a\n    b    "
    area.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "Check"


def test_without_scripts_the_stub_stands(opened):
    page, asked = opened("mean", java_script_enabled=False)
    assert page.get_by_text(STUB).is_visible() and page.locator("textarea").count() == 0


def test_a_browser_that_lacks_something_says_so(opened):
    page, asked = opened("mean")
    page.evaluate("delete window.DecompressionStream")
    assert told(page, RIGHT)[0] == "This cannot run here: this browser has no DecompressionStream."
    assert "checking.js" not in asked
