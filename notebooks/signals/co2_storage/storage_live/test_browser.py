"""The live model in the built page, in a browser with no network: numbers, knobs, readers."""

import re
from pathlib import Path

import pytest

HTML = Path(__file__).resolve().parents[4] / "_build" / "html"
PAGE = "notebooks/signals/co2_storage/co2_storage.html"
LARGEST_BYTES, LARGEST_COMPRESSED = 20e6, 6e6
pytestmark = pytest.mark.skipif(
    not (HTML / PAGE).is_file(), reason="the page is not built: make book"
)


@pytest.fixture(scope="module")
def home(site):
    with site(HTML) as address:
        yield address


@pytest.fixture(scope="module")
def visited(browser, home):
    """(page, what went wrong on it) of one visit: every member has answered."""
    return first_visit(browser, home)


@pytest.fixture
def live(visited):
    """The same, knobs, time, size and media put back."""
    page, wrong = visited
    wrong.clear()
    page.emulate_media(media="screen", color_scheme="light", reduced_motion="no-preference")
    page.set_viewport_size({"width": 1400, "height": 900})
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    page.get_by_role("button", name="Reset").click()
    page.get_by_label("Time since injection began").press("End")
    summary(page)
    return page, wrong


def first_visit(browser, home):
    """(page, errors told on it) once every member has answered; other addresses are refused."""
    page, wrong = browser.new_page(viewport={"width": 1400, "height": 900}), []
    # without a mode the theme tells an error
    page.add_init_script("localStorage.setItem('mode', 'light')")
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
    page.route(lambda url: not url.startswith((home, "data:", "blob:")), lambda r: r.abort())
    page.goto(home + PAGE)
    page.locator(".rebuilt-live").scroll_into_view_if_needed()
    page.locator(".rebuilt-touch").click()
    page.wait_for_selector(".rebuilt-live[data-state='running']", timeout=90_000)
    summary(page)
    return page, wrong


def summary(page):
    """What is said once the knobs rest: it waits until then."""
    page.evaluate("() => new Promise((turn) => setTimeout(turn))")  # a reset's, the one before
    page.wait_for_selector(".rebuilt-live[data-rests='yes']")
    return page.locator(".storage-summary").inner_text()


def move(page, name, keys):
    """Press keys on the slider with this label."""
    slider = page.get_by_label(name)
    for key in keys:
        slider.press(key)


def right(page):
    """None; AssertionError unless every member gives PyTorch's numbers."""
    assert float(page.locator(".rebuilt-live").get_attribute("data-worst")) < 1e-4
    assert "Checked in this browser" in page.locator(".storage-note").inner_text()


def test_every_member_gives_pytorch_s_numbers_in_the_browser(visited):
    page, wrong = visited
    assert wrong == []
    right(page)


def test_every_member_does_so_in_a_page_opened_from_a_folder(browser):
    page, wrong = first_visit(browser, HTML.as_uri() + "/")
    # from a folder, browsers refuse the theme's own fonts, on every page of the book
    assert [text for text in wrong if "_live" in text] == []
    right(page)
    page.close()


HEAR = """() => {
  window.heard = {};
  document.querySelector(".rebuilt-live").addEventListener("live-answer", ({ detail }) => {
    const { member, knobs, pattern, saturation, pressure, pressed } = detail;
    const lists = [knobs, pattern, saturation, pressure].map((numbers) => [...numbers]);
    window.heard[member] = [...lists, pressed];
  });
}"""


def test_a_moved_case_is_pytorch_s_too(live):
    import torch
    from plume_surrogate import load_shipped
    from two_phase import Grid

    from .web import web_members

    page, _ = live
    page.evaluate(HEAR)
    page.get_by_label("Rock", exact=True).select_option("sand and shale")
    move(page, "Depth of the aquifer’s top", ["PageUp", "ArrowRight"])
    move(page, "Thickness", ["ArrowLeft", "ArrowLeft"])
    move(page, "CO₂ injected", ["ArrowLeft"])
    summary(page)
    heard = page.evaluate("window.heard")
    members = web_members(load_shipped(Grid.reduced()), Grid.reduced())
    assert len(heard) == len(members)
    for number, member in enumerate(members):
        knobs, pattern, *found = (torch.tensor(one) for one in heard[str(number)])
        with torch.no_grad():
            expected = member(pattern.view(2, *Grid.reduced().shape), knobs)
        for ours, theirs in zip(found, expected, strict=True):
            scale = max(1.0, theirs.abs().max().item())
            assert (ours.flatten() - theirs.flatten()).abs().max() < 1e-4 * scale


def test_the_application_stays_within_its_size():
    text = (HTML / PAGE).read_text(encoding="utf-8")
    element = re.search(r'<div class="rebuilt-live"[^>]*>', text).group()
    files = re.findall(r'data-\w+="(\.\./[^"?]+)\?', element)
    sizes = [((HTML / PAGE).parent / name).resolve().stat().st_size for name in files]
    assert len(files) == 4 and sum(sizes) < LARGEST_BYTES
    assert float(re.search(r'data-megabytes="([\d.]+)"', element)[1]) * 1e6 < LARGEST_COMPRESSED


def test_the_keyboard_moves_the_rate_and_the_answer_follows(live):
    page, _ = live
    before = summary(page)
    frames = int(page.locator(".rebuilt-live").get_attribute("data-frames"))
    move(page, "CO₂ injected", ["Home"])
    assert page.get_by_label("CO₂ injected").get_attribute("aria-valuetext") == "0.2 Mt a year"
    after = summary(page)
    assert after != before and after.startswith("After 30 years the plume reaches")
    assert int(page.locator(".rebuilt-live").get_attribute("data-frames")) > frames
    page.get_by_role("button", name="Reset").press("Enter")
    assert summary(page) == before


def test_a_well_that_no_member_has_seen_is_refused_with_the_reason(live):
    page, wrong = live
    move(page, "Thickness", ["Home"])
    move(page, "Permeability, median", ["Home"])
    move(page, "CO₂ injected", ["End"])
    assert summary(page).startswith(
        "Refused: by a simple estimate this well would raise the pressure"
    )
    label = page.locator("canvas").first.get_attribute("aria-label")
    assert "Refused" in label and wrong == []
    page.get_by_role("button", name="Reset").click()
    assert summary(page).startswith("After 30 years")


def test_the_thickest_aquifer_can_be_chosen(live):
    page, _ = live
    move(page, "Thickness", ["End"])
    summary(page)
    slider = page.locator("#storage-thickness")
    assert slider.get_attribute("aria-valuetext") == "200 m"


def test_a_failure_after_the_start_is_told_and_no_old_picture_stays(browser, home):
    page, _ = first_visit(browser, home)
    page.evaluate(
        """() => { Worker.prototype.postMessage =
        () => { throw new Error('out of memory, say') } }"""
    )
    move(page, "CO₂ injected", ["ArrowRight"])
    page.wait_for_selector(".storage-refused")
    assert "stopped: out of memory, say" in summary(page)
    pixels = page.evaluate(
        """() => { const one = document.querySelector('.storage-mean canvas');
        return [...one.getContext('2d').getImageData(100, 60, 1, 1).data] }"""
    )
    assert max(pixels[:3]) - min(pixels[:3]) < 12, "grey, not a colour of the scale"
    page.close()


def test_the_ends_of_the_open_interval_push_each_other(live):
    page, wrong = live
    top, bottom = (
        page.get_by_label("Open from, below the top"),
        page.get_by_label("Open down to"),
    )
    move(page, "Open from, below the top", ["End"])
    assert float(top.input_value()) < float(bottom.input_value()) == 1
    move(page, "Open down to", ["Home"])
    assert 0 == float(top.input_value()) < float(bottom.input_value())
    move(page, "Thickness", ["Home"])
    metres = [float(one.get_attribute("aria-valuetext").split()[0]) for one in (top, bottom)]
    assert metres[1] - metres[0] >= 2 * 200 / 24 - 0.2 and wrong == []


def test_time_is_a_slider_and_can_be_played(live):
    page, _ = live
    move(page, "Time since injection began", ["Home"])
    early = summary(page)
    assert re.match(r"After [\d.]+ days the plume reaches", early)
    page.get_by_role("button", name="Play").press("Enter")
    page.get_by_role("button", name="Pause").wait_for()
    time = page.get_by_label("Time since injection began")
    page.wait_for_function("slider => slider.value > 0", arg=time.element_handle())
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play").wait_for()
    paused = time.input_value()
    assert int(paused) > 0 and summary(page) != early
    page.wait_for_timeout(1500)  # longer than a step
    assert time.input_value() == paused


def test_whoever_wants_less_motion_gets_no_play_button(live):
    page, _ = live
    page.emulate_media(reduced_motion="reduce")
    page.get_by_role("button", name="Play").wait_for(state="hidden")
    move(page, "Time since injection began", ["Home", "ArrowRight"])
    assert page.get_by_label("Time since injection began").input_value() == "1"


def test_the_numbers_stand_in_a_table_too(live):
    page, _ = live
    page.locator(".storage-app details").evaluate("box => { box.open = true; }")
    rows = page.locator(".storage-table tbody tr")
    assert rows.count() == 12 and rows.last.locator("th").inner_text() == "30 years"
    reach = rows.last.locator("td").first.inner_text()
    assert reach in summary(page)


@pytest.mark.parametrize("mode, width", [("light", 1400), ("dark", 390)])
def test_axe_finds_nothing_and_nothing_overflows(live, mode, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page, _ = live
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=mode)
    page.evaluate("mode => { document.documentElement.dataset.theme = mode; }", mode)
    page.locator(".storage-app details").evaluate("box => { box.open = true; }")
    found = axe.Axe().run(page, context=".rebuilt-live").response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    canvas = page.locator(".storage-pictures canvas").first
    assert canvas.get_attribute("role") == "img" and canvas.bounding_box()["width"] > 250


def test_every_control_has_a_name_and_a_visible_focus(live):
    page, _ = live
    for control in page.locator(".storage-app").locator("input, select, button").all():
        control.focus()
        page.keyboard.press("Shift")  # the browser shows the focus once keys are used
        name = control.evaluate("e => e.labels?.[0]?.textContent || e.textContent")
        outline = control.evaluate("e => getComputedStyle(e).outlineStyle")
        assert name.strip() and outline != "none"


def test_the_theme_can_change_while_it_runs(live):
    page, _ = live
    shot = "canvas => canvas.toDataURL()"
    canvas = page.locator(".storage-pictures canvas").first
    before = canvas.evaluate(shot)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    other = "([canvas, before]) => canvas.toDataURL() !== before"
    page.wait_for_function(other, arg=[canvas.element_handle(), before])


def test_without_a_script_the_words_stand(browser, home):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(home + PAGE)
    assert page.locator(".rebuilt-live-fallback").is_visible()
    context.close()


def test_in_print_the_words_stand(live):
    page, _ = live
    page.emulate_media(media="print")
    page.locator(".rebuilt-live-fallback").wait_for()
    page.locator(".storage-app").wait_for(state="hidden")
