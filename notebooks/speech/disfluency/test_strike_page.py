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


def pack(*examples):
    """The HTML of a live pack, and its files as bytes."""
    made = strike_page.live_pack(network(), VOCABULARY, examples, "<p>still</p>")
    files = made[strike_page.MIME]["files"]
    content = {name: base64.b64decode(file["base64"]) for name, file in files.items()}
    for name, file in files.items():
        assert hashlib.sha256(content[name]).hexdigest() == file["sha256"]
    return made["text/html"], content


def test_an_exported_step_is_that_of_the_network():
    onnxruntime = pytest.importorskip("onnxruntime")
    net = network(causal=True)
    made = strike_page.onnx_step(net)
    session = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    assert names == ["id", "at", "key0", "value0", "key1", "value1"]
    ids = torch.randint(2, 30, (1, dl.LONGEST))
    whole, cache = net(ids)[0].detach(), [np.zeros((1, 4, 0, 4), np.float32)] * 4
    for at in range(ids.shape[1]):
        given = dict(
            zip(names, [ids[:, at : at + 1].numpy(), np.array([at]), *cache], strict=True)
        )
        found, *cache = session.run(None, given)
        check.close(found, whole[:, at], atol=1e-4, why="float32 in another order")


def test_the_page_gets_a_file_with_matrices_in_int8():
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    files = [strike_page.onnx(network(), int8=False), pack("Who did?")[1]["strike.onnx"]]
    kinds = [
        {one.data_type for one in onnx.load_from_string(file).graph.initializer}
        for file in files
    ]
    assert [onnx.TensorProto.INT8 in found for found in kinds] == [False, True]


def test_each_kind_of_network_has_its_own_export():
    with pytest.raises(ValueError, match="word by word"):
        strike_page.onnx(network(causal=True))
    with pytest.raises(ValueError, match="no step"):
        strike_page.onnx_step(network())


def test_the_pack_holds_what_the_script_needs():
    pytest.importorskip("onnxruntime")
    html, files = pack("Who did, no, what?")
    meta = json.loads(files["meta.json"])
    assert meta["examples"][0]["ids"] == [2, 3, 4, 5]
    assert len(meta["examples"][0]["wait"]) == 4 and meta["longest"] == dl.LONGEST
    assert html == "<p>still</p>"


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


def test_a_word_has_begun_where_its_first_letter_is(page):
    counts = "[0, 1, 2, 5, 6, 99].map((letter) => begun(['a', 'bcd', 'e'], letter))"
    assert page.evaluate(counts) == [1, 1, 2, 2, 3, 3]


VOICES = """(voices) => {
  globalThis.SpeechSynthesisUtterance = function (text) { this.text = text; };
  globalThis.synth = { getVoices: () => voices, speak: (one) => { globalThis.said = one; } };
}"""
LOCAL = {"lang": "en-GB", "localService": True}


def test_only_a_voice_of_this_machine_speaks_english(page):
    others = [{"lang": "en-US", "localService": False}, {"lang": "de-DE", "localService": True}]
    for voices, wanted in (([], None), (others, None), ([*others, LOCAL], LOCAL)):
        page.evaluate(VOICES, voices)
        assert page.evaluate("localVoice(synth, 60)") == wanted
    assert page.evaluate("localVoice(undefined, 60)") is None


def test_a_word_arrives_when_the_voice_begins_it(page):
    page.evaluate(VOICES, [LOCAL])
    page.evaluate(
        "globalThis.told = {}; speak(['who', 'won'], told, synth.getVoices()[0], synth)"
    )
    assert page.evaluate("[said.text, said.voice.lang, said.lang]") == [
        "who won",
        "en-GB",
        "en-GB",
    ]
    arrived = "[0, 1, 2].map((shown) => arrived(told, shown, 100))"
    assert page.evaluate(arrived) == [False] * 3
    page.evaluate("said.onstart(); said.onboundary({ charIndex: 0 })")
    assert page.evaluate(arrived) == [True, False, False]
    page.evaluate("said.onboundary({ charIndex: 4 })")
    assert page.evaluate(arrived) == [True, True, False]
    page.evaluate("said.onend()")
    assert page.evaluate(arrived) == [True] * 3


def test_a_voice_that_marks_no_words_is_followed_by_the_clock(page):
    told = "{ started: performance.now() - 1000 }"
    assert page.evaluate(f"[100, 400].map((ms) => arrived({told}, 1, ms))") == [False, True]
    assert page.evaluate("arrived({ started: performance.now() }, 1, 400)") is False


def test_without_a_voice_words_come_by_the_clock_and_the_page_says_why(page):
    page.evaluate(VOICES, [LOCAL])
    page.evaluate("globalThis.told = {}; speak(['who'], told, synth.getVoices()[0], synth, 30)")
    page.wait_for_function("told.silent")
    assert page.evaluate("told.silent") == "the browser's voice did not begin"
    assert page.evaluate("[100, 300].map((ms) => arrived(told, 0, ms))") == [False, True]
    page.evaluate("globalThis.told = {}; speak(['who'], told, synth.getVoices()[0], synth)")
    page.evaluate("said.onerror({ error: 'audio-busy' })")
    assert "audio-busy" in page.evaluate("told.silent")


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


APP = """async (meta) => {
  const element = document.body.appendChild(document.createElement("div"));
  const gone = (ids) => ids.map((n) => (n === 4 ? 1 : -1));
  const answer = (ids) => ({ disfluent: gone(ids), wait: ids.map(() => -1) });
  const worker = { postMessage: ({ id, ids }) => setTimeout(() => {
    worker.onmessage({ data: { id, took: 1, ...answer(ids ?? []) } });
  }) };
  const tools = { text: async () => JSON.stringify(meta), bytes: async () => new Uint8Array(1),
    onnxWorker: async () => worker, status: document.createElement("p") };
  await app(element, tools);
  globalThis.element = element;
}"""


def test_a_sentence_is_played_without_a_voice_and_the_page_says_so(browser):
    page = browser.new_page()
    start = "globalThis.rebuiltLive = { start: (name, run) => { globalThis.app = run; } };"
    page.set_content(f"<script>{start}</script><script>{SCRIPT}</script>")
    page.evaluate("Object.defineProperty(globalThis, 'speechSynthesis', { value: undefined })")
    one = {"text": "Who did no what?", "ids": [2, 3, 4, 5]}
    one |= {"disfluent": [-1, -1, 1, -1], "wait": [-1] * 4}
    words = {"words": VOCABULARY.words, "buckets": VOCABULARY.buckets, "longest": 96}
    page.evaluate(APP, words | {"examples": [one]})
    page.click(".strike-play")
    page.wait_for_function("element.dataset.said")
    assert page.evaluate("element.dataset.states") == "kept kept gone kept"
    assert page.is_visible("text=Without sound, by a clock: this browser has no English voice")
    page.uncheck("#strike-voice")
    page.click(".strike-play")
    page.wait_for_function("element.dataset.said.includes('switched off')")
    page.close()
