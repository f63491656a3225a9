"""Hints and solutions of a page that go to the end of the printed book."""

from bs4 import BeautifulSoup

from press.print import answers

PAGE = """<section><h2>Exercises</h2><section><h3>Take the median</h3><p>task</p>
<details><summary>Hint 1</summary>sort</details><details><summary>Setup</summary>kept</details>
<div class="cell tag_stub">stub</div><div class="cell tag_solution">sorted(values)</div></section></section>"""


def test_hints_and_solutions_leave_their_exercise_and_a_link_leads_to_them():
    article = BeautifulSoup(PAGE, "html.parser")
    end = answers.moved(article, "A & B", "a")
    assert "sort" not in article.get_text() and "kept" in article.get_text() and "stub" in article.get_text()
    assert article.a["href"] == "#a--answers-1" and 'id="a--answers-1"' in end
    assert "A &amp; B" in end and "Take the median" in end and end.index("Hint 1") < end.index("sorted(values)")


def test_a_page_without_exercises_adds_nothing():
    article = BeautifulSoup("<section><details><summary>Setup</summary></details></section>", "html.parser")
    assert answers.moved(article, "A", "a") == "" and answers.chapter(["", ""]) == ""
