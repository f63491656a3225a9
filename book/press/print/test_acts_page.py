"""Acts in a browser, from a folder: by keyboard and by thumb, with guesses kept, and without scripts."""

import pytest

REFUSED = "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };"


@pytest.fixture
def opened(browser, built):
    """A function that opens the chapter's page from its folder, in a window of these options."""
    windows = []

    def page(script="", **options):
        windows.append(browser.new_context(**options))
        windows[-1].add_init_script(script)
        made = windows[-1].new_page()
        made.goto((built[1] / "notebooks/signals/moving_mean/moving_mean.html").as_uri())
        return made

    yield page
    for window in windows:
        window.close()


def act(page, name):
    return page.locator(f"#act-{name}")


def said(page, name):
    return act(page, name).get_by_role("status")


def test_a_choice_is_made_by_keyboard_and_a_wrong_one_names_its_misconception(opened):
    page = opened()
    act(page, "how_many").get_by_role("radio", name="four").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert said(page, "how_many").inner_text().startswith("✗ Not yet. A window needs both its values")
    assert said(page, "how_many").get_attribute("data-state") == "wrong"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert said(page, "how_many").inner_text() == "✓ Right. One less than the values: n - 1 windows fit."
    assert said(page, "how_many").get_attribute("data-state") == "right"


def test_a_choice_is_made_by_thumb_on_a_phone(opened):
    page = opened(has_touch=True, is_mobile=True, viewport={"width": 360, "height": 740})
    act(page, "how_many").get_by_text("three").tap()
    act(page, "how_many").get_by_role("button", name="Answer").tap()
    assert said(page, "how_many").inner_text().startswith("✓ Right.")
    touched = page.locator(".rebuilt-act").locator("button, .rebuilt-act-options label, input[type=number]")
    sizes = [one.bounding_box() for one in touched.all()]
    assert len(sizes) == 17 and min(min(one["height"], one["width"]) for one in sizes) >= 44
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_an_answer_without_a_choice_asks_for_one(opened):
    page = opened()
    act(page, "how_many").get_by_role("button", name="Answer").click()
    assert said(page, "how_many").inner_text() == "Choose one first."


def test_options_are_named_by_their_question(opened):
    group = act(opened(), "how_many").get_by_role("radiogroup", name="How many means have four values of width 2?")
    assert group.get_by_role("radio").count() == 3


def test_steps_are_put_in_order_by_keyboard_and_it_is_told_how_many_fit(opened):
    page = opened()
    own = act(page, "smooth_in_order")
    answer = own.get_by_role("button", name="Answer")
    answer.press("Enter")
    assert said(page, "smooth_in_order").inner_text().endswith("of 3 stand where they belong.")
    for _ in range(3):  # past the top it stays
        own.get_by_role("button", name="Move up: cut a window").press("Enter")
    assert said(page, "smooth_in_order").inner_text() == "It is in place 1 of 3 already."
    own.get_by_role("button", name="Move down: divide by the width").press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Move down: divide by the width"
    answer.press("Enter")
    assert " ".join(said(page, "smooth_in_order").inner_text().split()) == "✓ Right. A sum needs its values first."


@pytest.mark.parametrize("script", ["", REFUSED])
def test_a_guess_stands_beside_its_measurement_and_in_the_recap(opened, script):
    page = opened(script)
    measured, recap = page.locator("#act-rate-measured"), page.locator(".rebuilt-act-recap")
    assert "Your guess: none yet. Measured: 2,100 points/s." in measured.inner_text()
    act(page, "rate").get_by_label("Your guess").fill("100")
    page.keyboard.press("Enter")
    assert said(page, "rate").inner_text().startswith("Kept: 100 points/s.")
    told = "Your guess: 100 points/s. Measured: 2,100 points/s. That is off by a factor of 21."
    assert told in measured.inner_text() and "A rate belongs to its machine." in measured.inner_text()
    assert "100 points/s\t2,100 points/s\toff by a factor of 21" in recap.inner_text()


def test_a_guess_is_kept_for_the_next_visit_and_may_change(opened):
    page = opened()
    act(page, "rate").get_by_label("Your guess").fill("1500")
    act(page, "rate").get_by_role("button", name="Keep").click()
    page.reload()
    assert act(page, "rate").get_by_label("Your guess").input_value() == "1500"
    assert "close, within a factor of 2" in page.locator(".rebuilt-act-recap").inner_text()


def test_the_end_of_the_section_is_one_link_away(opened):
    page = opened()
    act(page, "rate").get_by_label("Your guess").fill("1")
    page.keyboard.press("Enter")
    said(page, "rate").get_by_role("link", name="at the end of this section").click()
    assert page.locator(":target").inner_text().startswith("Predicted: rate")


def test_without_scripts_the_question_stands_with_its_answer_in_a_fold(opened):
    page = opened(java_script_enabled=False)
    for name, answer in (
        ("how_many", "✓ Right. One less"),
        ("smooth_in_order", "cut a window"),
        ("rate", "Measured: 2,100"),
    ):
        fold = act(page, name).locator("details")
        assert act(page, name).locator("button, input").count() == 0 and fold.get_attribute("open") is None
        fold.locator("summary").click()
        assert answer in fold.inner_text()
    assert page.locator(".rebuilt-act-recap, .rebuilt-act-measured").all_text_contents() == ["", ""]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_acts(opened, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(color_scheme=theme)
    act(page, "how_many").get_by_role("radio", name="four").check()
    act(page, "how_many").get_by_role("button", name="Answer").click()
    act(page, "rate").get_by_label("Your guess").fill("1")
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    places = [".rebuilt-act", ".rebuilt-act-measured", ".rebuilt-act-recap"]
    found = axe.Axe().run(page, context={"include": [[one] for one in places]}).response
    assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
