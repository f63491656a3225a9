"""Live models: packed from a run's output with checked hashes, and run in a browser from a server and from a folder."""

import base64
import gzip
import hashlib
import io
import json
import re
import tarfile

import nbformat
import pytest

from press import PressError, chromium, npm
from press.conftest import code
from press.gates import load
from press.ledger import gather
from press.print import live, source
from press.print.conftest import executed
from press.repository import HOME, Repository
from press.server import site
from press.teach.workshop import bundle

CARD = {"name": "mean", "runtime": "onnxruntime-web==9.9.9", "script": "mean_live.js", "style": "mean_live.css"}
PACKAGE = {f"package/{name}": f"the text of {name}".encode() for name in live.FILES}
REAL = HOME / "_build/data/onnxruntime-web/onnxruntime-web-1.30.0.tgz"


def tarball(files):
    """The bytes of an npm package with these files."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w:gz") as package:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            package.addfile(entry, io.BytesIO(content))
    return text.getvalue()


@pytest.fixture
def pinned(tmp_path, monkeypatch):
    """A function that puts a package into a mirror and pins it, by its own hash or another."""
    monkeypatch.setenv("REBUILT_DATA_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("REBUILT_OFFLINE", "1")
    monkeypatch.setattr(npm, "RUNTIMES", tmp_path / "runtimes.tsv")

    def pin(files=PACKAGE, sha=None):
        content = tarball(files)
        name, sha = "onnxruntime-web-9.9.9.tgz", sha or hashlib.sha256(content).hexdigest()
        path = tmp_path / "mirror" / "onnxruntime-web" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        row = ["onnxruntime-web", "9.9.9", sha, "MIT", "Someone", "tests"]
        npm.RUNTIMES.write_text("\t".join(npm.COLUMNS) + "\n" + "\t".join(row) + "\n")

    pin()
    return pin


def output(files, name="mean"):
    """An output of a live model; `files` are its bytes by name."""
    packed = {
        file: {"sha256": hashlib.sha256(content).hexdigest(), "base64": base64.b64encode(content).decode()}
        for file, content in files.items()
    }
    shown = {"text/html": "<p>No script runs here.</p>", live.MIME: {"name": name, "files": packed}}
    return nbformat.v4.new_output("display_data", data=shown)


@pytest.fixture
def with_live(small, pinned):
    """The small book with a live model on its card and a cell that shows it: (small, notebook)."""
    small.write_card(live=CARD)
    small.write("notebooks/signals/moving_mean/mean_live.js", 'rebuiltLive.start("mean", async () => {});\n')
    small.write("notebooks/signals/moving_mean/mean_live.css", "p { margin: 0; }\n")
    small.write_notebook(small.cells(code(f"kind = {live.MIME!r}")))
    executed(small)
    shown = nbformat.v4.new_code_cell("page", outputs=[output({"model.onnx": b"weights"})])
    return small, nbformat.v4.new_notebook(cells=[shown])


def publish(small, notebook, folder):
    live.publish(notebook, small.repository.chapters[0], small.repository, folder)
    return notebook.cells[0].outputs[0].data


def unpacked(path):
    """The (name, files) that a pack hands to the loader."""
    name, files = re.fullmatch(r"(?:/\*.*?\*/\n)?rebuiltLive\.add\((.*)\);\n", path.read_text(), re.DOTALL)[1].split(
        ", ", 1
    )
    return json.loads(name), {file: gzip.decompress(base64.b64decode(text)) for file, text in json.loads(files).items()}


def test_the_pack_holds_the_model_and_the_pinned_runtime(with_live, tmp_path):
    small, notebook = with_live
    shown = publish(small, notebook, tmp_path / "out")
    made = tmp_path / "out" / "_live"
    assert unpacked(made / "signals/moving_mean/moving_mean/mean.js") == ("mean", {"model.onnx": b"weights"})
    name, files = unpacked(made / "onnxruntime-web-9.9.9.js")
    assert name == "onnxruntime-web" and {f"package/dist/{file}": text for file, text in files.items()} == PACKAGE
    assert "Permission is hereby granted" in (made / "onnxruntime-web-9.9.9.js").read_text()
    assert live.MIME not in shown and "<p>No script runs here.</p>" in shown["text/html"]
    page = tmp_path / "out" / "notebooks" / "signals" / "moving_mean" / "moving_mean.html"
    addresses = re.findall(r'="(\.\./[^"?]+)\?v=([0-9a-f]{12})"', shown["text/html"])
    assert len(addresses) == 5
    for address, version in addresses:
        found = (page.parent / address).resolve()
        assert hashlib.sha256(found.read_bytes()).hexdigest().startswith(version)


def test_the_runtime_is_unpacked_once_for_all_chapters(with_live, monkeypatch):
    asked, taken, repository = [], live.npm.taken, with_live[0].repository
    monkeypatch.setattr(live.npm, "taken", lambda *told: asked.append(told) or taken(*told))
    first, second = (live.runtime("onnxruntime-web==9.9.9", repository) for _ in range(2))
    assert len(asked) == 1 and first == second


def test_the_same_model_gives_the_same_pack_at_any_time(monkeypatch):
    now = live.pack("a", {"x": b"1", "y": b"2"})
    monkeypatch.setattr(gzip.time, "time", lambda: 1e9)
    assert live.pack("a", {"y": b"2", "x": b"1"}) == now


def test_a_model_with_a_wrong_hash_is_refused(with_live, tmp_path):
    small, notebook = with_live
    notebook.cells[0].outputs[0].data[live.MIME]["files"]["model.onnx"]["base64"] = base64.b64encode(b"x").decode()
    with pytest.raises(PressError, match=r"moving_mean: the live model's 'model.onnx' is refused: SHA-256"):
        publish(small, notebook, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_runtime_with_a_wrong_hash_is_refused(with_live, pinned, tmp_path):
    small, notebook = with_live
    pinned(sha="0" * 64)
    with pytest.raises(PressError, match=r"onnxruntime-web-9.9.9.tgz cannot be had(.|\n)*SHA-256"):
        publish(small, notebook, tmp_path / "out")
    assert not list((tmp_path / "out").glob("_live/onnx*"))


def test_a_package_that_lacks_a_file_is_refused(with_live, pinned, tmp_path):
    small, notebook = with_live
    pinned(dict(list(PACKAGE.items())[:2]))
    with pytest.raises(PressError, match=r"has no dist/ort-wasm-simd-threaded.wasm"):
        publish(small, notebook, tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda small, nb: small.write_card(live={**CARD, "name": "other"}), "called 'mean', in the card 'other'"),
        (lambda small, nb: nb.cells[0].update(outputs=[]), "0 outputs are live models, and the card's `live` promises"),
        (lambda small, nb: small.card.pop("live") and small.write_card(), "1 outputs are live models.*promises none"),
        (lambda small, nb: small.write_card(live={**CARD, "runtime": "x==1"}), "no runtime is called 'x==1'.*9.9.9"),
    ],
)
def test_a_card_and_an_output_that_disagree_are_refused(with_live, tmp_path, change, said):
    small, notebook = with_live
    change(small, notebook)
    with pytest.raises(PressError, match=said):
        publish(small, notebook, tmp_path / "out")


def test_the_book_s_source_gets_the_packs(with_live):
    small, _ = with_live
    path = small.repository.chapters[0].executed
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[6].outputs.append(output({"model.onnx": b"weights"}))
    nbformat.write(notebook, path)
    small.write_card(touch="type a number")
    folder = source.assemble(small.repository, gather(small.repository))
    assert (folder / "_live/signals/moving_mean/moving_mean/mean_live.css").is_file()
    assert (folder / "_live/live.js").is_file()


def test_a_workshop_s_book_holds_the_packs(small, tmp_path):
    small.write("_build/html/index.html", "")
    small.write("_build/html/_live/live.js", "the loader")
    (tmp_path / "bundle").mkdir()
    bundle._book(small.root / "_build/html", tmp_path / "bundle")
    assert (tmp_path / "bundle/book/_live/live.js").read_text() == "the loader"


def problems(small):
    return "\n".join(map(str, load()["live"].problems(small.repository)))


def test_a_whole_live_model_passes_its_gate(with_live):
    assert problems(with_live[0]) == ""


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("mean_live.js", 'fetch("https://cdn.example.org/x.js")', r"mean_live.js, line 1: 'https://cdn.example.org'"),
        ("mean_live.js", "/* see https://example.org\n */\nimportScripts(address)", "line 3: 'importScripts'"),
        ("mean_live.css", '@import "other.css";', "mean_live.css, line 1: '@import'"),
        ("mean_live.css", None, r"live.style: 'mean_live.css' is no file of the chapter"),
        ("runtimes", "A" * 64, "runtimes.tsv, line 2: sha256 'AAA"),
        ("card", {**CARD, "runtime": "onnxruntime-web==1.0.0"}, r"live.runtime: .*==1.0.0'; pinned are .*==9.9.9"),
        ("notebook", [], "neither a cell nor a module shows an output"),
    ],
)
def test_a_breach_of_the_gate_is_seen(with_live, pinned, path, text, said):
    small, _ = with_live
    if path == "runtimes":
        pinned(sha=text)
    elif path == "card":
        small.write_card(live=text)
    elif path == "notebook":
        small.write_notebook(small.cells())
    elif text is None:
        (small.home / path).unlink()
    else:
        small.write(f"notebooks/signals/moving_mean/{path}", text)
    assert re.search(said, problems(small))


def test_a_comment_may_name_an_address(with_live):
    small, _ = with_live
    small.write("notebooks/signals/moving_mean/mean_live.js", "// see https://example.org\nconst a = 1;\n")
    assert problems(small) == ""


def test_the_schema_of_cards_knows_live_models(with_live):
    small, _ = with_live
    assert "live" not in "\n".join(map(str, load()["card"].problems(small.repository)))
    small.write_card(live={**CARD, "script": "../x.js"})
    assert "live.script" in "\n".join(map(str, load()["card"].problems(small.repository)))


def test_what_is_pinned_is_named_with_its_version():
    assert live.runtimes() == ["onnxruntime-web==1.30.0"]


# In a browser: a model of one node, with the real runtime ----------------------------------------------------------

SCRIPT = """
rebuiltLive.start("double", async (element, tools) => {
  const worker = await tools.onnxWorker(tools.runtime, String(function work() {
    addEventListener("message", async ({ data }) => {
      const session = await ort.InferenceSession.create(data);
      const found = await session.run({ x: new ort.Tensor("float32", Float32Array.of(1.5, -2, 8), [3]) });
      postMessage([...found.y.data]);
    });
  }));
  const answer = new Promise((resolve) => { worker.onmessage = ({ data }) => resolve(data); });
  worker.postMessage(await tools.bytes(tools.model, "model.onnx"));
  element.dataset.answer = (await answer).join(" ");
});
"""
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>t</title><body><main><h1>Double</h1>
<div style="height:3000px"></div>
<div class="rebuilt-live" data-live="double" data-megabytes="4" data-runtime="onnxruntime-web-1.30.0.js"
 data-model="model.js" data-script="script.js" data-style="style.css"><p>No script runs here.</p></div></main>
<script defer src="live.js"></script></body></html>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a page that doubles numbers by a model."""
    helper = pytest.importorskip("onnx.helper")
    if not chromium.find():
        pytest.skip(chromium.WANTED)
    if not REAL.is_file():
        pytest.skip("the runtime is not here: make book downloads it")
    made = tmp_path_factory.mktemp("live")
    vector = [helper.make_tensor_value_info(name, 1, [3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", vector[:1], vector[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    runtime = live.runtime("onnxruntime-web==1.30.0", Repository(HOME))
    for name, text in {
        "onnxruntime-web-1.30.0.js": runtime,
        "model.js": live.pack("double", {"model.onnx": model}),
        "script.js": SCRIPT,
        "style.css": "",
        "live.js": live.LOADER.read_text(encoding="utf-8"),
        "page.html": PAGE,
    }.items():
        (made / name).write_text(text, encoding="utf-8")
    return made


@pytest.fixture
def opened(folder, browser):
    """A function that opens the page from a server or as a file; the page and the names of what it has asked for."""
    windows = []
    with site(folder) as address:

        def visit(how="http", before="", **options):
            windows.append(browser.new_context(**options))
            page, asked = windows[-1].new_page(), []
            page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
            page.add_init_script(before)
            page.goto(f"{address if how == 'http' else folder.as_uri() + '/'}page.html")
            page.wait_for_timeout(200)
            return page, asked

        yield visit
        for window in windows:
            window.close()


def near(page):
    """Scroll to the live model and touch it; its state once it runs or has failed."""
    page.locator(".rebuilt-live").scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    assert page.locator("[data-state]").count() == 0, "nothing begins before a reader touches it"
    page.get_by_role("button", name="Touch it: load the live model, 4 MB").press("Enter")
    page.wait_for_function("['running', 'failed'].includes(document.querySelector('[data-live]').dataset.state)")
    return page.evaluate("({...document.querySelector('[data-live]').dataset})")


@pytest.mark.parametrize("how", ["http", "file"])
def test_a_live_model_runs_from_a_server_and_from_a_folder_when_it_is_touched(opened, how):
    page, asked = opened(how)
    assert set(asked) <= {"page.html", "live.js", "favicon.ico"}, "nothing is loaded before a reader touches it"
    assert near(page)["answer"] == "3 -4 16"
    assert {"onnxruntime-web-1.30.0.js", "model.js", "script.js"} <= set(asked)


@pytest.mark.parametrize("lacking", ["WebAssembly", "DecompressionStream", "Worker"])
def test_a_browser_that_lacks_something_says_so_and_loads_nothing(opened, lacking):
    page, asked = opened(before=f"delete window.{lacking}")
    assert near(page)["state"] == "failed"
    told = {"Worker": "workers"}.get(lacking, lacking)
    assert page.get_by_role("status").inner_text() == f"The live model cannot run here: this browser has no {told}."
    assert page.get_by_text("No script runs here.").is_visible() and "model.js" not in asked


def test_without_a_script_the_page_s_own_words_stand(opened):
    page, asked = opened(java_script_enabled=False)
    assert page.get_by_text("No script runs here.").is_visible() and "model.js" not in asked


def test_a_pack_that_cannot_be_loaded_is_named(opened):
    page, _ = opened()
    page.route("**/model.js", lambda route: route.abort())
    assert near(page)["state"] == "failed"
    assert "model.js could not be loaded" in page.get_by_role("status").inner_text()
