"""How soon the live page shows its first picture, and how many it draws a second, in Chromium
without a window.

python bench_storage_live.py [--slower 2] [--visits 20]

The book must be built. Each visit is a window that has cached nothing; the page comes from a
server on this machine, so what is timed is unpacking, compiling and computing, not a network.
Then the slider of the rate is moved every 16 ms for three seconds, and the answers drawn are
counted. `--slower 2` has Chromium slow the page's own thread down by that factor, for a slower
laptop; the worker is not slowed. The load of the machine is told, because other work makes all
of it slower.
"""

import argparse
import contextlib
import functools
import http.server
import json
import os
import shutil
import statistics
import sys
import threading
from pathlib import Path

from helpers import device

HTML = Path(__file__).resolve().parents[3] / "_build" / "html"
PAGE = "notebooks/signals/co2_storage/co2_storage.html"
FIRST_S, FRAMES_PER_S = 2.0, 10.0  # what the chapter promises
DRAG = """async () => {
  const slider = document.querySelector("#storage-rate");
  const element = document.querySelector(".rebuilt-live");
  const [before, began] = [Number(element.dataset.frames), performance.now()];
  for (let step = 0; performance.now() - began < 3000; step += 1) {
    slider.value = 0.2 + 0.05 * (step % 17);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((resolve) => setTimeout(resolve, 16));
  }
  return (Number(element.dataset.frames) - before) / ((performance.now() - began) / 1000);
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *arguments):
        """Print nothing."""


@contextlib.contextmanager
def site(folder):
    """The address of a server of the folder on this machine, while the block runs."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


def visit(browser, address, slower):
    """(seconds from coming near to the first picture, pictures a second) of one fresh visit."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    if slower > 1:
        session = context.new_cdp_session(page)
        session.send("Emulation.setCPUThrottlingRate", {"rate": slower})
    page.goto(address + PAGE)
    page.locator(".rebuilt-live").scroll_into_view_if_needed()
    page.wait_for_selector(".rebuilt-live[data-state='running']", timeout=120_000)
    first = float(page.locator(".rebuilt-live").get_attribute("data-first-ms")) / 1e3
    rate = page.evaluate(DRAG)
    context.close()
    return first, rate


def measure(visits, slower):
    """A dict of medians and ranges over fresh visits, the machine and its load."""
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with site(HTML) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        found = [visit(browser, address, slower) for _ in range(visits)]
        version = browser.version
        browser.close()
    result = {"visits": visits, "slower": slower, "chromium": version}
    for name, values in zip(("first_s", "frames_per_s"), zip(*found, strict=True), strict=True):
        result[name] = [round(f(values), 3) for f in (statistics.median, min, max)]
    return result | {"machine": device.machine()["cpu"], "load": round(os.getloadavg()[0], 2)}


def main(argv=None):
    """Print what was measured as JSON; 1 where the median breaks the chapter's promise."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--visits", type=int, default=20)
    parser.add_argument("--slower", type=float, default=1.0)
    args = parser.parse_args(argv)
    if not (HTML / PAGE).is_file():
        parser.error("the page is not built: make book")
    found = measure(args.visits, args.slower)
    print(json.dumps(found, indent=1))
    return int(found["first_s"][0] > FIRST_S or found["frames_per_s"][0] < FRAMES_PER_S)


if __name__ == "__main__":
    sys.exit(main())
