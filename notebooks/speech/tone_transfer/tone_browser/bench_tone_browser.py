"""The race in a real browser: real time of the whole transfer, and WebGL with the article's two
fixes on and off.

In the slice's folder, with Chromium and playwright installed:

    python -m tone_browser.bench_tone_browser --rounds 3

WebGL runs in software here (SwiftShader), so its times are those of a CPU.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import torch
from helpers import bench, check, data, device, receipts, root
from instrument_sounds import rendering as ins
from voice_transfer import transfer as vt

from . import export as bm
from . import live_site


def main(arguments=None):
    """Measure, print and record."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("tone_transfer", device.tier(), threads=options.threads)
    if not live_site.runtime(root()).is_file():
        raise SystemExit("onnxruntime-web is not at hand: `press build` fetches it")
    clip = "singing-female.wav"
    voice = ins.tensor(ins.clip(data.fetch("music_sounds", [clip]), clip))[:64_000]
    with tempfile.TemporaryDirectory() as folder:
        files = bm.live_files({name: vt.load(name) for name in vt.INSTRUMENTS}, voice)
        live_site.write(Path(folder), files, root())
        worst, factors, measured, version = visited(folder, options.rounds)
    _record_all(receipt, worst, factors, measured, version, len(voice) / 16_000)


def visited(folder, rounds):
    """(largest difference, real-time factors, WebGL's answers, version) of one visit and
    `rounds` of its button.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, live_site.served(folder) as address:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=live_site.OPTIONS)
        page = browser.new_page()
        page.goto(f"{address}index.html")
        page.click(".rebuilt-touch")
        page.wait_for_selector('[data-rests="yes"]', timeout=120_000)
        element, factors, measured = page.locator("[data-live]"), [], []
        for _ in range(rounds):
            element.evaluate("e => { e.dataset.rests = 'no'; delete e.dataset.webgl; }")
            page.click("text=Play the built-in voice")
            page.wait_for_selector('[data-rests="yes"]', timeout=60_000)
            factors.append(float(element.get_attribute("data-last")))
            page.click("text=Measure WebGL here")
            page.wait_for_selector("[data-webgl]", timeout=120_000)
            measured.append(json.loads(element.get_attribute("data-webgl")))
        found = float(element.get_attribute("data-worst")), factors, measured, browser.version
        browser.close()
    return found


def saved(ways, before, after, key):
    """How many per cent less `after` needs than `before`."""
    return 100 * (1 - ways[after][key] / ways[before][key])


def _record_all(receipt, worst, factors, measured, version, seconds):
    check.that(worst < 1e-5, f"the browser's sound is {worst:.1e} from PyTorch's")
    receipt.record("browser_worst", worst, "of the loudest sample")
    _record(receipt, "browser_real_time", factors, "× real time")
    for name, before, after, key in (
        ("prefix_sum_saving", "plain", "scan", "ms"),
        ("phase_saving", "phaseNaive", "phaseScan", "ms"),
        ("texture_saving", "scan", "freed", "peak"),
    ):
        _record(receipt, name, [saved(one, before, after, key) for one in measured], "%")
    fused = [1000 / one["fused"]["ms"] for one in measured]
    _record(receipt, "fused_real_time", fused, "× real time")
    sizes = {"seconds_of_voice": seconds, "chromium": int(version.split(".")[0])}
    receipt.sizes(seconds_of_webgl=1, **sizes)
    print(receipt.write(name="browser"))


def _record(receipt, name, values, unit):
    found = bench.spread(values)
    print(f"{name}: {found.median:.1f} {unit} ({found.low:.1f} to {found.high:.1f})")
    receipt.record(name, found, unit)


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="visits of the button")
    parser.add_argument("--threads", type=int, default=1, help="the browser's worker has one")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
