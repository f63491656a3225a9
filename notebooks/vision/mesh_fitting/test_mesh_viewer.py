"""The viewer in a browser: the fit's steps, turning by keys, and what goes wrong."""

import mesh_fitting as mf
import mesh_page
import meshes
import pytest
import torch


def made():
    sphere, faces = meshes.icosphere(1)
    car = meshes.car(1)
    grey = torch.full_like(sphere, 0.5)
    looks = {0: (sphere, grey), 5: (sphere * 0.8, grey)}
    return mf.Fit(car[0], faces, car[2], {"colour": [0.0] * 20}, looks), car


def visit(browser, text, wide=1000):
    page = browser.new_page(viewport={"width": wide, "height": 900})
    page.set_content(text)
    page.wait_for_selector(".mesh-viewer[data-state]")
    return page


def test_it_scrubs_from_the_sphere_to_the_fit(browser):
    page = visit(browser, mesh_page.viewer(*made(), "words"))
    assert "Step 20 of 20" in page.get_by_role("status").inner_text()
    ink = page.locator("canvas").evaluate("one => one.toDataURL()")
    page.locator("input").press("Home")
    assert "Step 0 of 20" in page.get_by_role("status").inner_text()
    assert page.locator(".mesh-viewer").get_attribute("data-look") == "0"
    assert page.locator("canvas").evaluate("one => one.toDataURL()") != ink
    page.close()


def test_arrow_keys_and_a_drag_turn_it(browser):
    page = visit(browser, mesh_page.viewer(*made(), "words"), wide=320)
    before = page.get_by_role("status").inner_text()
    page.locator("canvas").press("ArrowRight")
    turned = page.get_by_role("status").inner_text()
    page.locator("canvas").press("ArrowUp")
    assert before != turned != page.get_by_role("status").inner_text()
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + 90, box["y"] + 90)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 90)
    page.mouse.up()
    assert page.get_by_role("status").inner_text() != turned
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()


def test_the_sphere_is_drawn_where_the_chapter_s_camera_sees_it(browser):
    page = visit(browser, mesh_page.viewer(*made(), "words"))
    page.locator("select").select_option("own")
    page.locator("input").press("Home")
    share = page.locator("canvas").evaluate(
        """(one) => {
          const data = one.getContext("2d").getImageData(0, 0, one.width, one.height).data;
          let inked = 0;
          for (let i = 3; i < data.length; i += 4) inked += data[i] > 127;
          const side = Math.min(one.height / 2, one.width / 2) * 1.05 * 2;
          return inked / (side * side);
        }"""
    )
    # a disc of radius focus / sqrt(2.7² - 1), a little less for 80 triangles
    assert pytest.approx(share, rel=0.12) == 0.25 * 3.1416 * (1.732**2 / (2.7**2 - 1))
    page.close()


def test_what_goes_wrong_is_told(browser):
    page = visit(
        browser,
        mesh_page.viewer(*made(), "words").replace("data-faces='", "data-faces='' data-x='"),
    )
    assert "cannot run here: the meshes did not come" in page.inner_text("body")
    page.close()


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="do not fit into <i2"):
        mesh_page.packed(torch.tensor([9.0]), mesh_page.SCALE, "<i2")
