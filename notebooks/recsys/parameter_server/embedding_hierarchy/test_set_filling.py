"""The sets that fill, in a browser: values, keys, a narrow screen, and no script."""

import numpy as np
import pytest
import torch
from storage_tiers import Rocks

from . import ParameterServer, PowerLaw
from .set_filling import SetFilling, filled_by


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    law, rng = PowerLaw(2000, 1.2), np.random.default_rng(0)
    requests = [torch.from_numpy(law.draw(200, rng)) for _ in range(12)]
    runs = {}
    for limit in (0.0, 0.5, 1.1):
        folder = tmp_path_factory.mktemp("db") / "db"
        with Rocks(folder, {"t": 2}) as tier, ParameterServer(tier) as server:
            tier.load("t", np.arange(2000), np.ones((2000, 2), np.float32))
            table = server.deploy("t", cache_rows=512, threshold=limit)
            runs[limit] = filled_by(table, requests)
    return runs


def test_the_runs_say_what_the_table_did(runs):
    assert runs[0.0]["waited"] == [0] * 12 and runs[1.1]["waited"] == [1] * 12
    assert sum(runs[1.1]["defaults"]) == 0 < runs[0.0]["defaults"][0]
    middle = runs[0.5]
    assert all(
        bool(w) == (rate < 0.5)
        for w, rate in zip(*[middle[n] for n in ("waited", "rates")], strict=True)
    )
    assert middle["fill"][0] <= middle["fill"][-1] and len(middle["fill"][0]) == 8


def test_runs_of_different_lengths_are_refused(runs):
    short = {name: values[:3] for name, values in runs[0.5].items()}
    with pytest.raises(ValueError, match="different lengths"):
        SetFilling({0.5: runs[0.5], 0.8: short})


def test_keys_move_the_threshold_and_the_request(browser, runs):
    page, wrong = browser.new_page(viewport={"width": 320, "height": 700}), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.set_content(f"<body>{SetFilling(runs, start=0.0)._repr_html_()}</body>")
    threshold, request = (page.locator(f"[data-part={n}]") for n in ("threshold", "request"))

    def shown():
        return page.locator("#set-filling").get_attribute("data-shown").split()

    def wanted(limit, at):
        run = runs[limit]
        sums = [sum(run[name][: at + 1]) for name in ("waited", "defaults")]
        return [str(n) for n in (sorted(runs).index(limit), at, *sums, sum(run["fill"][at]))]

    assert shown() == wanted(0.0, 11)
    threshold.press("ArrowRight")
    request.press("ArrowLeft")
    assert shown() == wanted(0.5, 10)
    assert threshold.get_attribute("aria-valuetext") == "50 %"
    threshold.press("End")
    assert "always wait" in page.locator("[data-part=limit]").text_content()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()
    assert not wrong


def test_without_scripts_words_stand_there(browser, runs):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_content(f"<body>{SetFilling(runs)._repr_html_()}</body>")
    words = page.inner_text("body")
    assert "With JavaScript" in words and "threshold 110%: 12 of 12 requests waited" in words
    assert not page.locator("[data-part=threshold]").is_visible()
    context.close()
