"""Reading, what is refused, splits, the lists of other targets."""

import numpy as np
import patent_pairs as pp
import pytest

ROW = {
    "id": "1",
    "anchor": "acid absorption",
    "target": "acid reflux",
    "context": "B08",
    "score": "0",
}


def many(anchors=20, each=3):
    rows = [
        {
            **ROW,
            "id": f"{a}-{t}",
            "anchor": f"anchor {a}",
            "target": f"target {t}",
            "score": f"{t % 5 / 4}",
        }
        for a in range(anchors)
        for t in range(each)
    ]
    return pp.pairs(rows)


def test_a_row_becomes_columns(tmp_path):
    (tmp_path / "train.csv").write_text(
        "id,anchor,target,context,score\n7,abatement,act of abating,A47,0.75\n"
    )
    found = pp.read(tmp_path / "train.csv")
    assert tuple(getattr(found, name)[0] for name in pp.COLUMNS) == (
        "7", "abatement", "act of abating", "A47", 0.75,
    )  # fmt: skip


def test_rows_without_scores_have_nan(tmp_path):
    (tmp_path / "test.csv").write_text(
        "id,anchor,target,context\n7,abatement,act of abating,A47\n"
    )
    assert np.isnan(pp.read(tmp_path / "test.csv", scored=False).score).all()
    with pytest.raises(ValueError, match="lacks the column score"):
        pp.read(tmp_path / "test.csv")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"context": "Z99"}, "context 'Z99' is unknown; allowed are the 106"),
        ({"target": "  "}, "the target is '  '"),
        ({"target": "\u200b"}, "at least one visible sign"),
        ({"anchor": "\x00 "}, "at least one visible sign"),
        ({"anchor": None}, "the anchor is None"),
        ({"target": "x" * 10_000}, "10000 letters, at most 200"),
        ({"score": "nan"}, "score 'nan'; raters gave"),
        ({"score": "0.3"}, "raters gave 0.0, 0.25"),
        ({"score": ""}, "score ''"),
        ({"score": "-0"}, "score '-0'"),
    ],
)
def test_a_bad_row_is_named_with_its_line(changed, told):
    with pytest.raises(ValueError, match=rf"line 3, id '2': .*{told}"):
        pp.pairs([ROW, {**ROW, "id": "2"} | changed])


def test_an_id_that_comes_twice_is_refused():
    with pytest.raises(ValueError, match="came before"):
        pp.pairs([ROW, ROW])


def test_phrases_in_other_scripts_are_read():
    assert pp.pairs([{**ROW, "target": "кислота"}]).target[0] == "кислота"


def test_there_is_a_short_title_for_each_of_the_106_contexts():
    assert len(pp.titles()) == 106
    assert all(
        len(title.split()) <= 7 and title == title.strip() for title in pp.titles().values()
    )
    assert len(set(pp.titles().values())) == 106


def test_all_pairs_of_an_anchor_are_in_one_part():
    pairs = many()
    part = pp.split_by_anchor(pairs.anchor, test=0.2, validation=0.1, seed=1)
    assert all(len(set(part[pairs.anchor == anchor])) == 1 for anchor in pairs.anchor)
    assert {name: (part == name).sum() for name in set(part)} == {
        "test": 12,
        "validation": 6,
        "train": 42,
    }


def test_anchors_are_drawn_by_the_seed():
    anchors, drawn = many().anchor, []
    for seed in range(20):
        part = pp.split_by_anchor(anchors, test=0.2, validation=0.1, seed=seed)
        again = pp.split_by_anchor(anchors, test=0.2, validation=0.1, seed=seed)
        assert (part == again).all()
        drawn += [{*anchors[part == name].tolist()} for name in ("test", "validation")]
    for parts in (drawn[::2], drawn[1::2]):
        times = [sum(one in held for held in parts) for one in set(anchors)]
        assert max(times) < 12 and len(set().union(*parts)) > 10


@pytest.mark.parametrize(("test", "validation"), [(0.01, 0), (0.2, 0.01), (0.6, 0.4)])
def test_a_part_that_would_be_empty_is_refused(test, validation):
    with pytest.raises(ValueError, match="would be empty"):
        pp.split_by_anchor(many().anchor, test, validation)


def test_new_pairs_share_no_phrase_with_training():
    train = pp.pairs([ROW])
    rows = [
        ("acid absorption", "a"),
        ("b", "acid reflux"),
        ("b", "acid absorption"),
        ("b", "c"),
    ]
    rows = [{**ROW, "id": str(n), "anchor": a, "target": t} for n, (a, t) in enumerate(rows)]
    assert pp.is_new(pp.pairs(rows), train).tolist() == [False, False, False, True]


def test_other_targets_share_anchor_and_context_only():
    rows = [("x", "B08"), ("x", "B08"), ("x", "A47"), ("y", "B08")]
    pairs = pp.pairs(
        [{**ROW, "id": str(n), "anchor": a, "context": c} for n, (a, c) in enumerate(rows)]
    )
    assert [one.tolist() for one in pp.other_targets(pairs)] == [[1], [0], [], []]


def test_switched_pairs_have_one_wording_and_two_scores():
    rows = [("A21", "0.5"), ("H01", "1"), ("B08", "0.5")]
    pairs = pp.pairs(
        [{**ROW, "id": str(n), "context": c, "score": s} for n, (c, s) in enumerate(rows)]
    )
    assert pp.switched(pairs) == [(0, 1)]
    assert pp.switched(many(2)) == []
