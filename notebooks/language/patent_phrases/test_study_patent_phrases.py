"""The ladder as it is declared: what each step learns from, reads, and is judged by."""

import copy
import csv
from dataclasses import replace

import numpy as np
import pair_training as pt
import patent_pairs as pp
import phrase_encoder as pe
import pytest
import rating_metrics as rm
import study_patent_phrases as study
import torch
from helpers import data, device, receipts
from helpers.study import Job
from press.study import hold, record
from safetensors.torch import load_file

torch.set_num_threads(1)
ROW = {"anchor": "acid bath", "score": 0}
LEARNT = ("train", "validation", study.RECIPES)
ARMS = {  # starts; train, choice and loss; whether the title is read
    "words": ("shared words", None, None),
    "trigrams": ("shared trigrams", None, None),
    "static": ("token embeddings", None, None),
    "context_mean": ("contexts", ("train", None, None), True),
    "zero_shot": ("bi-encoder", None, False),
    "zero_shot_context": ("bi-encoder", None, True),
    "bi": ("bi-encoder", LEARNT, False),
    "bi_context": ("bi-encoder", LEARNT, True),
    "cross": ("cross-encoder", LEARNT, False),
    "cross_context": ("cross-encoder", LEARNT, True),
    "cross_context_deep": ("cross-encoder", (*LEARNT[:2], study.ALL_LAYERS), True),
    "cross_context_small": (("cross_context", "encoder"), (None, None, {"rank": 16}), True),
    "cross_context_list": ("cross-encoder", LEARNT, True),
    "other_targets": (("cross_context", "encoder"), ("validation", None, {"line": True}), None),
    "mean_of_two": (("bi", "cross_context"), None, None),
}
GAINS = [("bi", "zero_shot"), ("bi_context", "zero_shot"), ("cross", "zero_shot")]
GAINS += [("cross_context", "zero_shot"), ("cross", "bi"), ("cross_context", "cross")]
GAINS += [("bi_context", "bi")]
GAINS += [(f"cross_context_{one}", "cross_context") for one in ("deep", "small", "list")]


def made(rows):
    columns = ("target", "context", "score")
    return pp.pairs(
        ROW | {"id": str(n)} | dict(zip(columns, row, strict=True))
        for n, row in enumerate(rows)
    )


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The pairs of a small train.csv, which `data.fetch` gives: 20 anchors of six pairs."""
    words = ["acid", "gear", "lens", "paper", "water"]
    rows = [
        {"id": f"{a}-{t}-{c}", "anchor": f"{words[a % 5]} part {a}", "target": f"{one} {a}",
         "context": c, "score": (a + t) % 5 / 4}
        for a in range(20) for t, one in enumerate(words[:3]) for c in ("B08", "C07")
    ]  # fmt: skip
    with open(tmp_path / "train.csv", "w", newline="") as text:
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    monkeypatch.setattr(data, "fetch", lambda name: tmp_path)
    return pp.read(tmp_path / "train.csv")


@pytest.fixture
def encoder(monkeypatch):
    """Six small random layers, in place of the packaged ones."""
    torch.manual_seed(0)
    found = pe.Encoder(width=32, heads=4, inner=64, layers=6).eval()
    monkeypatch.setattr(pe, "load", lambda where: copy.deepcopy(found))
    return found


def test_each_step_is_given_what_it_is_named_for(file):
    seen = hold(study.STUDY)
    assert set(seen) == {(name, seed) for name in ARMS for seed in range(2)}
    assert list(study.STUDY.seeds) == [0, 1, 2] and study.STUDY.sizes == {}
    part = pp.split_by_anchor(file.anchor, 0.2, 0.1)
    ids = {name: file.id[part == name].tolist() for name in ("train", "validation", "test")}
    assert [len(ids[name]) for name in ids] == [84, 12, 24]
    for (name, seed), one in seen.items():
        start, learns, title = ARMS[name]
        starts = (start,) if isinstance(start, str) else start
        given = tuple(("made", word, seed) if word in ARMS else word for word in starts)
        given = given[0] if isinstance(start, str) else given
        if learns:
            train, choice, loss = learns
            found = [None if data is None else data.id.tolist() for data in one.job[5:7]]
            assert found == [ids.get(train), ids.get(choice)], name
            assert one.job.arm.loss == loss and one.job.start == given
            assert one.made == ("made", name, seed)
        else:
            assert one.made == given and one.job.train is one.job.choice is None
        assert one.job.arm.setting.get("context") == title, name
        listed = 6 if name == "cross_context_list" else None
        assert one.job.arm.setting.get("listed") == listed and one.job.seed == seed
        pairs, masks = one.tests["test"]
        assert pairs.id.tolist() == ids["test"] and masks["all"].all()


def test_the_recipe_on_a_cpu_is_the_pages(monkeypatch):
    assert study.RECIPES["cpu"] == study.RECIPE == pt.Recipe(4, 1, 32, 1e-4, 0)
    monkeypatch.setattr(device, "_state", type("State", (), {"tier": None}))
    monkeypatch.setattr(device, "gpu", lambda: None)
    job = Job("bi", study.ARMS["bi"], 7, {})
    assert study.recipe_of(job) == study.RECIPE._replace(seed=7)
    assert study.RECIPES["gpu"] == study.RECIPES["big"] == pt.Recipe(0, 4, 32, 5e-5, 0)
    deep = job._replace(arm=study.ARMS["cross_context_deep"])
    assert study.recipe_of(deep) == study.RECIPE._replace(seed=7, frozen=0)


def test_an_anchor_in_two_parts_is_seen(file, monkeypatch):
    drawn = np.random.default_rng(0).random(120)
    mixed = np.where(drawn < 0.2, "test", np.where(drawn < 0.3, "validation", "train"))
    monkeypatch.setattr(pp, "split_by_anchor", lambda *asked: mixed)
    with pytest.raises(ValueError, match="units, such as"):
        hold(study.STUDY)


def test_a_trial_draws_its_anchors(file):
    found = study.parts(0, {"anchors": 10})
    anchors = {anchor for part in found.values() for anchor in part.units}
    assert len(anchors) == 10 and anchors != set(sorted(set(file.anchor))[:10])


def test_slices_are_of_the_test_by_its_shared_words_and_the_training_part(file, monkeypatch):
    asked, whole = [], study.slices
    monkeypatch.setattr(study, "slices", lambda *given: asked.append(given) or whole(*given))
    found = study.parts(0, {})
    ((test, train, words),) = asked
    part = pp.split_by_anchor(file.anchor, 0.2, 0.1)
    assert test.id.tolist() == file.id[part == "test"].tolist()
    assert train.id.tolist() == file.id[part == "train"].tolist()
    both = zip(test.anchor, test.target, strict=True)
    assert words.tolist() == [rm.token_jaccard(*one) for one in both]
    masks = whole(test, train, words)
    assert {name: one.tolist() for name, one in found["test"].data[1].items()} == {
        name: one.tolist() for name, one in masks.items()
    }


def test_the_recorded_parts_share_no_anchor():
    try:
        parts = study.STUDY.parts(0, study.STUDY.sizes)
    except data.DataError as error:
        pytest.skip(f"the data set cannot be had: {error}")
    study.STUDY.apart(parts)
    counted = {name: len(set(part.units)) for name, part in parts.items()}
    assert counted == {"train": 513, "validation": 73, "test": 147}


# What the steps compute


def step(name, encoder=None):
    """What an arm begins with."""
    job = Job(name, study.ARMS[name], 0, {})
    return study.begin(job.arm.start, job)


def test_overlaps_are_of_the_pairs_two_phrases():
    pairs = made([("acid tank", "B08", 0), ("bath", "B08", 1)])
    assert step("words")(pairs) == pytest.approx([1 / 3, 1 / 2])
    wanted = [rm.ngram_jaccard("acid bath", one) for one in ("acid tank", "bath")]
    assert step("trigrams")(pairs).tolist() == wanted


def test_zero_shot_is_the_cosine_of_the_bare_phrases_and_the_title_changes_it(encoder):
    pairs = made([("acid tank", "B08", 0), ("gear", "C07", 1)])
    vectors = [pe.encode(list(one), encoder) for one in (pairs.anchor, pairs.target)]
    bare, titled = step("zero_shot")(pairs), step("zero_shot_context")(pairs)
    np.testing.assert_allclose(bare, (vectors[0] * vectors[1]).sum(1), atol=1e-6)
    other = made([("acid tank", "F16", 0), ("gear", "G02", 1)])
    assert (step("zero_shot")(other) == bare).all()
    assert (np.abs(step("zero_shot_context")(other) - titled) > 1e-4).all()


def test_static_vectors_are_means_of_the_tokens_own_without_their_frame(encoder):
    pairs = made([("acid", "B08", 0), ("gear wheel", "B08", 1)])
    ids = [pe.token_ids([one])[0][1:-1] for one in ("acid bath", "acid", "gear wheel")]
    first, *rest = (encoder.word.weight[one].mean(0) for one in ids)
    wanted = [torch.cosine_similarity(first, one, dim=0).item() for one in rest]
    np.testing.assert_allclose(step("static")(pairs), wanted, atol=1e-6)


def test_models_begin_as_the_recipe_says_with_their_kind_and_title(encoder):
    for name, kind, title, listed in (
        ("bi", "bi-encoder", False, 0),
        ("cross", "cross-encoder", False, 0),
        ("bi_context", "bi-encoder", True, 0),
        ("cross_context", "cross-encoder", True, 0),
        ("cross_context_list", "cross-encoder", True, 6),
    ):
        found = step(name)
        assert (found.scorer.kind, found.context, found.scorer.frozen) == (kind, title, 4)
        assert found.listed == listed
        moved = {n for n, one in found.scorer.encoder.named_parameters() if one.requires_grad}
        assert moved and all(one.startswith(("layers.4", "layers.5")) for one in moved)
    assert step("cross_context_deep").scorer.frozen == 0
    job = Job("other_targets", study.ARMS["other_targets"], 0, {})
    assert isinstance(study.begin("encoder", job), pe.Encoder)


def test_a_context_is_scored_by_its_training_mean():
    train = made([("a", "B08", 0), ("b", "B08", 1), ("c", "C07", 1)])
    test = made([("d", "B08", 0), ("e", "C07", 0), ("f", "A01", 0)])
    job = Job("context_mean", study.ARMS["context_mean"], 0, {}, step("context_mean"), train)
    assert study.fit(job)(test) == pytest.approx([0.5, 1, 2 / 3])


def test_the_weights_that_were_best_on_validation_are_kept(encoder, monkeypatch):
    train = made([("lye", "B08", 0), ("salt", "B08", 1), ("water", "C07", 0.5)])
    choice = made([("soap", "B08", 1), ("gear", "C07", 0)])
    judged, calls, asked, read, texts = iter([0.1, 0.9]), [], [], [], pt.texts

    def fake(scorer, states, uses, score, recipe, told):
        calls.append((len(uses), score.tolist(), recipe))
        for number in (1, 2):
            torch.nn.init.constant_(scorer.last.bias, -number)
            told(number / 2)

    def pearson(found, score):
        asked.append((len(found), score.tolist()))
        return next(judged)

    monkeypatch.setattr(pt, "train", fake)
    monkeypatch.setattr(rm, "pearson", pearson)
    monkeypatch.setattr(pt, "texts", lambda *given: read.append(given[1:]) or texts(*given))
    for name, wanted in (("bi", -2), ("cross_context", -1), ("cross_context_list", -2)):
        job = Job(name, study.ARMS[name], 0, {}, step(name), train, choice)
        found = study.fit(job)
        assert found.scorer.last.bias.item() == wanted
        judged = iter([0.9, 0.1] if wanted == -2 else [0.1, 0.9])
    assert calls == [(3, [0, 1, 0.5], study.RECIPE)] * 3
    assert asked == [(2, [1, 0])] * 6
    kinds = ("bi-encoder", False, 0), ("cross-encoder", True, 0), ("cross-encoder", True, 6)
    assert read == [one for one in kinds for _ in range(2)]


def test_a_tuned_model_reads_what_it_was_tuned_on(encoder, monkeypatch):
    read, scores = [], pt.scores
    monkeypatch.setattr(pt, "scores", lambda *given: read.append(given[2:]) or scores(*given))
    pairs = made([("acid tank", "B08", 0), ("gear", "B08", 1)])
    for name, wanted in (("bi", (False, 0)), ("cross_context_list", (True, 6))):
        step(name)(pairs)
        assert read.pop() == wanted


def test_the_small_file_is_the_tuned_scorers_difference(encoder, monkeypatch):
    tuned, asked = step("cross_context"), []
    torch.nn.init.constant_(tuned.scorer.last.bias, 0.25)
    whole = study.pm.difference
    monkeypatch.setattr(
        study.pm, "difference", lambda *given: asked.append(given[2]) or whole(*given)
    )
    arm = study.ARMS["cross_context_small"]
    found = study.fit(Job("cross_context_small", arm, 0, {}, (tuned, encoder)))
    assert found.scorer is not tuned.scorer and found.context and asked == [16]
    assert found.scorer.last.bias.item() == 0.25 and found.scorer.kind == "cross-encoder"


def test_the_lists_line_is_fitted_without_the_tests_scores(monkeypatch):
    known = made([(word, "B08", n % 5 / 4) for n, word in enumerate("abcdefgh")])
    asked = known[np.arange(8)]
    asked.score[:] = np.nan
    vectors = np.random.default_rng(0).standard_normal((8, 3))
    monkeypatch.setattr(pe, "encode", lambda phrases, encoder: vectors)
    start = (lambda pairs: known.score * 2 - 1), None
    job = Job("other_targets", study.ARMS["other_targets"], 0, {}, start, known)
    assert study.fit(job)(asked) == pytest.approx(known.score)


# Judging


def test_the_slices_part_the_pairs_by_words_and_by_training():
    test = made([("acid", "B08", 0), ("lye", "B08", 1), ("water", "C07", 1)])
    train = made([("lye", "B08", 0), ("salt", "B08", 0)])
    soap = np.array(["soap", "soap"])
    train = pp.Pairs(train.id, soap, train.target, train.context, train.score)
    found = study.slices(test, train, np.array([0.5, 0, 0]))
    assert found["a shared word"].tolist() == [True, False, False]
    assert (found["a shared word"] ^ found["no shared word"]).all()
    assert found["new target"].tolist() == [True, False, True]
    assert found["frequent context"].tolist() == [False, False, False]
    assert found["rare context"].all()


def test_a_context_is_rare_where_training_has_few_of_its_pairs():
    test = made([("acid", "B08", 0), ("lye", "B08", 1), ("water", "C07", 1), ("a", "F16", 0)])
    train = made([("lye", "C07", 0), ("salt", "C07", 0), ("tin", "F16", 0)])
    found = study.slices(test, train, np.zeros(4))
    assert found["frequent context"].tolist() == [False, False, True, True]


def test_an_anchor_has_few_pairs_or_many_in_the_test_itself():
    test = made([(f"t{n}", "B08", 0) for n in range(6)])
    train = made([(f"t{n}", "B08", 0) for n in range(5)])
    test.anchor[:], train.anchor[:] = ["a", "b", "c", "d", "d", "d"], "a"
    found = study.slices(test, train, np.zeros(6))
    assert found["anchor with few pairs"].tolist() == [True] * 3 + [False] * 3
    assert found["anchor with many pairs"].tolist() == [False] * 3 + [True] * 3


def test_agreement_counts_pairs_that_move_the_raters_way():
    rows = [("a", "B08", 0), ("a", "C07", 1), ("b", "B08", 1), ("b", "C07", 0.5)]
    pairs = made(rows)
    pairs.anchor[2:] = "another"
    for scores, wanted in (
        ([0.2, 0.3, 0.1, 0.4], [1, 0]),
        ([0.2, 0.3, 0.4, 0.1], [1, 1]),
        ([0.5, 0.5 + 1e-8, 0.5, 0.5], [0.5, 0.5]),
    ):
        hits, anchors = study.switch_hits(pairs, np.array(scores))
        assert hits.tolist() == wanted and anchors.tolist() == ["acid bath", "another"]


def asked(count=24):
    random = np.random.default_rng(1)
    rows = [(f"t{n // 2}", ("B08", "C07")[n % 2], n * 7 % 5 / 4) for n in range(count)]
    pairs = made(rows)
    pairs = replace(pairs, anchor=np.repeat(["a", "b", "c", "d"], count // 4))
    masks = {"all": np.ones(count, bool), "alike": pairs.score == 0.5}
    return (pairs, masks), random.random((2, count))


def test_a_step_is_judged_by_its_own_scores_against_the_ratings():
    test, (one, other) = asked()
    rated, anchor = test[0].score, test[0].anchor
    job = Job("bi_context", study.ARMS["bi_context"], 0, {}, test="test")
    found = study.judge(lambda pairs: one, test, job)
    assert (found["pearson"], found["spearman"]) == (
        rm.pearson(one, rated),
        rm.spearman(one, rated),
    )
    assert (found["hits"], found["switched"]) == tuple(
        column.tolist() for column in study.switch_hits(test[0], one)
    )
    assert found["slices"] == [found["pearson"], None]  # where all are rated alike: none
    assert found["pairs"] == [24, int((rated == 0.5).sum())]
    assert (found["predicted"], found["rated"]) == (one.tolist(), rated.tolist())
    assert found["anchor"] == anchor.tolist()
    job = Job("mean_of_two", study.ARMS["mean_of_two"], 0, {}, test="test")
    found = study.judge((lambda pairs: one, lambda pairs: other), test, job)
    assert found["predicted"] == pytest.approx((one + other) / 2) and "hits" not in found


def test_gains_are_drawn_by_anchors_and_seeds_and_go_the_named_way():
    test, found, random = asked(40)[0], {}, np.random.default_rng(2)
    rated, anchor = test[0].score, test[0].anchor
    said = {name: rated + random.normal(0, 0.4, (3, 40)) for name in ARMS}
    for name in ARMS:
        job, found[name] = Job(name, study.ARMS[name], 0, {}, test="test"), {}
        for seed, one in enumerate(said[name]):
            told = study.judge(lambda pairs, one=one: one, test, job)
            told["slices"] = [0.5 + seed, None if name == "words" else 0.25]
            found[name][seed] = {"test": told}
    receipt = receipts.start("patent_phrases", "cpu")
    record(study.STUDY, receipt, found)

    def same(label, wanted, unit):
        kept = receipt.metrics[label]
        assert (kept["value"], kept["low"], kept["high"]) == pytest.approx(wanted)
        assert kept["unit"] == unit and "95 %" in kept["note"] and "seeds" in kept["note"]

    for one, less in GAINS:
        wanted = rm.gain_interval(said[one], said[less], rated, anchor)
        same(f"study_{one}_over_{less}", wanted, "r")
    for name in ARMS:
        same(f"study_{name}_pearson", rm.pearson_interval(said[name], rated, anchor), "r")
        assert receipt.metrics[f"study_{name}_spearman"]["value"] == pytest.approx(
            np.mean([rm.spearman(one, rated) for one in said[name]])
        )
    titled = [name for name, (*_, title) in ARMS.items() if title]
    for name in titled:
        hits = [study.switch_hits(test[0], one) for one in said[name]]
        wanted = rm.share_interval(np.array([one for one, _ in hits]), hits[0][1])
        same(f"study_{name}_switch", wanted, "share")
    assert sum(name.endswith("_switch") for name in receipt.metrics) == len(titled)
    trained = [name for name, arm in study.ARMS.items() if arm.choice]
    curves = {f"study_calibration_{name}" for name in trained}
    assert len(trained) == 6 and set(receipt.curves) == {*curves, "study_slices", "study_seeds"}
    curve = receipt.curves["study_calibration_bi"]
    mean, by_raters, count = rm.calibration(said["bi"].ravel(), np.tile(rated, 3)).T.tolist()
    assert curve == {"predicted": mean, "rated": by_raters, "pairs": count}
    assert receipt.curves["study_seeds"] == {
        name: [rm.pearson(one, rated) for one in said[name]] for name in trained
    }
    assert set(receipt.curves["study_slices"]) == {"pairs", *ARMS} - {"words"}
    assert receipt.curves["study_slices"]["bi"] == [1.5, 0.25]


def test_the_page_gets_the_difference_of_the_cross_encoder_that_reads_titles(
    file, encoder, tmp_path, monkeypatch
):
    jobs = []

    def fit(job):
        jobs.append(job)
        torch.nn.init.constant_(job.start.scorer.last.bias, len(jobs))
        return job.start

    small = replace(study.STUDY.small(), fit=fit)
    threads = torch.get_num_threads()
    study.write_shown(tmp_path / "d.safetensors", small)
    torch.set_num_threads(threads)
    kept = {name: one.item() for name, one in load_file(tmp_path / "d.safetensors").items()}
    assert kept == {"last.weight": 1, "last.bias": 1}
    ours, studys = jobs[0], hold(study.STUDY)["cross_context", 0].job
    assert (ours.start.scorer.kind, ours.start.context) == ("cross-encoder", True)
    assert (ours.name, ours.arm, ours.seed) == (studys.name, studys.arm, studys.seed)
    for one, other in zip(ours[5:7], studys[5:7], strict=True):
        assert one.id.tolist() == other.id.tolist()
