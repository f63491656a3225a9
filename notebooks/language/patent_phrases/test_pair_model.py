"""The small file gives the scorer back; the int8 network agrees with PyTorch."""

import base64
import hashlib
import json

import numpy as np
import pair_model as pm
import pair_training as pt
import patent_pairs as pp
import phrase_encoder as pe
import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def pairs():
    rows = [("acid", "B08"), ("acid", "C07"), ("gear", "F16"), ("lens", "G02")]
    made = [(a, b, c) for a in ("acid bath", "gear wheel") for b, c in rows]
    columns = ("anchor", "target", "context")
    return pp.pairs(
        dict(zip(columns, row, strict=True)) | {"id": str(n), "score": n % 5 / 4}
        for n, row in enumerate(made)
    )


@pytest.fixture(scope="module")
def trained(pairs):
    """(encoder, scorer): four small random layers, the upper two trained for a while."""
    torch.manual_seed(0)
    encoder = pe.Encoder(width=32, heads=4, inner=64, layers=4).eval()
    recipe = pt.Recipe(2, 5, 4, 1e-3)
    return encoder, pt.fine_tuned(encoder, pairs, "cross-encoder", True, recipe)[0]


def test_at_full_rank_the_scorer_comes_back(trained, pairs):
    encoder, scorer = trained
    again = pm.restored(encoder, pm.difference(scorer, encoder, rank=99), "cross-encoder", 2)
    wanted = pt.scores(scorer, pairs, True)
    np.testing.assert_allclose(pt.scores(again, pairs, True), wanted, atol=2e-3)  # float16


def test_a_lower_rank_keeps_less_and_is_nearest_in_its_singular_values(trained):
    encoder, scorer = trained
    name = "layers.3.wide.weight"
    moved = scorer.encoder.state_dict()[name] - encoder.state_dict()[name]
    kept = pm.difference(scorer, encoder, rank=4)
    product = kept[f"{name}:left"].float() @ kept[f"{name}:right"].float()
    lost = torch.linalg.svdvals(moved)[4:].square().sum().sqrt()
    torch.testing.assert_close((moved - product).norm(), lost, rtol=1e-2, atol=1e-4)


def test_frozen_layers_are_not_in_the_file(trained):
    encoder, scorer = trained
    names = pm.difference(scorer, encoder)
    assert all(name.startswith(("last.", "layers.2.", "layers.3.")) for name in names)


def test_a_file_of_another_encoder_is_refused(trained):
    encoder, scorer = trained
    kept = pm.difference(scorer, encoder) | {"layers.9.wide.bias": torch.zeros(64)}
    with pytest.raises(ValueError, match="layers.9.wide.bias is no weight"):
        pm.restored(encoder, kept, "cross-encoder", 2)


def test_the_int8_network_agrees_for_any_lengths(trained, pairs):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    _, scorer = trained
    kept = pm.kept_tokens(pairs.target.tolist() + pairs.anchor.tolist())
    content = pm.int8_network(scorer, kept)
    held = {one.name: one for one in onnx.load_from_string(content).graph.initializer}
    big = [one for one in held if np.prod(held[one].dims) > 10_000 and ":scale" not in one]
    assert big and all(held[one].data_type == onnx.TensorProto.INT8 for one in big)
    found, wanted = pm.int8_scores(content, kept, pairs), pt.scores(scorer, pairs, True)
    np.testing.assert_allclose(found, wanted, atol=0.01)  # eight bits of the embeddings
    assert np.corrcoef(found, wanted)[0, 1] > 0.95


def test_each_matrix_is_rounded_by_its_own_rows_or_columns(trained):
    onnx = pytest.importorskip("onnx")
    encoder = pe.Encoder(width=128, heads=4, inner=256, layers=1).eval()
    with torch.no_grad():
        encoder.layers[0].wide.weight[0] *= 1000  # one output far larger than the others
        encoder.word.weight[5000] *= 1000
    kept = pm.kept_tokens([])
    model = onnx.load_from_string(
        pm.int8_network(pt.PairScorer(encoder, "cross-encoder", 0), kept)
    )
    held = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    names = [name.removesuffix(":int8") for name in held if name.endswith(":int8")]
    whole = {name: held[f"{name}:int8"] * held[f"{name}:scale"] for name in names}
    words = next(one for name, one in whole.items() if name.endswith("word.weight"))
    wanted = encoder.word.weight[torch.from_numpy(kept)].detach().numpy()
    half = np.abs(wanted).max(1, keepdims=True) / 127 / 2
    assert (np.abs(words - wanted) <= half * 1.001).all()
    wide = next(one for one in whole.values() if one.shape == (128, 256))
    wanted = encoder.layers[0].wide.weight.detach().numpy().T
    assert (np.abs(wide - wanted) <= np.abs(wanted).max(0) / 127 / 2 * 1.001).all()


def test_the_vocabulary_says_which_tokens_the_browser_has():
    kept = pm.kept_tokens(["acid"])
    lines = pm.vocabulary(kept).split("\n")
    assert len(lines) == pe.WORDS
    assert lines[pe.PAD] == "[PAD]\t0"
    for token in pe.token_ids(["acid"])[0]:
        word, row = lines[token].split("\t")
        assert (pe.tokeniser().token_to_id(word), kept[int(row)]) == (token, token)
    assert lines[pe.UNKNOWN] == "[UNK]"


def test_the_browser_has_the_tokens_of_all_titles_and_known_phrases():
    kept = set(pm.kept_tokens(["phthalocyanine"]).tolist())
    wanted = {token for one in pe.token_ids([*pp.titles().values()]) for token in one}
    assert wanted - set(pm.FREQUENT) - {101, 102}  # some are none of the frequent words
    wanted |= set(pe.token_ids(["phthalocyanine"])[0])
    assert wanted <= kept and set(pm.FREQUENT) <= kept
    assert len(kept) < len(wanted | set(pm.FREQUENT)) + 5


def test_the_page_hands_its_files_to_the_press(pairs):
    scored = np.arange(len(pairs)) / 10
    bundle = pm.live_bundle(b"network", np.array([0, 7]), pairs, scored, "<p>words</p>")
    assert bundle["text/html"] == "<p>words</p>" and bundle[pm.MIME]["name"] == "pairs"
    files = bundle[pm.MIME]["files"]
    held = {name: base64.b64decode(one["base64"]) for name, one in files.items()}
    assert set(held) == {"pairs.onnx", "vocabulary.txt", "meta.json"}
    assert all(
        files[name]["sha256"] == hashlib.sha256(one).hexdigest() for name, one in held.items()
    )
    assert held["pairs.onnx"] == b"network"
    meta = json.loads(held["meta.json"])
    assert meta["bound"] == pm.BOUND == 0.02 and meta["titles"] == pp.titles()
    assert meta["examples"][0] == {
        "anchor": "acid bath",
        "target": "acid",
        "ratings": {"B08": 0, "C07": 0.25},
        "scores": {"B08": 0, "C07": 0.1},
    }
    assert len(meta["examples"]) == 6
