"""A page with the live model alone, served from this machine: for the test and the race in a
real browser.
"""

import base64
import contextlib
import functools
import gzip
import json
import shutil
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).parent
NAME = "onnxruntime-web-1.30.0"
NEEDED = ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
OPTIONS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
OPTIONS += ["--ignore-gpu-blocklist", "--use-fake-device-for-media-stream"]
OPTIONS += ["--use-fake-ui-for-media-stream"]
PAGE = """<!doctype html><title>tone</title><script defer src="live.js"></script>
<div class="rebuilt-live" data-live="tone" data-megabytes="5"
data-runtime="onnxruntime-web-1.30.0.js"
data-model="model.js" data-script="tone_live.js"
data-style="tone_live.css"><p>still</p></div>"""


def runtime(home):
    """The place of the runtime's package, which `press build` fetches."""
    return home / "_build" / "data" / "onnxruntime-web" / f"{NAME}.tgz"


def write(folder, files, home):
    """None; writes the page, the runtime's pack and the model's into a folder."""
    with tarfile.open(runtime(home)) as package:
        taken = {name: package.extractfile(f"package/dist/{name}").read() for name in NEEDED}
    (folder / f"{NAME}.js").write_text(pack("onnxruntime-web", taken))
    (folder / "model.js").write_text(pack("tone", files))
    for name in ("tone_live.js", "tone_live.css"):
        shutil.copy(HERE / name, folder)
    shutil.copy(home / "book/press/print/live.js", folder)
    (folder / "index.html").write_text(PAGE)


def pack(name, files):
    """A classic script that hands files to the book's loader."""
    packed = {file: gzip.compress(content, 1) for file, content in files.items()}
    told = {file: base64.b64encode(content).decode() for file, content in packed.items()}
    return f"rebuiltLive.add({json.dumps(name)}, {json.dumps(told)});"


@contextlib.contextmanager
def served(folder):
    """The address of a server of the folder on this machine, while the block runs."""
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *told: None})
    handler = functools.partial(quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
