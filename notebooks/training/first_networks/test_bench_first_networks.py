"""What the race records: equal answers first, and ratios above one where NumPy is sooner."""

import bench_first_networks as race_of
import digit_network as dn
import digit_pictures as dp
import numpy as np
import pytest
from helpers import bench, check, receipts
from helpers.device import Tier

SECONDS = {"NumPy": 0.5, "PyTorch": 2.0, "onnxruntime": 0.25, "ours": 0.5, "scikit-learn": 1.5}


def raced(names, reference=None):
    results = {
        n: bench.Measurement(*[SECONDS[n]] * 3, (SECONDS[n],) * 6, None, "cpu") for n in names
    }
    ratios = {n: bench.ratio(results[names[0]], one) for n, one in results.items()}
    return bench.Race(results, ratios, names[0])


@pytest.fixture(scope="module")
def given():
    net = dn.network(64, 6, 10, seed=1)
    return net, np.random.default_rng(0).random((7, 64), dtype=np.float32)


def test_all_contestants_answer_alike(given):
    net, x = given
    found = race_of.answers(net, 1)
    assert {"NumPy", "PyTorch"} <= set(found)
    assert race_of.agree(found, x, race_of.CLOSE) < 2e-5


@pytest.mark.parametrize("wrong", [lambda a: a + 1e-3, lambda a: a[:, ::-1]])
def test_a_contestant_that_answers_otherwise_stops_the_race(given, wrong):
    net, x = given
    found = race_of.answers(net, 1)
    found["PyTorch"] = lambda given, own=found["NumPy"]: wrong(own(given))
    with pytest.raises(check.Failed, match="PyTorch answers as NumPy does"):
        race_of.agree(found, x, race_of.CLOSE)


def test_each_contestant_is_the_one_that_it_is_named_for(given, monkeypatch):
    net, x = given
    found = race_of.answers(net, 1)
    monkeypatch.setattr(race_of.dn, "forward", lambda *given: (None, "by hand"))
    assert [name for name, answer in found.items() if isinstance(answer(x), str)] == ["NumPy"]
    monkeypatch.setattr(race_of.torch, "from_numpy", lambda given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        found["PyTorch"](x)


def test_pytorch_answers_by_the_model_that_is_optimised_for_it(given, monkeypatch):
    net, x = given
    monkeypatch.setattr(
        race_of.torch.jit, "optimize_for_inference", lambda one: lambda x: 7 * one(x)
    )
    found = race_of.answers(net, 1)
    np.testing.assert_allclose(found["PyTorch"](x), 7 * found["NumPy"](x), rtol=1e-4)


def test_onnxruntime_has_all_its_optimisations_and_the_race_s_threads(given, monkeypatch):
    onnxruntime, asked = pytest.importorskip("onnxruntime"), []
    pytest.importorskip("onnx")
    right = onnxruntime.InferenceSession
    monkeypatch.setattr(
        onnxruntime,
        "InferenceSession",
        lambda file, options, **named: asked.append(options) or right(file, options, **named),
    )
    race_of.answers(given[0], 1)
    all_of_them = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert [one.graph_optimization_level for one in asked] == [all_of_them]
    assert [one.intra_op_num_threads for one in asked] == [1]


def test_all_contestants_compute_in_float32(given):
    net, x = given
    found = race_of.answers(net, 1)
    assert {answer(x).dtype.name for answer in found.values()} == {"float32"}


def test_ours_is_ours():
    counts, digits = dp.load()
    found = race_of.bayes(counts, digits, np.arange(100))
    homes = {name: type(answer.__self__).__module__ for name, answer in found.items()}
    assert homes["ours"] == "naive_bayes" and homes["scikit-learn"].startswith("sklearn")


def test_one_by_one_asks_for_each_picture_alone(given):
    _, x = given
    asked = []
    race_of.one_by_one(lambda one: asked.append(one), x)()
    assert [one.shape for one in asked] == [(1, 64)] * 7
    assert (np.concatenate(asked) == x).all()


def test_both_naive_bayes_are_those_of_the_same_pictures():
    counts, digits = dp.load()
    learn, test = dp.split(digits, seed=0)
    assert race_of.agree(race_of.bayes(counts, digits, learn), counts[test], 1e-6) < 1e-6


def test_ratios_are_above_one_where_numpy_is_sooner(monkeypatch):
    monkeypatch.setattr(race_of.device, "tier", lambda name: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race_of, "peer", lambda name: False)
    monkeypatch.setattr(race_of.bench, "race", lambda runs, rounds: raced([*runs]))
    written = []
    monkeypatch.setattr(
        receipts.Receipt, "write", lambda self, name: written.append(self) or name
    )
    race_of.main(["--rounds", "6", "--epochs", "1", "--threads", "1"])
    told = {name: one["value"] for name, one in written[0].metrics.items()}
    assert told["one_numpy_over_pytorch"] == told["all_numpy_over_pytorch"] == 4
    assert told["bayes_ours_over_scikit_learn"] == 3
    assert told["one_ms_numpy"] == 500 and told["bayes_ms_scikit_learn"] == 1500


def test_who_is_slower_has_a_ratio_below_one():
    receipt = receipts.start("first_networks", "cpu", 1)
    race = raced(["NumPy", "onnxruntime"])
    race_of.record(receipt, race, "one", {"NumPy": "numpy", "onnxruntime": "onnxruntime"})
    assert receipt.metrics["one_numpy_over_onnxruntime"]["value"] == 0.5


@pytest.mark.parametrize("name", ["onnxruntime_that_is_not_there"])
def test_a_peer_that_is_not_there_is_left_out_and_named(name, capsys):
    assert not race_of.peer(name)
    assert name in capsys.readouterr().out
