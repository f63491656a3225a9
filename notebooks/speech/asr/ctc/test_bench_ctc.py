"""What the race of searches records: pyctcdecode's time over that of our search of its kind."""

import json
from types import SimpleNamespace

import pytest
import torch
from helpers import bench, receipts

from . import bench_ctc

OURS = {"ours, greedy": 0.5, "ours": 1.0, "ours, word model": 2.0}
PEERS = {"pyctcdecode": 5.0, "pyctcdecode, word model": 14.0}


def told(seconds):
    """The metrics of a race whose contestants take these seconds."""
    results = {n: bench.Measurement(s, s, s, (s,) * 6, None, "cpu") for n, s in seconds.items()}
    ratios = {name: bench.ratio(results["ours"], one) for name, one in results.items()}
    receipt = receipts.start("asr_streaming", "cpu", 1)
    bench_ctc.record(receipt, bench.Race(results, ratios, "ours"))
    return {name: one["value"] for name, one in receipt.metrics.items()}


@pytest.mark.parametrize(("metric", "wanted"), [("beam_speedup", 5), ("beam_words_speedup", 7)])
def test_a_search_is_as_many_times_as_fast_as_the_peer_s_of_its_kind(metric, wanted):
    assert told(OURS | PEERS)[metric] == wanted


def test_without_the_peer_s_words_there_is_no_speedup_with_words():
    assert told(OURS | {"pyctcdecode": 5.0}) == {"beam_speedup": 5}


def test_all_read_the_same_utterances_with_the_same_width_and_words_where_named(monkeypatch):
    asked = []

    def ours(x, width, language_model=None):
        asked.append((x.tolist(), width))
        return [f"ours {language_model}"]

    def peer(name):
        def decode(x, beam_width):
            asked.append((x.tolist(), beam_width))
            return name

        return SimpleNamespace(decode=decode)

    made = {name: peer(name) for name in PEERS}
    monkeypatch.setattr(bench_ctc, "beam_search", ours)
    monkeypatch.setattr(bench_ctc, "peers", lambda model, arpa: made if model == arpa else {})
    utterances = [torch.rand(steps, 29).log() for steps in (3, 5)]
    pairs = bench_ctc.contestants(utterances, "words", 7, arpa="words")
    assert set(pairs) == {*OURS, *PEERS}
    said = {name: [name] * 2 for name in PEERS}
    said |= {"ours": ["ours None"] * 2, "ours, word model": ["ours words"] * 2}
    for name, texts in said.items():
        assert pairs[name]() == texts
        assert asked == [(x.tolist(), 7) for x in utterances], name
        asked.clear()
    assert pairs["ours, greedy"]() == [bench_ctc.greedy(x)[0] for x in utterances]


@pytest.mark.parametrize("alike", [True, False])
def test_each_decoder_has_its_own_time_and_errors_and_none_without_the_check(
    monkeypatch, tmp_path, alike
):
    """Of five words each hears one wrong, greedily two; the peer none, where not alike."""
    said, wrong = ["one two three", "four five"], ["one two six", "four five"]
    heard = dict.fromkeys(OURS | PEERS, wrong) | {"ours, greedy": ["nine two six", "four five"]}
    heard |= {} if alike else {"pyctcdecode": said}
    seconds, threads = OURS | PEERS, []

    def raced(pairs, repeats, warmup, reference, device):
        results = {
            name: bench.Measurement(s, s, s, (s,) * repeats, None, device)
            for name, s in seconds.items()
            if pairs[name]() == heard[name]
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    made = [SimpleNamespace(signal=text, text=text) for text in said]
    monkeypatch.setattr(bench_ctc.torch, "set_num_threads", threads.append)
    monkeypatch.setattr(bench_ctc.data, "fetch", lambda name: name)
    drawn = []
    monkeypatch.setattr(
        bench_ctc.digit_speech, "utterances", lambda *of, count: drawn.append(of) or made
    )
    monkeypatch.setattr(bench_ctc, "load_model", lambda: "model")
    monkeypatch.setattr(bench_ctc, "recognise", lambda model, signals: signals)
    monkeypatch.setattr(bench_ctc, "word_model", lambda folder: "words")
    monkeypatch.setattr(
        bench_ctc,
        "contestants",
        lambda x, model, arpa: {name: lambda n=name: heard[n] for name in heard},
    )
    monkeypatch.setattr(bench_ctc.bench, "race", raced)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    if not alike:
        with pytest.raises(AssertionError, match="the same errors"):
            bench_ctc.main([])
        return
    bench_ctc.main(["--rounds", "6"])
    content = json.loads((tmp_path / "asr_streaming.cpu.ctc.json").read_text())
    found = {name: one["value"] for name, one in content["metrics"].items()}
    for name, took in seconds.items():
        key = name.replace(", ", "_").replace(" ", "_")
        assert found[f"{key}_time"] == took
        assert found[f"{key}_wer"] == pytest.approx(40 if name == "ours, greedy" else 20)
    assert drawn == [("fsdd", "test")], "recordings that no training used"
    assert threads == [1] and content["sizes"] == {"utterances": 2, "width": 32}
    assert (found["beam_speedup"], found["beam_words_speedup"]) == (5, 7)


def test_the_words_are_those_of_sentences_that_are_not_in_the_test(monkeypatch):
    drawn, said = [], [SimpleNamespace(text="one two")]
    monkeypatch.setattr(
        bench_ctc.digit_speech, "utterances", lambda *of, count: drawn.append(of) or said
    )
    assert bench_ctc.word_model("folder").words == {"one", "two"}
    assert drawn == [("folder", "train", ["jackson"])]
