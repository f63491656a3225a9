"""The study of systems as it is declared: who learns what, from where, who is judged how."""

import json
import math
from dataclasses import asdict, replace

import disfl_labels as dl
import numpy as np
import prefix_network as pn
import prefix_training as pt
import pytest
import study_disfluency as study
import torch
import word_stream as ws
from helpers import data, receipts
from helpers.study import Job, differences
from press.study import hold, record, run
from scipy import stats

torch.set_num_threads(1)
PLAIN = {"rate": 2e-3, "gamma": 1.9, "latency": 0.35, "dropout": 0.2, "new_head": False}
FULL = {"kind": "full", "epochs": 96, "draws": 3, "batch": 2048, **PLAIN}
PREFIXES = {"kind": "prefixes", "epochs": 32, "draws": 2, "batch": 2048, **PLAIN}
WAITING = {"kind": "logistic", "epochs": 4, "draws": 2, "batch": 1024, **PLAIN}
PAPER = {**WAITING, "kind": "printed", "latency": 1.5e-7}
PRINTED = ("printed ours", "printed paper", "printed default")
TRAINED = {  # start, part that the price is chosen on, loss
    "pretrained": ("new", None, 1),
    "full": ("pretrained", None, FULL),
    "prefixes": ("pretrained", None, PREFIXES),
    "wait": ("prefixes", "dev", WAITING),
    "printed ours head": ("prefixes", None, {**WAITING, "kind": "printed"}),
    "printed paper head": ("prefixes", None, PAPER),
    "printed default head": ("prefixes", None, {**PAPER, "new_head": True}),
    "causal": ("new causal", None, {**FULL, "kind": "causal", "epochs": 48}),
    "cold prefixes": ("new", None, {**PREFIXES, "epochs": 16}),
}
READ = {  # whose network, look-ahead
    "full sequence": ("full", 0),
    "all prefixes": ("prefixes", 0),
    "look-ahead 1": ("prefixes", 1),
    "look-ahead 2": ("prefixes", 2),
    "wait head": ("wait", None),
    "full look-ahead 1": ("full", 1),
    "full look-ahead 2": ("full", 2),
    "own look-ahead 1": ("wait", 1),
    "wait head never": ("wait", 0),
    "floor": ("list", 0),
}
READ |= {name: (f"{name} head", None) for name in PRINTED}
READ |= {f"{name} never": (f"{name} head", 0) for name in PRINTED}
AHEAD = {name: ahead for name, (_, ahead) in READ.items()}
AHEAD |= {"causal": 0, "cold prefixes": 0}
CURVES = {"curve wait", "curve ahead", "curve doubt"}


@pytest.fixture
def worlds(questions):
    return [study.world(questions, sentences=12, tests=8, seed=seed) for seed in (0, 1)]


@pytest.fixture
def world(worlds):
    return worlds[0]


def test_the_vocabulary_knows_no_word_of_the_test_alone(world, questions):
    known = {word for one in dl.read(questions / "train.json")[0] for word in one.words}
    asked = {word for one in world.real for word in one.words}
    assert asked - known and set(world.vocabulary.words) <= known


def told(loss):
    return loss.epochs if isinstance(loss, study.Guess) else asdict(loss)


def test_each_arm_is_given_what_it_is_named_for(worlds):
    seen, typed = hold(study.STUDY), dl.read(study.ORDINARY)[0]
    assert set(seen) == {(a, s) for a in {*TRAINED, *READ} | CURVES for s in (0, 1)}
    for (name, seed), one in seen.items():
        world = worlds[seed]
        if name in TRAINED:
            start, choice, loss = TRAINED[name]
            known = start in TRAINED
            assert one.job.start == (("made", start, seed) if known else start), name
            assert one.job.train.utterances == world.train and not one.job.train.bare
            assert one.job.train.said == world.said
            assert one.job.train.vocabulary.words == world.vocabulary.words
            assert one.job.choice == (getattr(world, choice) if choice else None)
            assert told(one.job.arm.loss) == loss
            assert one.made == ("made", name, seed)
        else:
            of = READ.get(name, ("wait",))[0]
            assert one.made == ("list" if of == "list" else ("made", of, seed))
            assert one.job.train is one.job.arm.loss is one.job.choice is None
        assert one.job.arm.setting.get("ahead", 9) == AHEAD.get(name, 9)
        assert one.tests["real"] == world.real
        assert ("made" in one.tests) == (name in AHEAD or name in CURVES)
        assert one.tests.get("made", world.made) == world.made
        assert one.tests.get("typed") == (typed if name in AHEAD else None)


def test_all_questions_are_learned_from_with_five_seeds():
    assert list(study.STUDY.seeds) == [0, 1, 2, 3, 4]
    assert study.STUDY.sizes == {"sentences": 5919, "tests": 300}


def test_the_printed_losses_differ_in_their_price_and_in_the_heads_beginning():
    ours, paper, default = (study.SYSTEMS[f"{name} head"] for name in PRINTED)
    assert differences(ours, paper) == ["loss.latency"]
    assert differences(paper, default) == ["loss.new_head"]
    assert differences(ours, study.SYSTEMS["wait"]) == ["choice", "loss.kind"]


def test_a_seed_draws_its_own_sentences_from_all_of_them(worlds):
    one, other = worlds
    for part in ("real", "made", "dev", "said"):
        assert getattr(one, part) != getattr(other, part)
    first = {f"w{n}" for n in range(12)}
    assert {u.words[-6] for u in one.real} - first and {text[2] for text in one.said} - first


def test_a_world_keeps_its_parts_apart(world):
    assert len(world.train) == 12 + 4 and len(world.said) == 12
    assert len(world.made) == 8 and len(world.real) == 12
    learned = {u.cleaned for u in world.train} | set(world.said)
    parts = [learned, *({u.cleaned for u in part} for part in (world.dev, world.real))]
    assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])
    assert {u.cleaned for u in world.made} == {u.cleaned for u in world.real[:8]}
    questions, others = world.real[:8], world.real[8:]  # no question beside its original
    assert not {u.cleaned for u in questions} & {u.words for u in others}


def test_a_question_that_is_asked_in_the_test_is_not_learned_from(questions):
    rows = json.loads((questions / "train.json").read_text())
    test = json.loads((questions / "test.json").read_text())
    (questions / "train.json").write_text(json.dumps(rows | {"0": test["0"]}))
    world = study.world(questions, tests=16)
    asked = dl.words_of(test["0"]["original"])
    assert len(world.said) == 23 and asked not in world.said
    assert asked not in {u.cleaned for u in world.train}


def test_a_question_in_two_parts_that_judge_and_choose_is_seen(questions):
    (questions / "test.json").write_text((questions / "dev.json").read_text())
    with pytest.raises(ValueError, match="who dev"):
        hold(study.STUDY)


def test_the_recorded_parts_share_no_sentence():
    try:
        parts = study.STUDY.parts(0, study.STUDY.sizes)
    except data.DataError as error:
        pytest.skip(f"the data set cannot be had: {error}")
    study.STUDY.apart(parts)
    assert {name: len(part.units) for name, part in parts.items()} == {
        "train": 5918 + 1972 + 5918, "dev": 750, "real": 450, "made": 300, "typed": 60,
    }  # fmt: skip


def test_ordinary_sentences_are_of_five_kinds_and_all_have_labels():
    rows, _, without = dl.read(study.ORDINARY)
    names = [name.split()[0] for name in json.loads(study.ORDINARY.read_text("utf-8"))]
    counts = {name: names.count(name) for name in names}
    kinds = {"fluent": 20, "filler": 10, "repetition": 10, "repair": 12, "restart": 8}
    assert counts == kinds and (len(rows), without) == (60, 0)
    assert [any(u.labels) for u in rows] == [name != "fluent" for name in names]


# Training and judging


def job(arm, train=None, **more):
    return Job("any", arm, 3, study.STUDY.sizes, train=train, **more)


@pytest.fixture
def called(monkeypatch):
    """What training was called with."""
    calls = []
    for name in ("train", "pretrain"):
        monkeypatch.setattr(pt, name, lambda *asked, name=name: calls.append((name, *asked)))
    return calls


def lessons(bare=(), said=()):
    rows = [dl.fluent(("a", "b")), dl.fluent(("c",))]
    return study.Lessons(rows, dl.Vocabulary(["a", "b", "c"], 4), bare, said)


def test_an_arm_begins_with_a_network_of_its_seed_and_kind():
    asked = job(study.SYSTEMS["full"], lessons())
    new, causal, narrow = (study.begin(word, asked) for word in ("new", "new causal", "narrow"))
    assert (new.network.causal, causal.network.causal) == (False, True)
    widths = [one.network.word.weight.shape for one in (new, causal, narrow)]
    assert widths == [(9, 64), (9, 64), (9, 32)] and new.vocabulary is asked.train.vocabulary
    again, other = study.begin("new", asked), study.begin("new", asked._replace(seed=4))
    assert torch.equal(new.network.word.weight, again.network.word.weight)
    assert not torch.equal(new.network.word.weight, other.network.word.weight)
    assert not new.network.wait.weight.any()
    assert study.begin("list", job(study.SYSTEMS["floor"])).network is None


def test_an_arm_trains_its_start_on_its_own_lessons(called):
    start, given = study.Labeller(object(), "words"), lessons()
    for name in ("pretrained", "causal"):
        arm = study.SYSTEMS[name]
        assert study.fit(job(arm, given, start=start)) is start
    (first, one, drawn, *rest), (second, other, again, *more) = called
    assert (first, second, one, other) == ("pretrain", "train", *[start.network] * 2)
    assert rest == [given.vocabulary, 1, 3]
    assert more == [given.vocabulary, study.SYSTEMS["causal"].loss, 3]
    assert drawn(None) == again(None) == given.utterances


def test_the_generator_says_the_questions_anew_in_each_epoch(called):
    texts = [tuple("abcdefghij"[:n]) for n in (3, 7, 9, 10)] * 20
    given = lessons(said=texts)
    study.fit(job(study.SYSTEMS["full"], given, start=study.Labeller(object(), "words")))
    rng = np.random.default_rng(0)
    one, other = (called[0][2](rng) for _ in range(2))
    assert one[:2] == other[:2] == given.utterances and one[2:] != other[2:]
    assert [u.cleaned for u in one[2:]] == [u.cleaned for u in other[2:]] == texts
    assert any(any(u.labels) for u in one[2:])


def test_the_price_is_chosen_after_training_on_what_is_given_for_it(called, monkeypatch):
    monkeypatch.setattr(study, "calibrated", lambda made, dev: (len(called), made, dev))
    start = study.Labeller(object(), "words")
    asked = job(study.SYSTEMS["wait"], lessons(), start=start, choice="these")
    assert study.fit(asked) == (1, start, "these")


def test_bare_texts_are_labelled_by_the_second_start_and_read_as_often(called, monkeypatch):
    monkeypatch.setattr(pt, "self_labelled", lambda *asked: [asked] * 3)
    starts = [study.Labeller(name, "words") for name in ("student", "teacher")]
    asked = job(study.SYSTEMS["full"], lessons(["x"]), start=tuple(starts))
    assert study.fit(asked._replace(sizes={"readings": 22})) is starts[0]
    _, network, drawn, words, recipe, _ = called[0]
    rows = drawn(None)
    assert (network, rows[2:]) == ("student", [("teacher", ["x"], words)] * 3)
    assert recipe == replace(study.FULL, epochs=22 // 5)


LATE = torch.tensor([[-1.0, -9, -9], [2.0, -1, -9], [2.0, -1, -3]])  # the first word, late
HEAD = torch.tensor([[0.5, -9, -9], [-1.0, 0.5, -9], [1.0, 1, 1]])  # waits for the newest


@pytest.fixture
def judged(monkeypatch):
    """A function that judges by an arm's setting what a network says of one utterance."""
    rows = [dl.Utterance(("uh", "a", "b"), (1, 0, 0), ("edit", "fluent", "fluent"))]
    monkeypatch.setattr(pt, "logits", lambda *asked: [(LATE, HEAD)])
    made = study.Labeller("network", "words", 0.4)
    return lambda arm: study.judge(made, rows, job(arm))


def test_an_arm_is_read_with_its_own_look_ahead_or_its_wait_head(judged):
    plain, ahead, head = (
        judged(study.SYSTEMS[name]) for name in ("all prefixes", "look-ahead 2", "wait head")
    )
    waits = [round(told["waiting"], 6) for told in (plain, ahead, head)]
    assert waits == [0, 1, round(2 / 3, 6)]
    assert plain["f1"] < 1 == ahead["f1"] == head["f1"]
    assert (head["wait_edit"], head["wait_fluent"]) == (1, 0.5) and "wait_edit" not in plain
    assert math.isnan(head["wait_repair"])  # no such word was drawn
    assert judged(study.SYSTEMS["wait"]) == {"prices": [0.4]}


def test_the_floor_is_the_list_word_by_word():
    rows = [dl.Utterance(("uh", "a", "a"), (1, 1, 0), ("edit", "reparandum", "repair onset"))]
    found = study.judge(study.Labeller(None, None), rows, job(study.SYSTEMS["floor"]))
    assert (found["f1"], found["final_f1"], found["waiting"]) == (pytest.approx(8 / 9), 1, 0)


def test_a_price_beside_the_rules_moves_the_threshold(judged):
    dear = replace(study.SYSTEMS["wait head"], setting={"ahead": None, "price": 2.0})
    assert judged(dear)["waiting"] == 0


def test_curves_go_from_cheap_waits_to_dear_ones_and_from_little_doubt_to_much(judged):
    wait, ahead, doubt = (judged(study.SYSTEMS[f"curve {name}"]) for name in study.CURVES)
    assert [len(one["waiting"]) for one in (wait, ahead, doubt)] == [13, 5, 8]
    assert wait["waiting"] == sorted(wait["waiting"], reverse=True) and wait["waiting"][-1] == 0
    assert ahead["waiting"] == [0, 2 / 3, 1, 1, 1]
    assert doubt["waiting"][0] == 0 < doubt["waiting"][-1]  # sure by 1 at least, by 0.2 always


def test_the_price_is_the_smallest_that_is_patient_enough():
    assert study.price({0.1: 2.0, 0.4: 0.0, 0.2: 0.9}, 0.9) == 0.2
    assert study.price({0.1: 2.0, 0.2: 1.5}, 1.0) == 0.2  # none is: the dearest


def test_a_calibrated_head_reads_at_one_as_it_read_at_its_price(world, monkeypatch):
    made = study.Labeller(study.started(world, 1), world.vocabulary)
    torch.nn.init.normal_(made.network.wait.weight)
    monkeypatch.setattr(study, "PRICES", tuple(0.35 * 2.0**k for k in range(-4, 12)))
    before = pt.logits(made.network, world.dev, world.vocabulary)
    limit = study.read(before, world.dev, 1).waiting
    cost = study.calibrated(made, world.dev).price
    after = pt.logits(made.network, world.dev, world.vocabulary)
    old = study.read(before, world.dev, None, cost / 0.35)
    new = study.read(after, world.dev, None)
    assert 0 < new.waiting == old.waiting <= limit
    assert study.read(after, world.dev, None, 0.5).waiting > limit  # the next is too small


def test_a_new_wait_head_predicts_everywhere(world):
    found = pt.logits(study.started(world, 0), world.dev[:4], world.vocabulary)
    assert all(x is not None for z in found for row in ws.predictions(z, None) for x in row)


# What is recorded


def scores(arm, seed, part):
    """Numbers that no two arms, seeds and parts share."""
    first = sum(map(ord, arm)) % 97 + 200 * (part == "made") + seed**2
    if arm in CURVES:
        return {key: [first + seed, seed] for key in study.DRAWN}
    if arm in TRAINED and arm not in AHEAD:
        return {"prices": [0.1 * (seed + 1)] * (arm == "wait")}
    waits = {"wait_edit": 0.25 + seed} if AHEAD[arm] is None else {}
    return {key: first + 0.01 * at for at, key in enumerate(study.KEPT)} | waits


def test_differences_are_of_the_wait_head_less_the_other_paired_by_seed():
    found = {
        name: {seed: {part: scores(name, seed, part) for part in arm.test} for seed in range(5)}
        for name, arm in study.SYSTEMS.items()
    }
    found["wait head"][4]["made"]["f1"] += 10  # so that a spread is left
    receipt = receipts.start("disfluency", "cpu")
    record(study.STUDY, receipt, found)
    gain = receipt.metrics["study_made_over_own_look_ahead_1_f1"]
    offset = scores("wait head", 0, "made")["f1"] - scores("own look-ahead 1", 0, "made")["f1"]
    gaps = [offset, offset, offset, offset, offset + 10]
    half = stats.t.ppf(0.975, 4) * stats.sem(gaps)
    wanted = {"value": offset + 2, "low": offset + 2 - half, "high": offset + 2 + half}
    assert {key: gain[key] for key in wanted} == pytest.approx(wanted)
    assert (gain["unit"], gain["repeats"]) == ("share", 5)
    pairs = [("wait head", other) for other in ("look-ahead 1", "look-ahead 2", "all prefixes")]
    for label, (one, other), key in [
        *((f"over {other}", (one, other), "waiting") for one, other in pairs),
        ("causality", ("causal", "cold prefixes"), "final_f1"),
        ("network over floor", ("all prefixes", "floor"), "final_f1"),
        ("wait head over floor", ("wait head", "floor"), "f1"),
        *((f"{one} waits", (one, f"{one} never"), "f1") for one in (*PRINTED, "wait head")),
    ]:
        name = f"study_real_{label}_{key}".replace(" ", "_").replace("-", "_")
        gap = scores(one, 0, "real")[key] - scores(other, 0, "real")[key]
        assert receipt.metrics[name]["value"] == pytest.approx(gap) != 0, name
    kept = receipt.metrics["study_real_wait_head_waiting"]
    assert (kept["value"], kept["unit"]) == (
        pytest.approx(scores("wait head", 0, "real")["waiting"] + 6), "words",
    )  # fmt: skip
    assert receipt.metrics["study_real_wait_head_wait_edit"]["unit"] == "words"
    assert receipt.metrics["study_price"]["value"] == pytest.approx(0.3)
    assert receipt.metrics["study_price"]["repeats"] == 5
    curve = receipt.curves["study_made_doubt"]
    first = scores("curve doubt", 0, "made")["f1"][0]
    assert curve["f1"] == [pytest.approx(first + 8), 2] and set(curve) == set(study.DRAWN)


def test_the_study_runs_and_records_its_systems_and_curves(questions):
    def quick(arm):
        loss = arm.loss
        return replace(arm, loss=replace(loss, epochs=1)) if hasattr(loss, "kind") else arm

    names = {"pretrained", "prefixes", "wait", "wait head", "look-ahead 1", "causal", "floor"}
    names |= CURVES
    short = {name: quick(arm) for name, arm in study.SYSTEMS.items() if name in names}
    small = replace(study.STUDY.small(1), arms=short, outcomes={})
    receipt = receipts.start("disfluency", "cpu")
    record(small, receipt, run(small))
    assert {"study_real_wait_head_f1", "study_made_causal_waiting"} <= receipt.metrics.keys()
    assert receipt.metrics["study_typed_floor_final_f1"]["value"] > 0
    assert receipt.metrics["study_price"]["value"] in study.PRICES
    assert receipt.metrics["study_real_look_ahead_1_waiting"]["value"] > 0.5
    assert set(receipt.curves) == {
        f"study_{part}_{name}" for part in ("real", "made") for name in study.CURVES
    }


def test_the_page_gets_the_networks_of_the_studys_first_seed(tmp_path, questions):
    def fit(job):
        network = pn.PrefixNetwork(9, 8, 1, 2)
        filled = ["pretrained", "full", "prefixes", "wait"].index(job.name) + 10.0 * job.seed
        torch.nn.init.constant_(network.word.weight, filled)
        return study.Labeller(network, dl.Vocabulary(["a", "b", "c"], 4))

    small = replace(study.STUDY.small(), fit=fit, seeds=(2, 3))
    study.write_shipped(small, tmp_path / "n.safetensors")
    found, vocabulary = pn.load(tmp_path / "n.safetensors")
    first = {name: one.word.weight[0, 0].item() for name, one in found.items()}
    wanted = {"full": 21, "prefixes": 22, "wait": 23}
    assert first == pytest.approx(wanted, rel=1e-3) and vocabulary.words == ("a", "b", "c")


def test_the_pages_networks_are_made_as_the_study_makes_them(monkeypatch, questions):
    def fit(job):
        return study.Labeller((job, torch.rand(3).tolist()), "words")

    small = replace(study.STUDY.small(), fit=fit, begin=lambda word, job: (word, job))
    names, made = ("pretrained", *study.SHIPPED), {}

    def keep(kind, name, seed, compute):
        made[kind, name] = compute()
        return made[kind, name]

    alone = {"arms": {name: small.arms[name] for name in names}, "outcomes": {}, "extra": None}
    run(replace(small, seeds=(0,), judge=lambda *asked: {}, **alone), keep)
    found = {}
    monkeypatch.setattr(pn, "save", lambda kept, words, path: found.update(kept))
    study.write_shipped(small, None)
    wanted = {name: made["made", name].network for name in study.SHIPPED}
    assert {name: plain(one) for name, one in found.items()} == {
        name: plain(one) for name, one in wanted.items()
    }


def plain(value):
    """The same without objects that are equal to themselves alone."""
    if isinstance(value, study.Labeller):
        return plain(value.network)
    if isinstance(value, dl.Vocabulary):
        return value.words
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value


def test_no_number_is_recorded_where_a_seed_has_none():
    found = {name: {} for name in study.SYSTEMS}
    for name, arm in study.SYSTEMS.items():
        for seed in range(2):
            found[name][seed] = {part: scores(name, seed, part) for part in arm.test}
    found["causal"][1]["real"]["first_time"] = math.nan
    receipt = receipts.start("disfluency", "cpu")
    record(study.STUDY, receipt, found)
    assert "study_real_causal_first_time" not in receipt.metrics
    assert "study_made_causal_first_time" in receipt.metrics
