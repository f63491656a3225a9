"""The field to draw in, in a browser: it reduces and answers as the modules do."""

import digit_network as dn
import digit_pictures as dp
import draw_page
import numpy as np
import pytest

NET = dn.network(64, 12, 10, seed=1)


def visit(browser, html=None, wide=1000):
    """A page with the field, once it has begun or failed."""
    page = browser.new_page(viewport={"width": wide, "height": 900})
    page.set_content(html or draw_page.field(NET, "words"))
    page.wait_for_selector(".draw-digit[data-state]")
    return page


def told(page, name, separator=" "):
    """Numbers that the element carries, set within the event that asks for them."""
    text = page.locator(".draw-digit").get_attribute(f"data-{name}")
    return np.array(text.split(separator) if separator else [*text], dtype=float)


def agrees(page):
    """Whether each step of the script is that of the modules, from the ink on."""
    ink = told(page, "ink", "").reshape(64, 64)
    bits = dp.framed(ink)
    np.testing.assert_array_equal(told(page, "bits", "").reshape(32, 32), bits)
    counts = dp.reduced(bits)
    np.testing.assert_array_equal(told(page, "counts"), counts)
    hidden, log_p = dn.forward(NET, counts[None] / 16)
    # weights are rounded to float32 on their way
    np.testing.assert_allclose(told(page, "active"), hidden[0], atol=1e-5)
    np.testing.assert_allclose(told(page, "chances"), np.exp(log_p[0]), atol=1e-5)
    return ink


@pytest.mark.parametrize("digit", [1, 4, 8])
def test_an_example_is_answered_as_the_modules_answer(browser, digit):
    page = visit(browser)
    page.locator("select").select_option(str(digit))
    assert agrees(page).sum() > 100
    best = told(page, "chances").argmax()
    page.get_by_role("status").filter(has_text=f"The network says {best} with").wait_for()
    page.close()


def test_every_example_is_read_by_a_network_that_has_learned(browser):
    counts, digits = dp.load()
    learn, _ = dp.split(digits, seed=0)
    new = dn.network(64, 32, 10)
    net, _ = dn.train(new, counts[learn] / 16, digits[learn], epochs=60)  # the page's
    page = visit(browser, draw_page.field(net, "words"))
    said = []
    for digit in range(10):
        page.locator("select").select_option(str(digit))
        said.append(int(told(page, "chances").argmax()))
    assert said == [*range(10)]
    page.close()


def test_a_stroke_of_the_pointer_is_drawn_where_it_goes(browser):
    page = visit(browser)
    box = page.locator("canvas").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.8)
    page.mouse.up()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.8)
    ink = agrees(page)
    rows, cols = np.nonzero(ink)
    assert abs(cols - 32).max() <= 4 and abs(rows.min() - 10) <= 2 and abs(rows.max() - 54) <= 2
    page.close()


def test_keys_draw_once_the_pen_is_down(browser):
    page = visit(browser)
    field = page.locator("canvas").first
    field.press("ArrowUp")
    assert not told(page, "ink", "").any()
    field.press("Space")
    for _ in range(8):
        field.press("ArrowDown")
    rows, _ = np.nonzero(agrees(page))
    assert rows.max() - rows.min() >= 16
    assert "The pen is down" in field.get_attribute("aria-label")
    page.get_by_role("button", name="Clear").click()
    assert not told(page, "ink", "").any() and not told(page, "chances").any()
    page.close()


def test_all_fits_on_a_narrow_phone(browser):
    page = visit(browser, wide=320)
    page.locator("select").select_option("3")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()


@pytest.mark.parametrize("wide", [320, 390, 1000])
def test_the_field_is_wide_enough_for_a_finger(browser, wide):
    hidden = f'<div id="page" style="display: none">{draw_page.field(NET, "words")}</div>'
    page = browser.new_page(viewport={"width": wide, "height": 900})
    page.set_content(hidden)  # as while a page is being laid out
    page.wait_for_timeout(100)
    page.evaluate("document.getElementById('page').style.display = 'block'")
    page.wait_for_timeout(200)
    assert page.locator("canvas").first.evaluate("one => one.clientWidth") >= 220
    page.close()


def test_a_network_that_did_not_come_is_told(browser):
    html = draw_page.field(NET, "words").replace('data-hidden="12"', 'data-hidden="13"')
    page = visit(browser, html)
    assert "cannot run here: the network did not come" in page.inner_text("body")
    page.close()


def test_a_network_of_another_size_is_refused():
    with pytest.raises(ValueError, match="the field has 64 and 10"):
        draw_page.field(dn.network(32, 4, 10), "words")
