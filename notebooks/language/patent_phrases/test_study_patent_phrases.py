"""What the study counts, without its trainings."""

import numpy as np
import patent_pairs as pp
import phrase_encoder as pe
import pytest
import study_patent_phrases as study
import torch

ROW = {"anchor": "acid bath", "score": 0}


def made(rows):
    columns = ("target", "context", "score")
    return pp.pairs(
        ROW | {"id": str(n)} | dict(zip(columns, row, strict=True))
        for n, row in enumerate(rows)
    )


def test_the_slices_part_the_pairs_by_words_and_by_training():
    test = made([("acid", "B08", 0), ("lye", "B08", 1), ("water", "C07", 1)])
    train = made([("lye", "B08", 0), ("salt", "B08", 0)])
    train = pp.Pairs(
        train.id, np.array(["soap", "soap"]), train.target, train.context, train.score
    )
    found = study.slices(test, train, np.array([0.5, 0, 0]))
    assert found["a shared word"].tolist() == [True, False, False]
    assert (found["a shared word"] ^ found["no shared word"]).all()
    assert found["new target"].tolist() == [True, False, True]
    assert found["frequent context"].tolist() == [False, False, False]
    assert found["rare context"].all()


def test_agreement_counts_pairs_that_move_the_raters_way():
    rows = [("a", "B08", 0), ("a", "C07", 1), ("b", "B08", 1), ("b", "C07", 0.5)]
    pairs = made(rows + [(f"{target}2", *rest) for target, *rest in rows])
    pairs.anchor[4:] = "another"
    for scores, wanted in (
        ([0.2, 0.3, 0.1, 0.4], 0.5),
        ([0.2, 0.3, 0.4, 0.1], 1),
        ([0.5, 0.5 + 1e-8, 0.5, 0.5], 0.5),
    ):
        assert study.switch_agreement(pairs, np.array(scores * 2)).value == wanted


def test_a_context_is_scored_by_its_training_mean():
    train = made([("a", "B08", 0), ("b", "B08", 1), ("c", "C07", 1)])
    test = made([("d", "B08", 0), ("e", "C07", 0), ("f", "A01", 0)])
    assert study.by_context(train, test) == pytest.approx([0.5, 1, 2 / 3])


def test_the_weights_that_were_best_on_validation_are_kept(monkeypatch):
    pairs = made([("lye", "B08", 0), ("salt", "B08", 1), ("water", "C07", 0.5)])
    judged = iter([0.1, 0.9])

    def train(scorer, states, uses, score, recipe, told):
        for step in (1, 2):
            torch.nn.init.constant_(scorer.last.bias, -step)
            told(step / 2)

    monkeypatch.setattr(study.pt, "train", train)
    monkeypatch.setattr(study.rm, "pearson", lambda *both: next(judged))
    torch.manual_seed(0)
    encoder = pe.Encoder(width=32, heads=4, inner=64, layers=5)
    texts = {"train": study.pt.texts(pairs, "bi-encoder", True)}
    texts["validation"] = texts["train"]  # and no test part, which chooses nothing
    states = {part: study.pt.States(encoder, one, 4) for part, one in texts.items()}
    score = dict.fromkeys(texts, pairs.score)
    for wanted in (-2, -1):
        scorer = study.pt.PairScorer(encoder, "bi-encoder", 4)
        study.best_on_validation(scorer, texts, states, score)
        assert scorer.last.bias.item() == wanted
        judged = iter([0.9, 0.1])


def test_the_lists_line_is_fitted_without_the_tests_scores(monkeypatch):
    known = made([(word, "B08", n % 5 / 4) for n, word in enumerate("abcdefgh")])
    asked = known[np.arange(8)]
    asked.score[:] = np.nan
    vectors = np.random.default_rng(0).standard_normal((8, 3))
    monkeypatch.setattr(study.pe, "encode", lambda phrases, encoder: vectors)
    scored = dict.fromkeys(("validation", "test"), known.score * 2 - 1)
    parts = {"validation": known, "test": asked}
    assert study.beside_others(None, parts, scored) == pytest.approx(known.score)


def test_a_ladder_that_lacks_a_model_is_not_recorded(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(study, "ladder", lambda *rest: {})
    monkeypatch.setattr(study, "record", lambda *rest: pytest.fail("recorded"))
    study.main(["--only", "bi", "--anchors", "12"])
    assert "lacks" in capsys.readouterr().out


def test_what_was_kept_is_not_made_again(tmp_path):
    first = study.kept(tmp_path / "a.npz", lambda: {"x": np.arange(3)})
    again = study.kept(tmp_path / "a.npz", lambda: {"x": np.arange(4)})
    assert first["x"].tolist() == again["x"].tolist() == [0, 1, 2]
    assert study.kept(None, lambda: {"x": np.arange(4)})["x"].tolist() == [0, 1, 2, 3]
