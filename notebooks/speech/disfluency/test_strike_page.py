"""The exported network equals PyTorch's, and the page's script counts words as Python does."""

import base64
import hashlib
import json
from pathlib import Path

import disfl_labels as dl
import numpy as np
import prefix_network as pn
import pytest
import strike_page
import torch
from helpers import check, data

SCRIPT = Path(__file__).with_name("disfluency_live.js").read_text(encoding="utf-8")
VOCABULARY = dl.Vocabulary(["who", "did", "no", "what"], 26)
ODD = [
    "It's, uh, FINE!",
    "naïve Café",
    "мяч 球形",
    "don't_stop 12,5",
    "",
    "x" * 300,
    "ﬁber ½",
    "a\u00a0b\n\tc",
]


def network(causal=False):
    torch.manual_seed(0)
    return pn.PrefixNetwork(len(VOCABULARY), 16, causal=causal).eval()


@pytest.mark.parametrize(("int8", "limit"), [(False, 1e-4), (True, 0.1)])
def test_the_exported_network_answers_as_pytorch_does(int8, limit):
    onnxruntime = pytest.importorskip("onnxruntime")
    net = network()
    session = onnxruntime.InferenceSession(
        strike_page.onnx(net, int8), providers=["CPUExecutionProvider"]
    )
    for length in (1, 2, 17, dl.LONGEST):
        ids = torch.randint(2, 30, (1, length))
        for got, want in zip(session.run(None, {"ids": ids.numpy()}), net(ids), strict=True):
            check.close(
                got, want[..., 0].detach(), atol=limit, why="float32, or int8 of 16 wide"
            )


def test_the_page_gets_a_file_with_matrices_in_int8():
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    page = strike_page.live_page(network(), VOCABULARY, ["Who did?"], "<p>still</p>")
    files = [strike_page.onnx(network(), int8=False), page.files["strike.onnx"]]
    kinds = [
        {one.data_type for one in onnx.load_from_string(file).graph.initializer}
        for file in files
    ]
    assert [onnx.TensorProto.INT8 in found for found in kinds] == [False, True]


def test_a_causal_network_is_not_exported():
    with pytest.raises(ValueError, match="whole prefix"):
        strike_page.onnx(network(causal=True))


def test_the_pack_holds_what_the_script_needs():
    pytest.importorskip("onnxruntime")
    page = strike_page.live_page(network(), VOCABULARY, ["Who did, no, what?"], "<p>still</p>")
    bundle = page._repr_mimebundle_()
    files = bundle[strike_page.MIME]["files"]
    for file in files.values():
        content = base64.b64decode(file["base64"])
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
    meta = json.loads(base64.b64decode(files["meta.json"]["base64"]))
    assert meta["examples"][0]["ids"] == [2, 3, 4, 5]
    assert len(meta["examples"][0]["wait"]) == 4 and meta["longest"] == dl.LONGEST
    assert bundle["text/html"] == "<p>still</p>"


@pytest.fixture(scope="module")
def page(browser):
    made = browser.new_page()
    made.set_content(f"<script>{SCRIPT}</script>")
    return made


def test_the_script_splits_and_numbers_words_as_python_does(page):
    texts = list(ODD)
    try:
        path = data.fetch("disfl_qa", ["dev.json"]) / "dev.json"
        texts += [row["disfluent"] for row in json.loads(path.read_text("utf-8")).values()]
    except data.DataError:
        pass
    found = page.evaluate("texts => texts.map(wordsOf)", texts)
    assert [tuple(words) for words in found] == [dl.words_of(text) for text in texts]
    words = sorted({word for one in found for word in one})
    numbers = page.evaluate(
        "([kept, buckets, words]) => vocabulary(kept, buckets)(words)",
        [list(VOCABULARY.words), VOCABULARY.buckets, words],
    )
    assert numbers == [VOCABULARY([word])[0] for word in words]


def test_a_typographic_apostrophe_is_read_as_a_plain_one(page):
    assert page.evaluate("typedWords('It’s, uh, fine')") == ["it's", "uh", "fine"]


@pytest.mark.parametrize("ended", [False, True])
def test_the_script_shows_what_the_systems_predict(page, ended):
    import word_stream as ws

    rng = np.random.default_rng(0)
    for _ in range(20):
        disfluent, wait = rng.normal(size=(2, 5)).tolist()
        cost = float(rng.choice([0.25, 1, 3]))
        got = page.evaluate(
            "([f, e, c]) => shown(f, e, c)",
            [{"disfluent": disfluent, "wait": wait}, ended, cost],
        )
        rows = [torch.full((6, 6), -torch.inf) for _ in range(2)]
        for row, values in zip(rows, (disfluent, wait), strict=True):
            row[4, :5] = torch.tensor(values)
        size = 5 if ended else 6  # a sixth word is still to come
        said = ws.predictions(tuple(row[:size, :size] for row in rows), None, cost)[4]
        assert got == [{1: "gone", 0: "kept", None: "open"}[label] for label in said]
