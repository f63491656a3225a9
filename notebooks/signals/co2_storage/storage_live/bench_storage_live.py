"""How soon the live page shows its first picture, and how many it draws a second, in Chromium
without a window.

    python -m storage_live.bench_storage_live               # 20 visits; a receipt
    python -m storage_live.bench_storage_live --rounds 3 --slower 2

The book must be built, or nothing is timed. Each visit is a window that has cached nothing.
The page comes from this machine, so what is timed is unpacking, compiling and computing, no
network. Then the slider of the rate is moved every 16 ms for three seconds, and the answers
drawn are counted. `--slower 2` has Chromium slow the page's own thread down by that factor, for
a slower laptop; the worker is not slowed.
"""

import argparse
import contextlib
import functools
import http.server
import shutil
import statistics
import sys
import threading
from pathlib import Path

from helpers import device, receipts

HTML = Path(__file__).resolve().parents[4] / "_build" / "html"
PAGE = "notebooks/signals/co2_storage/co2_storage.html"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
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


def main(argv=None):
    """Visit, write the receipt; 1 where a median breaks the chapter's promise."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="visits")
    parser.add_argument(
        "--threads",
        type=int,
        default=device.cores(),
        help="told in the receipt; the page takes two",
    )
    parser.add_argument("--slower", type=float, default=1.0)
    args = parser.parse_args(argv)
    if not (HTML / PAGE).is_file() or not CHROMIUM:
        print("the page is not built (make book), or there is no Chromium: nothing is timed")
        return 0
    from playwright.sync_api import sync_playwright

    receipt = receipts.start("co2_storage", device.tier(), args.threads)
    with site(HTML) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        found = [visit(browser, address, args.slower) for _ in range(args.rounds)]
        browser.close()
    receipt.sizes(visits=args.rounds, slower=args.slower)
    medians = []
    for name, unit, values in zip(
        ("first_picture", "pictures"), ("s", "1/s"), zip(*found, strict=True), strict=True
    ):
        medians.append(statistics.median(values))
        receipt.record(f"live_{name}", medians[-1], unit, min(values), max(values), len(values))
    print(receipt.write("live"), *medians)
    return int(medians[0] > FIRST_S or medians[1] < FRAMES_PER_S)


if __name__ == "__main__":
    sys.exit(main())
