"""The workflows, as far as they can be judged without GitHub: pinned, limited, in an order that can pass."""

import os
import re
import shlex

import pytest
import yaml

from press.cli import parser
from press.repository import HOME, Repository
from press.teach.workshop.schedule import plan

FILES = sorted((HOME / ".github/workflows").glob("*.yml"))
JOBS = [(path, name, job) for path in FILES for name, job in yaml.safe_load(path.read_text())["jobs"].items()]
MAY = {"contents": {"read"}, "pages": {"write"}, "id-token": {"write"}, "issues": {"write"}}
each_job = pytest.mark.parametrize(("path", "name", "job"), JOBS, ids=[f"{path.stem}-{name}" for path, name, _ in JOBS])


def commands(job):
    """The lines that the job's steps run, in order."""
    return [line.strip() for step in job["steps"] for line in step.get("run", "").splitlines()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_action_is_pinned_by_commit_and_says_its_version(path):
    used = re.findall(r"^.*\buses:.*$", path.read_text(encoding="utf-8"), re.MULTILINE)
    pinned = re.compile(r"\s*(- )?uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert used and [line for line in used if not pinned.fullmatch(line)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_workflow_may_read_and_no_more(path):
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


@each_job
def test_a_job_has_a_limit_and_only_the_rights_it_needs(path, name, job):
    assert 0 < job["timeout-minutes"] <= 180
    given = job.get("permissions", {})
    assert all(value in MAY[right] for right, value in given.items())
    steps = str(job["steps"])
    assert ("issues" not in given or "gh issue" in steps) and ("pages" not in given or "deploy-pages" in steps)


@each_job
def test_the_book_is_built_before_the_tests_that_read_it(path, name, job):
    lines = commands(job)
    tests = [number for number, line in enumerate(lines) if line.startswith("make test")]
    built = [number for number, line in enumerate(lines) if line.startswith("make book") or "press build" in line]
    assert not tests or (built and min(built) < min(tests))
    if tests:
        kept = [step for step in job["steps"] if step.get("if") == "failure()"]
        assert kept and "_build/failed" in kept[0]["with"]["path"], "a failed notebook can be looked at"


@each_job
def test_what_runs_notebooks_or_tests_installs_their_programs_first(path, name, job):
    lines = commands(job)
    runs = [
        number
        for number, line in enumerate(lines)
        if re.match(r"make (book|test|workshop)|.*press (build|prove)", line)
    ]
    assert not runs or ".ci/programs" in lines[: runs[0]]


def test_the_gates_come_after_the_runs_whose_seconds_they_hold():
    (lines,) = [commands(job) for path, name, job in JOBS if (path.name, name) == ("book.yml", "book")]
    assert lines.index("make check") > max(
        number for number, line in enumerate(lines) if line.startswith(("make book", "make test"))
    )


def test_the_programs_are_installed_by_the_one_script():
    run = (HOME / ".ci/run").read_text()
    assert "\n.ci/programs\n" in run and "apt-get" not in run + "".join(path.read_text() for path in FILES)
    assert os.access(HOME / ".ci/programs", os.X_OK) and os.access(HOME / ".ci/weekly", os.X_OK)


def test_peers_and_gates_come_after_the_tests_here_as_in_the_workflow():
    (lines,) = [commands(job) for path, name, job in JOBS if (path.name, name) == ("book.yml", "book")]
    for text in (" ".join(lines), (HOME / ".ci/run").read_text()):
        assert 0 < text.index("make test") < text.index(".ci/peers --few") < text.index("make check")
    assert "REBUILT_CALIBRATED=1 REBUILT_BUDGETS=told make check" in (HOME / ".ci/run").read_text()


def test_style_is_held_wherever_the_gates_are():
    (recipe,) = re.findall(r"^check:.*\n((?:\t.*\n)+)", (HOME / "Makefile").read_text(), re.MULTILINE)
    assert "ruff check . && $(VENV)/bin/ruff format --check ." in recipe and "if $(CHAPTERS),:" not in recipe


@each_job
def test_every_command_is_one_that_the_book_has(path, name, job):
    targets = set(re.findall(r"^([a-z]+):", (HOME / "Makefile").read_text(), re.MULTILINE))
    known = parser()._subparsers._group_actions[0].choices
    for line in commands(job):
        asked = re.findall(r"(?:^|&& )make (?:\w+=\S+ )*([a-z]+)", line)
        assert set(asked) <= targets, line
        assert set(re.findall(r"book/press ([a-z]+)", line)) <= set(known), line


def test_each_week_nothing_comes_from_the_cache_of_runs():
    jobs = {name: job for path, name, job in JOBS if path.name == "weekly.yml"}
    week = (HOME / ".ci/weekly").read_text()
    assert ".ci/weekly" in commands(jobs["everything"]) and "build --force" in week and "make test" in week
    assert ".ci/peers\n" in week.replace(" ||", "\n").replace(" \n", "\n") and "actions/cache" not in str(jobs)
    assert set(jobs["report"]["needs"]) == set(jobs) - {"report"}


def test_the_weekly_workshop_s_minutes_are_enough():
    (line,) = [line for _, _, job in JOBS for line in commands(job) if "make workshop" in line]
    given = dict(word.split("=", 1) for word in shlex.split(line) if "=" in word)
    made = plan(Repository(HOME).select(given["CHAPTERS"].split()), int(given["MINUTES"]))
    assert sum(block.minutes for block in made.blocks) <= int(given["MINUTES"])


def test_a_site_is_published_from_a_tag_that_is_the_version():
    jobs = {name: job for path, name, job in JOBS if path.name == "book.yml"}
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'" and jobs["publish"]["needs"] == "book"
    first = [step for step in jobs["book"]["steps"] if step.get("if") == "github.ref_type == 'tag'"][0]
    assert "__version__" in first["run"] and "GITHUB_REF_NAME#v" in first["run"]


def test_a_site_is_published_only_beside_the_branch_that_its_buttons_open():
    (steps,) = [job["steps"] for path, name, job in JOBS if (path.name, name) == ("book.yml", "book")]
    lines = [step.get("run", "") for step in steps if step.get("if") == "github.ref_type == 'tag'"]
    name = Repository(HOME).branch.removesuffix(Repository(HOME).release)
    assert any("ls-remote --exit-code" in line and f"refs/heads/{name}$GITHUB_REF_NAME" in line for line in lines)
    release = (HOME / "CONTRIBUTING.md").read_text().partition("## Make a release")[2]
    (tag,) = re.findall(r"git tag (v[\d.]+)`", release)
    assert "press branch" in release and f"git push --atomic origin main {tag} {name}{tag}`" in release
