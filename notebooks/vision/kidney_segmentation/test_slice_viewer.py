"""The viewer in a browser: slices by keys, layers, what is wrong, and what goes wrong."""

import pytest
import slice_page
import torch


def made():
    truth = torch.zeros(6, 40, 44, dtype=torch.uint8)
    truth[1:5, 12:28, 12:30], truth[2:4, 16:20, 16:22] = 1, 2
    side = truth.clone()
    side[3] = 0
    return slice_page.viewer(
        torch.zeros(6, 40, 44), truth, {"overlap": truth, "side by side": side}, "words"
    )


def visit(browser, text, wide=1000):
    page = browser.new_page(viewport={"width": wide, "height": 900})
    page.set_content(text)
    page.wait_for_selector(".slice-viewer[data-state=ready], .slice-viewer[data-state=failed]")
    return page


def test_keys_go_through_the_slices(browser):
    page = visit(browser, made())
    before = page.locator("canvas").evaluate("one => one.toDataURL()")
    assert page.get_by_role("status").inner_text().startswith("Slice 4 of 6, overlap")
    page.locator("canvas").press("ArrowUp")
    page.locator("canvas").press("ArrowUp")
    assert "Slice 6 of 6, overlap: 0 voxels kidney" in page.get_by_role("status").inner_text()
    assert page.locator("canvas").evaluate("one => one.toDataURL()") != before
    page.locator("canvas").press("ArrowUp")
    assert "Slice 6 of 6" in page.get_by_role("status").inner_text()
    page.close()


def test_a_layer_s_errors_are_counted(browser):
    page = visit(browser, made(), wide=320)
    assert ", 0 not as the true" in page.get_by_role("status").inner_text()
    page.locator("select").select_option("1")
    assert f", {16 * 18} not as the true labels" in page.get_by_role("status").inner_text()
    ink = page.locator("canvas").evaluate("one => one.toDataURL()")
    page.get_by_role("checkbox").check()
    assert page.locator("canvas").evaluate("one => one.toDataURL()") != ink
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert "CC BY-NC-SA" in page.inner_text("body")
    page.close()


def test_slices_that_did_not_come_are_told(browser):
    page = visit(browser, made().replace('data-truth="', 'data-truth="" data-x="'))
    assert "cannot run here: the slices did not come" in page.inner_text("body")
    page.close()


def test_a_box_holds_all_organs():
    labels = torch.zeros(5, 50, 50)
    labels[2, 20:30, 25] = 1
    assert slice_page.cropped(labels) == (slice(1, 4), slice(10, 40), slice(15, 36))
    with pytest.raises(ValueError, match="without an organ"):
        slice_page.cropped(labels * 0)


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match="0 to 255"):
        slice_page.packed(torch.tensor([256.0]))
