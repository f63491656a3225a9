"""The study's parts in small: what is recorded, and what is not mixed up."""

import json
import math

import disfl_labels as dl
import prefix_training as pt
import pytest
import study_disfluency as study
import torch
import word_stream as ws


class Kept:
    """Stands in for a receipt."""

    def __init__(self):
        self.metrics, self.curves = {}, {}

    def record(self, name, value, unit, low=None, high=None, repeats=None):
        self.metrics[name] = (value, low, high)

    def curve(self, name, **columns):
        self.curves[name] = columns


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qa")
    for part in ("train", "dev", "test"):
        rows = {}
        for n in range(24):
            fluent = f"who {part} w{n} the big {n} of it"
            rows[str(n)] = {"original": fluent, "disfluent": f"when uh no {fluent}"}
        (folder / f"{part}.json").write_text(json.dumps(rows))
    return study.world(folder, sentences=12, tests=8)


def test_a_world_keeps_its_parts_apart(small):
    assert len(small.train) == 12 + 12 + 4 and len(small.made) == 8 and len(small.real) == 8 + 4
    parts = [{u.cleaned for u in part} for part in (small.train, small.dev, small.real)]
    assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])
    questions, others = small.real[:8], small.real[8:]  # no question stands beside its original
    assert not {u.cleaned for u in questions} & {u.words for u in others}


def test_systems_search_and_transfer_record_all_their_metrics(small, tmp_path, monkeypatch):
    tiny = {"epochs": 1, "batch": 4096}
    for name in ("FULL", "PREFIXES", "WAITING"):
        kind = getattr(study, name).kind
        monkeypatch.setattr(study, name, pt.Recipe(kind, draws=1, **tiny))
    monkeypatch.setattr(study, "GAMMAS", (1.9,))
    monkeypatch.setattr(study, "READINGS", 40)
    monkeypatch.setattr(study, "LATENCIES", (0.1, 0.4))
    monkeypatch.setattr(study, "PRICES", (0.1, 0.4))
    kept = Kept()
    study.systems(small, 1, tmp_path / "n.safetensors", kept)
    study.search(small, kept)
    study.transfer(small, 1, kept, few=6)
    assert {"study_real_wait_head_f1", "study_made_causal_waiting"} <= kept.metrics.keys()
    assert {"study_real_over_own_look_ahead_1_edit_overhead"} <= kept.metrics.keys()
    gap = "study_real_wait_head_waiting", "study_real_look_ahead_1_waiting"
    gap = [kept.metrics[name][0] for name in gap]
    assert kept.metrics["study_real_over_look_ahead_1_waiting"][0] == gap[0] - gap[1] != 0
    doubt = kept.curves["study_real_doubt"]["waiting"]
    assert doubt == sorted(doubt) and doubt[0] < doubt[-1]  # from a little doubt to much
    assert kept.curves["study_search"]["smooth"] == [0, 0, 1, 1]
    waits = kept.curves["study_real_wait"]["waiting"]
    assert waits == sorted(waits, reverse=True)  # a dearer wait is taken less often
    assert kept.metrics["study_price"][0] in (0.1, 0.4)
    assert (tmp_path / "n.safetensors").stat().st_size < 1e6


def test_the_price_is_the_smallest_that_is_patient_enough():
    assert study.price({0.1: 2.0, 0.4: 0.0, 0.2: 0.9}, 0.9) == 0.2
    assert study.price({0.1: 2.0, 0.2: 1.5}, 1.0) == 0.2  # none is: the dearest


def test_a_calibrated_head_reads_at_one_as_it_read_at_its_price(small, monkeypatch):
    network = study.started(small, 1)
    torch.nn.init.normal_(network.wait.weight)
    monkeypatch.setattr(study, "PRICES", tuple(0.35 * 2.0**k for k in range(-4, 12)))
    before = pt.logits(network, small.dev, small.vocabulary)
    limit = study.read(before, small.dev, 1).waiting
    cost = study.calibrated(network, small)
    after = pt.logits(network, small.dev, small.vocabulary)
    old, new = (
        study.read(before, small.dev, None, cost / 0.35),
        study.read(after, small.dev, None),
    )
    assert 0 < new.waiting == old.waiting <= limit
    assert (
        study.read(after, small.dev, None, 0.5).waiting > limit
    )  # the next price is too small


def test_a_new_wait_head_predicts_everywhere(small):
    found = pt.logits(study.started(small, 0), small.dev[:4], small.vocabulary)
    assert all(x is not None for z in found for row in ws.predictions(z, None) for x in row)


def test_intervals_are_students_and_nan_is_left_out():
    kept = Kept()
    study.put(kept, "a b-c", [1.0, 2.0, 3.0], "share")
    mean, low, high = kept.metrics["study_a_b_c"]
    assert mean == 2 and high - mean == mean - low == pytest.approx(4.303 / math.sqrt(3))
    study.put(kept, "x", [1.0, math.nan], "share")
    assert "study_x" not in kept.metrics


def test_scores_of_whole_sentences():
    class Net:
        pass

    rows = [dl.Utterance(("uh", "a", "b"), (1, 0, 1), ("edit", "fluent", "edit"))]
    study.pt, old = type("Fake", (), {"final_labels": staticmethod(lambda *_: [[1, 0, 0]])}), pt
    try:
        found = study.whole(Net(), rows, None)
    finally:
        study.pt = old
    assert found == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3)}
