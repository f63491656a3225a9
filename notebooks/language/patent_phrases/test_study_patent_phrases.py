"""What the study counts, without its trainings."""

import numpy as np
import patent_pairs as pp
import study_patent_phrases as study

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
    pairs = made([("a", "B08", 0), ("a", "C07", 1), ("b", "B08", 1), ("b", "C07", 0.5)])
    assert study.switch_agreement(pairs, np.array([0.2, 0.3, 0.1, 0.4])) == (0.5, 2)
    assert study.switch_agreement(pairs, np.array([0.5, 0.5, 0.5, 0.5])) == (0.0, 2)


def test_what_was_kept_is_not_made_again(tmp_path):
    first = study.kept(tmp_path / "a.npz", lambda: {"x": np.arange(3)})
    again = study.kept(tmp_path / "a.npz", lambda: {"x": np.arange(4)})
    assert first["x"].tolist() == again["x"].tolist() == [0, 1, 2]
    assert study.kept(None, lambda: {"x": np.arange(4)})["x"].tolist() == [0, 1, 2, 3]
