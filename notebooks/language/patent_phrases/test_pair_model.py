"""The small file gives the scorer back; the int8 network agrees with PyTorch."""

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
    onnx, onnxruntime = map(pytest.importorskip, ("onnx", "onnxruntime"))
    _, scorer = trained
    made = pt.texts(pairs, "cross-encoder", True)
    kept = pm.kept_tokens(made.ids)
    content = pm.int8_network(scorer, kept)
    kinds = {one.data_type for one in onnx.load_from_string(content).graph.initializer}
    assert onnx.TensorProto.INT8 in kinds
    session = onnxruntime.InferenceSession(content)
    found = []
    for one, (first, second) in zip(made.ids, made.ends, strict=True):
        at = np.arange(len(one))
        phrase = np.float32([[at < first, (at >= first) & (at < second)]])
        rows = np.searchsorted(kept, one)[None]
        found.append(session.run(None, {"rows": rows, "phrase": phrase})[0].item())
    wanted = pt.scores(scorer, pairs, True)
    np.testing.assert_allclose(
        np.array(found)[made.uses[:, 0]], wanted, atol=0.06
    )  # eight bits


def test_the_vocabulary_says_which_tokens_the_browser_has():
    ids = pe.token_ids(["acid"])
    kept = pm.kept_tokens(ids)
    lines = pm.vocabulary(kept).split("\n")
    assert len(lines) == pe.WORDS
    assert lines[pe.PAD] == "[PAD]\t0"
    for token in ids[0]:
        word, row = lines[token].split("\t")
        assert (pe.tokeniser().token_to_id(word), kept[int(row)]) == (token, token)
    assert lines[pe.UNKNOWN] == "[UNK]"


def test_the_browser_has_the_tokens_of_all_titles_and_known_phrases(trained, pairs):
    pytest.importorskip("onnxruntime")
    _, scorer = trained
    known = pp.Pairs(
        *(getattr(pairs, name) for name in ("id", "anchor")),
        np.array(["phthalocyanine"] * len(pairs)), pairs.context, pairs.score,
    )  # fmt: skip
    page = pm.live_page(scorer, pairs, [[0, 1]], known, "<p>words</p>")
    lines = page.files["vocabulary.txt"].decode().split("\n")
    wanted = {token for one in pe.token_ids([*pp.titles().values()]) for token in one}
    assert wanted - set(pm.FREQUENT) - {101, 102}  # some are none of the frequent words
    wanted |= set(pe.token_ids(["phthalocyanine"])[0])
    assert all("\t" in lines[token] for token in wanted)


def test_the_page_hands_its_files_to_the_press(trained, pairs):
    pytest.importorskip("onnxruntime")
    encoder, scorer = trained
    page = pm.live_page(scorer, pairs, [[0, 1]], pairs, "<p>words</p>")
    bundle = page._repr_mimebundle_()
    assert set(bundle[pm.MIME]["files"]) == {"pairs.onnx", "vocabulary.txt", "meta.json"}
    assert bundle["text/html"] == "<p>words</p>"
