"""What the race records: times, and ratios above one where ours is faster."""

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import bench_opencl_inference as race_of
import graph_cut
import layout
import phone_network
import pytest
import slice_kernels
import torch
from helpers import bench, check, receipts

SECONDS = {"naive": 4.0, "tuned": 2.0, "fused": 1.0, "litert one": 0.5}


def raced():
    results = {n: bench.Measurement(s, s, s, (s,) * 6, None, "cpu") for n, s in SECONDS.items()}
    ratios = {n: bench.ratio(results["naive"], one) for n, one in results.items()}
    return bench.Race(results, ratios, "naive")


def test_ratios_are_above_one_where_ours_is_faster():
    receipt = receipts.start("opencl_inference", "cpu", 1)
    race_of.record(receipt, "classifier", raced())
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["classifier_fused_over_naive"] == 4 and told["classifier_tuned_over_naive"] == 2
    assert told["classifier_fused_over_tuned"] == 2
    assert told["classifier_fused_over_litert_one"] == 0.5, "a loss is below one"
    assert told["classifier_fused_ms"] == 1000
    assert not {"classifier_naive_over_naive", "classifier_fused_over_fused"} & {*told}


def test_the_larger_gain_is_the_detector_s_over_the_classifier_s():
    small, large = bench.Ratio(2, 1, 4, 20, "95 %"), bench.Ratio(6, 5, 8, 20, "95 %")
    assert race_of.larger(large, small) == (3, 1.25, 8, 20, "range")


def ends_as(monkeypatch, tmp_path, script):
    """The interpreter of a start is this script."""
    told = tmp_path / "python"
    told.write_text(f"#!/bin/sh\n{script}\n")
    told.chmod(0o755)
    monkeypatch.setattr(race_of.sys, "executable", str(told))


def test_a_start_that_hangs_is_ended_with_all_that_it_began(monkeypatch, tmp_path):
    ends_as(monkeypatch, tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; echo 1.5; wait")
    with pytest.raises(RuntimeError, match=r"a start took over 0.5 s and was ended"):
        race_of._started("folder", 0.5)
    child = int((tmp_path / "child").read_text())
    for _ in range(100):  # a process that has ended may still be listed for a moment
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            break
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.02)
    else:
        raise AssertionError("the start's own child still runs")


def test_a_start_that_fails_says_its_last_words(monkeypatch, tmp_path):
    ends_as(monkeypatch, tmp_path, "echo 1.5; echo no such driver >&2; exit 3")
    with pytest.raises(RuntimeError, match="a start ended with 3: no such driver"):
        race_of._started("folder", 30)
    ends_as(monkeypatch, tmp_path, "exit 0")
    with pytest.raises(RuntimeError, match="a start ended with 0: no words"):
        race_of._started("folder", 30)


def test_a_start_s_seconds_are_its_last_word_and_its_driver_s_cache_is_empty(
    monkeypatch, tmp_path
):
    script = f'cd "$POCL_CACHE_DIR" && (pwd; ls -A) > {tmp_path}/seen; echo a word 2.5'
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    ends_as(monkeypatch, tmp_path, script)
    assert race_of._started("folder", 30) == 2.5
    (place,) = (tmp_path / "seen").read_text().split()  # nothing lies in it
    assert place != str(tmp_path)


def test_a_start_keeps_its_programs_after_its_answer(monkeypatch, capsys):
    done = []

    class Kept(Timed):
        def run(self, *task):
            done.append("run")
            return super().run(*task)

        def keep(self):
            done.append("keep")

    monkeypatch.setattr(slice_kernels, "OpenCLDevice", lambda folder: Kept())
    race_of.start("folder")
    assert done.count("keep") == 1 and done[-1] == "keep" and "run" in done
    assert float(capsys.readouterr().out) > 0


class Timed(slice_kernels.TorchDevice):
    """The reference with a clock: larger groups are faster."""

    def run(self, layer, held, group=None):
        out, _ = super().run(layer, held, group)
        return out, lambda: 1 / (group[0] * group[1] * group[2])


def test_the_contestants_differ_in_what_they_are_named_for():
    network = phone_network.drawn(phone_network.Classifier(0.1), 64)
    steps, image = graph_cut.steps(network), torch.rand(3, 32, 32)
    runs = race_of.ours(steps, Timed(), image)
    layers = {name: [*plan.layers.values()] for name, (_, plan) in runs.items()}
    assert {one.activation for one in layers["naive"] + layers["tuned"]} == {"apart", "none"}
    assert {one.activation for one in layers["fused"]} == {"fused", "none"}
    assert {one.form for one in layers["naive"]} == {"naive", "naive_depthwise"}
    assert runs["naive"][1].groups == "default"
    assert runs["tuned"][1].groups == runs["fused"][1].groups != {}
    for name, group in runs["tuned"][1].groups.items():
        layer = runs["tuned"][1].layers[name]
        grid = next(one.grid for one in runs["tuned"][1].run(image)[1] if one.name == name)
        most = max(race_of.work_groups.shortlist(grid, 256), key=race_of.work_groups.items)
        assert race_of.work_groups.items(group) == race_of.work_groups.items(most), layer.form
        break
    answers = [run() for run, _ in runs.values()]
    for one in answers[1:]:
        torch.testing.assert_close(one, answers[0])


def test_a_layer_is_tuned_on_an_image_of_its_size():
    network = phone_network.drawn(phone_network.Detector(0.1), 64)
    plan = graph_cut.Plan(graph_cut.steps(network), slice_kernels.TorchDevice())
    kernels = [one for one in plan.run(torch.rand(3, 64, 64))[1] if one.form != "add"]
    assert {plan.layers[one.name].stride for one in kernels} == {1, 2}
    for one in kernels:
        layer = plan.layers[one.name]
        assert layout.grid_of(layer, race_of._input_shape(layer, one.grid)) == one.grid


def test_peers_have_one_thread_and_all_and_the_same_image(monkeypatch):
    network, asked = phone_network.drawn(phone_network.Classifier(0.1), 64), {}

    def peer(name):
        def made(*task):
            asked[name, task[-1]] = task[-2]
            return lambda: network(asked[name, task[-1]][None])

        return made

    monkeypatch.setattr(race_of, "onnx", peer("onnxruntime"))
    monkeypatch.setattr(race_of, "litert", peer("litert"))
    monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda _: True)
    monkeypatch.setattr(race_of, "record", lambda *_: None)
    seen = {}
    monkeypatch.setattr(bench, "race", lambda runs, rounds, reference: seen.update(runs))
    receipt = receipts.start("opencl_inference", "cpu", 1)
    race_of.raced(
        "classifier", network, 32, Timed(), SimpleNamespace(threads=7, rounds=1), receipt
    )
    assert [*asked] == [(one, n) for n in (1, 7) for one in ("onnxruntime", "litert")]
    assert len({id(image) for image in asked.values()}) == 1 and len(seen) == 7
    assert receipt.metrics["classifier_gap"]["value"] < 1e-3


def test_a_contestant_that_answers_something_else_is_not_raced(monkeypatch):
    network = phone_network.drawn(phone_network.Classifier(0.1), 64)
    monkeypatch.setattr(race_of, "onnx", lambda *_: lambda: torch.zeros(1, 1000, 1, 1))
    monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda _: None)
    receipt = receipts.start("opencl_inference", "cpu", 1)
    with pytest.raises(check.Failed):
        race_of.raced(
            "classifier", network, 32, Timed(), SimpleNamespace(threads=1, rounds=1), receipt
        )


def test_onnxruntime_has_its_threads_and_all_of_its_optimisations(monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime")
    network, seen = torch.nn.Conv2d(3, 4, 1), []
    whole = onnxruntime.InferenceSession

    def spied(file, options, providers):
        seen.append((options.intra_op_num_threads, options.graph_optimization_level))
        return whole(file, options, providers=providers)

    monkeypatch.setattr(onnxruntime, "InferenceSession", spied)
    race_of.onnx(network, torch.rand(3, 4, 4), 2)
    assert seen == [(2, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)]


def test_litert_has_its_threads(monkeypatch):
    interpreter = MagicMock()
    monkeypatch.setitem(sys.modules, "litert_model", MagicMock())
    monkeypatch.setitem(sys.modules, "ai_edge_litert", MagicMock())
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", interpreter)
    interpreter.Interpreter.return_value.get_input_details.return_value = [{"index": 0}]
    race_of.litert(None, [], torch.rand(3, 4, 4), 3)
    assert interpreter.Interpreter.call_args.kwargs["num_threads"] == 3


@pytest.mark.parametrize("kind", [phone_network.Classifier, phone_network.Detector])
def test_peers_answer_as_pytorch(kind):
    pytest.importorskip("onnxruntime")
    network = phone_network.drawn(kind(0.1), 64)
    image = torch.rand(3, 64, 64)
    with torch.no_grad():
        wanted = network(image[None])
        peers = [race_of.onnx(network, image, 1)]
        if race_of.importlib.util.find_spec("ai_edge_litert"):
            peers.append(race_of.litert(network, graph_cut.steps(network), image, 1))
        for run in peers:
            check.close(run(), wanted, rtol=1e-3, atol=1e-3, why=race_of.WHY)


def test_an_operation_that_the_peer_s_file_cannot_hold_is_refused():
    pytest.importorskip("ai_edge_litert")
    import litert_model

    steps = graph_cut.steps(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.Hardswish()))
    with pytest.raises(ValueError, match="Hardswish: convolutions, sums and means are allowed"):
        litert_model.written(steps, 8)
