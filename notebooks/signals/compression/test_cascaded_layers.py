"""The layers to move, in a browser: its bytes are Python's."""

import base64
import json
from pathlib import Path

import cascaded_chunks
import numpy as np
import torch
from cascaded_chunks import Layers

SCRIPT = Path(__file__).with_name("cascaded_layers.js").read_text(encoding="utf-8")
RNG = np.random.default_rng(0)
COLUMNS = {
    "runs": np.repeat(np.arange(50), RNG.integers(1, 40, 50)),
    "noise": RNG.integers(-(2**31), 2**31, 333),
    "extremes": np.array([2**31 - 1, -(2**31)] * 40),
    "one": np.array([-7]),
}


def visit(browser, columns, wide=1000):
    packed = {
        n: base64.b64encode(c.astype("<i4").tobytes()).decode() for n, c in columns.items()
    }
    page = browser.new_page(viewport={"width": wide, "height": 900})
    about = f"data-columns='{json.dumps(packed)}'"
    page.set_content(f'<div class="cascaded-layers" {about}></div><script>{SCRIPT}</script>')
    page.wait_for_selector(".cascaded-layers[data-state]")
    return page


def move(page, rles, deltas):
    for control, value in zip(
        page.locator("input[type=range]").all(), (rles, deltas), strict=True
    ):
        control.fill(str(value))
    return bytes.fromhex(page.locator(".cascaded-layers").get_attribute("data-packed"))


def wanted(column, rles, deltas):
    values = torch.from_numpy(column.astype(np.int32))
    return cascaded_chunks.encode(values, [len(values)], Layers(rles, deltas))[0]


def test_the_page_s_bytes_are_python_s(browser):
    page = visit(browser, COLUMNS)
    for name, column in COLUMNS.items():
        page.locator("select").select_option(name)
        for layers in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 2), (4, 3), (1, 4)):
            assert move(page, *layers) == wanted(column, *layers), (name, layers)
    page.close()


def test_a_reader_s_own_column_is_packed_on_a_phone(browser):
    page = visit(browser, COLUMNS, wide=360)
    text = "day,count\n2024,5\n2025,9\nnone\n2026,9\n99999999999,1\n"
    page.locator("input[type=file]").set_input_files(
        {"name": "own.csv", "mimeType": "text/csv", "buffer": text.encode()}
    )
    page.get_by_role("status").filter(has_text="3 values").wait_for()
    left_out = "Left out: 3 of 6 lines, for want of a whole number"
    assert left_out in page.get_by_role("status").inner_text()
    assert move(page, 0, 1) == wanted(np.array([2024, 2025, 2026]), 0, 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_the_bar_has_a_legend_of_its_parts(browser):
    page = visit(browser, COLUMNS)
    move(page, 2, 0)
    legend = page.locator("section > p[aria-hidden] > span")
    assert legend.all_inner_texts() == ["header", "counts 1", "counts 2", "values"]
    colours = "all => all.map((one) => getComputedStyle(one.firstChild ?? one).backgroundColor)"
    bar = page.locator("[role=img] > div").evaluate_all(colours)
    assert legend.evaluate_all(colours) == bar
    page.locator("select").select_option("noise")
    assert "Left out" not in page.get_by_role("status").inner_text()
    page.close()


def test_what_goes_wrong_is_told(browser):
    page = visit(browser, {})
    assert "cannot run here: the columns did not come" in page.inner_text("body")
    page.close()
