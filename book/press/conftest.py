"""A small repository to press, made anew in a temporary folder for each test that asks for it."""

import json
import shutil
import time
from pathlib import Path

import nbformat
import pytest
import yaml

from press import Repository, chromium
from press.colab import setup_cell

CONFIG = """\
title: A small book
repository: {url: "https://github.com/example/small", path_to_book: ""}
rebuilt: {kaggle_url: "https://kaggle.com"}
launch_buttons:
  notebook_interface: classic
  colab_url: "https://colab.research.google.com"
  binderhub_url: "https://mybinder.org"
execute: {execute_notebooks: "off"}
only_build_toc_files: true
parse: {myst_enable_extensions: [strikethrough]}
html: {use_repository_button: true}
sphinx:
  recursive_update: true
  extra_extensions: [sphinxcontrib.bibtex]
  config:
    bibtex_bibfiles: [book/references.bib]
    myst_heading_anchors: 3
    nb_render_markdown_format: myst
    suppress_warnings: [myst.domains, myst.strikethrough]
    html_theme_options: {use_source_button: true}
"""

PYPROJECT = """\
[tool.ruff]
line-length = 120
extend-include = ["*.ipynb"]

[tool.ruff.lint.per-file-ignores]
"*.ipynb" = ["E402", "F811"]
"""

TOC = """\
format: jb-book
root: book/welcome
parts:
  # the chapters
  - caption: Signals
    chapters:
      - file: book/part_signals
      - file: notebooks/signals/moving_mean/moving_mean
  - caption: Ledger
    chapters:
      - file: book/claims
      - file: book/status
"""

HELPERS_RECEIPTS = '''\
"""A stand-in for helpers.receipts: writes what it is given."""

import json
import os
import pathlib

FACTS = {
    "schema": 1,
    "date": "2026-01-02T03:04:05Z",
    "code": "0" * 64,
    "machine": {"cpu": "Test CPU", "gpu": None},
    "versions": {},
}


class Receipt:
    """What a run measured."""

    def __init__(self, stem, tier):
        self.stem, self.tier, self.metrics = stem, tier, {}

    def record(self, name, value, unit):
        """Keep a metric."""
        self.metrics[name] = {"value": value, "unit": unit}

    def write(self):
        """The path of the receipt."""
        path = pathlib.Path(os.environ["REBUILT_RECEIPTS"]) / f"{self.stem}.{self.tier}.json"
        own = {"chapter": f"signals/{self.stem}", "notebook": self.stem, "tier": self.tier, "metrics": self.metrics}
        own |= {"threads": int(os.environ.get("OMP_NUM_THREADS", "0"))}
        path.write_text(json.dumps({**FACTS, **own}))
        return path


def start(stem, tier):
    """A new receipt."""
    return Receipt(stem, "cpu" if tier == "auto" else tier)
'''

CARD = {
    "title": "Smooth a stream",
    "short": "Moving mean",
    "question": "What is left of a stream without its noise?",
    "part": "signals",
    "summary": "A moving mean over a stream.",
    "article": {"key": "someone2020", "title": "On means", "authors": ["A. Someone"], "publisher": "P", "year": 2020},
    "objectives": ["smooth a stream"],
    "level": "beginner",
    "prerequisites": ["arrays"],
    "interests": ["time series"],
    "sections": [{"title": "The idea", "minutes": 5}, {"title": "Exercises", "minutes": 10}],
    "needs": {"memory_gb": 0.5, "disk_mb": 1, "gpu": "optional"},
    "data": ["beats"],
    "packages": [],
    "claims": [
        {
            "id": "rate",
            "quote": "more than 2 thousand points per second",
            "value": 2000,
            "unit": "points/s",
            "hardware": "one abacus",
            "runs_on": "any",
            "metric": "mean_rate",
            "better": "higher",
            "kind": "size",
            "slack": 100,
            "tiers": ["cpu"],
            "says": {"because": "An abacus counts as any."},
        }
    ],
    "hero": ["rate"],
    "exercises": [{"id": "median", "kind": "change", "minutes": 10, "title": "Take the median"}],
}

MODULE = '''\
"""A moving mean."""


def moving_mean(stream, width):
    """The means of all windows."""
    return [sum(stream[i : i + width]) / width for i in range(len(stream) - width + 1)]
'''

CHECKER = '''\
def check_median(fn):
    """Raise AssertionError for a wrong median."""
    assert fn([1, 9, 2]) == 2, "the middle value is 2"'''


SOLUTION = """\
def median_of(values):
    return sorted(values)[len(values) // 2]


check_median(median_of)"""

START = """\
from moving_mean import moving_mean

from helpers import data, receipts

folder = data.fetch("beats")
receipt = receipts.start("moving_mean", TIER)"""

MEASURE = """\
receipt.record("mean_rate", 2100.0, "points/s")
means = moving_mean([1, 2, 3, 4], 2)
assert means == [1.5, 2.5, 3.5]
print(means)"""

BIB = """\
@misc{someone2020,
  title = {On means},
  author = {Someone, A.},
  year = {2020},
  url = {https://example.org/means}
}
"""

WELCOME = """\
# Welcome

Read [the chapter](../notebooks/signals/moving_mean/moving_mean.ipynb).
"""


def markdown(source, *cell_tags, **metadata):
    """A Markdown cell with tags."""
    return nbformat.v4.new_markdown_cell(source, metadata={"tags": list(cell_tags), **metadata})


def code(source, *cell_tags, **metadata):
    """A code cell with tags."""
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(cell_tags), **metadata})


def exercise_cells(**marks):
    """The cells of the exercise `median`, complete; `marks` such as `inpage=True` are in their metadata, too."""
    own = {"exercise": {"id": "median", "kind": "change", "minutes": 10, **marks}}
    wrong = {"exercise": {**own["exercise"], "message": "middle"}}
    hint = "<details><summary>Hint</summary>\n\nSort first.\n\n</details>"
    return [
        markdown("### Take the median", "exercise", **own),
        markdown(hint, "hint", **own),
        markdown(hint, "hint", **own),
        code("def median(values):\n    return None", "stub", **own),
        code(CHECKER, "checker", **own),
        code(SOLUTION, "solution", **own),
        code('def wrong(values):\n    return 0\n\n\nraise RuntimeError("a wrong answer ran")', "wrong", **wrong),
        code('def wrong(values):\n    return 1\n\n\nraise RuntimeError("a wrong answer ran")', "wrong", **wrong),
    ]


CHOOSE = """\
How many means have four values of width {}?

- [{}] four
  > A window needs both its values, and the last value begins none.
- [{}] three
  > One less than the values: `n - 1` windows fit.
- [ ] two, since $4 / 2$ is two
  > Windows overlap; each value but the last begins one."""

ORDER = """\
Put the work in order.

1. cut a window
2. add its values
3. divide by the width

> A sum needs its values first."""

PREDICT = """\
How many points a second are smoothed?

> A rate belongs to its machine."""


def act(source, name, kind, **more):
    """A cell that is an act."""
    return markdown(source, "act", act={"id": name, "kind": kind, "minutes": 1, "assesses": [1], **more})


def act_cells():
    """Acts of each kind."""
    return [
        act(CHOOSE.format(2, " ", "x"), "how_many", "choose"),
        act(CHOOSE.format(1, "x", " "), "how_many_of_one", "choose", format="find the bug"),
        act(ORDER, "smooth_in_order", "order"),
        act(PREDICT, "rate", "predict", metric="mean_rate"),
    ]


class Small:
    """A small repository under `root`, with the means to change it."""

    def __init__(self, root: Path):
        self.root = root
        self.home = root / "notebooks" / "signals" / "moving_mean"
        self.notebook_path = self.home / "moving_mean.ipynb"
        self.card = json.loads(json.dumps(CARD))

    @property
    def repository(self) -> Repository:
        """The repository, read anew."""
        return Repository(self.root)

    def write(self, path: str, text: str) -> Path:
        """A file below the root."""
        where = self.root / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(text, encoding="utf-8")
        return where

    def write_card(self, **changes) -> None:
        """The card, with some entries changed."""
        self.card.update(changes)
        text = yaml.safe_dump(self.card, sort_keys=False, allow_unicode=True)
        self.write("notebooks/signals/moving_mean/moving_mean.yml", text)

    def write_notebook(self, cells: list) -> None:
        """The notebook, of these cells."""
        notebook = nbformat.v4.new_notebook(cells=cells)
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        self.home.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, self.notebook_path)

    def cells(self, *extra) -> list:
        """The usual cells, `extra` before the exercise."""
        self.write("notebooks/signals/moving_mean/moving_mean.ipynb", "{}")
        setup = setup_cell.text(self.repository, self.repository.chapters[0])
        return [
            markdown("# Smooth a stream\n\nYou smooth a stream of 421 samples at 360 Hz.", "opening"),
            code(setup, "setup"),
            code('TIER = "auto"', "parameters"),
            markdown("## The idea\n\nThe data, then the mean."),
            code(START),
            code(MEASURE, "slide"),
            markdown("### Means\n\n- smooth", "talk"),
            markdown("Ask what a mean hides.", "instructor"),
            *act_cells(),
            *extra,
            markdown("## Exercises"),
            *exercise_cells(),
            code("receipt.write()"),
        ]


def comes(found, wanted=True, seconds=15.0):
    """What `found()` gives as soon as it is `wanted`, else after so many seconds: a page changes a moment later."""
    until = time.monotonic() + seconds
    while (now := found()) != wanted and time.monotonic() < until:
        time.sleep(0.05)
    return now


@pytest.fixture(scope="module")
def browser():
    """The one browser of a module: a session's would leave its event loop running under later tests."""
    if not chromium.find():
        pytest.skip(chromium.WANTED)
    with chromium.browser() as made:
        yield made


@pytest.fixture(autouse=True, scope="session")
def no_cache_of_the_user(tmp_path_factory):
    """The session's own cache, so that no test reads or fills the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REBUILT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def first_small(tmp_path_factory):
    """The folder of the small repository that all others are copies of."""
    return make(tmp_path_factory.mktemp("first") / "small").root


@pytest.fixture
def small(tmp_path, first_small, monkeypatch):
    """A small repository that passes every gate and whose notebook runs; its cache is its own."""
    monkeypatch.setenv("REBUILT_CACHE", str(tmp_path / "cache"))
    shutil.copytree(first_small, tmp_path / "small")
    return Small(tmp_path / "small")


def make(root: Path) -> Small:
    """The small repository, written below `root`."""
    made = Small(root)
    made.write("_config.yml", CONFIG)
    made.write("_toc.yml", TOC)
    made.write("requirements.txt", "PyYAML\n")
    made.write("pyproject.toml", PYPROJECT)
    made.write("book/welcome.md", WELCOME)
    made.write("book/part_signals.md", "# Signals\n\n<!-- press:gallery-signals -->\n")
    made.write("book/claims.md", "# Claims\n\n<!-- press:claims -->\n")
    made.write("book/status.md", "# Status\n\n<!-- press:status -->\n")
    made.write("book/references.bib", BIB)
    made.write("helpers/__init__.py", '"""Helpers of the small book."""\n\n__version__ = "9.9.9"\n')
    made.write("helpers/receipts.py", HELPERS_RECEIPTS)
    made.write("helpers/data.py", '"""Data."""\n\n\ndef fetch(name):\n    """The name."""\n    return name\n')
    columns = "dataset\tfile\turl\tsha256\tbytes\tlicence\tcitation\tused_for\n"
    row = "\t".join(["beats", "a/b.bin", "https://example.org/b.bin", "a" * 64, "12", "CC0", "Someone 2020", "beats"])
    made.write("data/registry.tsv", columns + row + "\n")
    made.write("data/README.md", "# Data\n\n## `beats`\n\nBeats of a heart.\n\n| Licence | CC0. |\n")
    made.write("notebooks/signals/moving_mean/moving_mean.py", MODULE)
    made.write("notebooks/signals/moving_mean/README.md", "# A moving mean\n\n`moving_mean.py` has it all.\n")
    made.write_card()
    made.write_notebook(made.cells())
    return made


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    """The test's own cache, so that it takes no run from another test."""
    monkeypatch.setenv("REBUILT_CACHE", str(tmp_path / "cache"))
