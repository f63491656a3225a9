"""What the repository says of itself to people: how to cite it, versions, forms, and what only people can fill in."""

import re
import subprocess

import pytest
import yaml

from press.repository import HOME, Repository

BOOK = Repository(HOME)
CITED = yaml.safe_load((HOME / "CITATION.cff").read_text(encoding="utf-8"))
FORMS = sorted((HOME / ".github/ISSUE_TEMPLATE").glob("*.yml"))
BLANK = re.compile(r"\[blank: ([\w ]+)\]")


def text(name):
    """The text of a file at the repository's top."""
    return (HOME / name).read_text(encoding="utf-8")


def git(*arguments):
    """What git says of this repository, a line each."""
    done = subprocess.run(["git", *arguments], cwd=HOME, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def test_code_and_text_are_cited_under_the_licences_that_license_gives_them():
    whole = text("LICENSE")
    assert "Code (every .py file" in whole and "BSD 3-Clause, below" in whole and CITED["license"] == "BSD-3-Clause"
    own = CITED["preferred-citation"]
    assert "Text (Markdown pages" in whole and "(CC BY 4.0)" in whole and own["license"] == "CC-BY-4.0"
    assert (CITED["type"], own["type"]) == ("software", "book"), "a list of two would mean: either, for both"


def test_the_cited_edition_is_the_version():
    assert CITED["preferred-citation"]["edition"] == f"v{CITED['version']}" == BOOK.release


def test_a_release_has_its_date_and_no_date_is_made_up():
    days = git("log", "-1", "--format=%cs", f"refs/tags/{BOOK.release}")
    if days:
        assert str(CITED.get("date-released")) == days[0]
    else:
        assert "date-released" not in CITED and "# date-released: no release was made yet" in text("CITATION.cff")
        assert f"## {BOOK.version}, not released yet" in text("CHANGELOG.md")


def test_the_newest_version_of_the_changelog_is_the_book_s():
    assert re.findall(r"^## ([\d.]+)", text("CHANGELOG.md"), re.MULTILINE)[0] == BOOK.version


def test_no_person_is_made_up():
    people = [*CITED["authors"], *CITED["preferred-citation"]["authors"]]
    assert BLANK.findall(text("CITATION.cff"))[:2] == ["authors", "ORCID"] or all(
        "family-names" in one for one in people
    )


def blanks():
    """What is marked as blank, and in which files, the list itself left out."""
    names = git("ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.cff", "*.yml", "LICENSE")
    found = {}
    for name in set(names) - {"CONTRIBUTING.md"}:
        for blank in BLANK.findall(text(name)) if (HOME / name).is_file() else ():
            found.setdefault(blank, set()).add(name)
    return found


def test_every_blank_is_on_the_list_with_its_place_and_nothing_else_is():
    (listed,) = re.findall(r"^## What only people can supply\n(.*?)(?=^## )", text("CONTRIBUTING.md"), re.M | re.S)
    rows = dict(re.findall(r"^- \*\*([\w ]+)\*\*:(.*?)(?=^- |\Z)", listed, re.M | re.S))
    found = blanks()
    assert set(rows) == set(found)
    assert {name: [one for one in files if f"`{one}`" not in rows[name]] for name, files in found.items()} == {
        name: [] for name in found
    }


@pytest.mark.parametrize("name", ["README.md", "book/taught.md"])
def test_the_list_is_linked(name):
    assert "CONTRIBUTING.md#what-only-people-can-supply" in text(name)


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_github_asks_of_one(form):
    made = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(made)
    fields = [one for one in made["body"] if one["type"] != "markdown"]
    assert len({one["id"] for one in fields}) == len(fields) and all(one["attributes"]["label"] for one in fields)
    assert {one["type"] for one in made["body"]} <= {"markdown", "input", "textarea", "dropdown", "checkboxes"}
    options = [one["attributes"]["options"] for one in fields if one["type"] in ("dropdown", "checkboxes")]
    assert all(options) and any(one.get("validations", {}).get("required") for one in fields)


def test_who_taught_is_asked_for_minutes_real_answers_and_questions_before_and_after():
    (form,) = [path for path in FORMS if path.stem == "taught"]
    named = {one.get("id") for one in yaml.safe_load(form.read_text(encoding="utf-8"))["body"]}
    assert {"minutes", "answers", "before", "after"} <= named


def test_taught_so_far_is_empty_and_says_so_until_somebody_taught():
    page = text("book/taught.md")
    rows = re.findall(r"^\|(?! *when|-)(.*)\|$", page, re.MULTILINE)
    told = [row for row in rows if row.replace("|", "").strip()]
    assert bool(told) != ("The table below is empty" in page) and "book/taught" in BOOK.toc_files
    assert "issues/new?template=taught.yml" in page


def test_the_code_of_conduct_says_whom_to_write_to_or_that_nobody_is_named_yet():
    assert re.search(r"write to (\[blank: contact\]|<?\S+@\S+)", text("CODE_OF_CONDUCT.md"))
