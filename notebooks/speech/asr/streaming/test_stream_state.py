"""Streaming: with enough context the offline text, however the sound arrives; nothing doubled,
lost or mixed; garbage refused."""

import ctc
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from quartznet import log_mel, recognise

from .features import FeatureStream, RunningNormaliser, prior_of
from .stream_state import StreamState, run_windows, transcribe
from .windows import Event, StreamOptions

ALL = StreamOptions(left_ms=None, right_ms=None, normalise="window", endpoint_ms=None)


@pytest.fixture(scope="module")
def model(loud_model):
    return loud_model


def noise(samples, seed=0):
    generator = torch.Generator().manual_seed(seed)
    envelope = torch.rand(samples // 1600 + 1, generator=generator).repeat_interleave(1600)
    return 0.3 * torch.randn(samples, generator=generator) * envelope[:samples]


def push_in_pieces(stream, signal, cuts):
    for piece in torch.tensor_split(signal, sorted(cuts)):
        stream.push(piece)
    stream.end()


def drain(stream, model):
    events, probs = [], []
    with torch.inference_mode():
        while (window := stream.next_window()) is not None:
            (answer,) = run_windows(model, [window])
            probs.append(answer[window.keep_from : window.keep_to])
            events += stream.accept(answer)
    return events, torch.cat(probs)


@given(st.lists(st.integers(0, 5000), max_size=12))
@settings(deadline=None, max_examples=20)
def test_frames_do_not_depend_on_how_the_sound_is_cut(cuts):
    signal, stream = noise(5000), FeatureStream()
    pieces = [stream.push(piece) for piece in torch.tensor_split(signal, sorted(cuts))]
    wanted = log_mel(signal[None], normalise=False)[0][0]
    torch.testing.assert_close(torch.cat(pieces, 1), wanted, rtol=1e-5, atol=1e-4)
    assert len(stream.rest_N) < 480


def test_running_moments_equal_those_of_all_frames():
    features, norm = torch.randn(64, 301) * 3 + 5, RunningNormaliser()
    for part in features.split([1, 100, 0, 200], 1):
        norm.update(part)
    wanted = (features - features.mean(1, keepdim=True)) / (
        features.std(1, keepdim=True) + 1e-5
    )
    torch.testing.assert_close(norm.apply(features), wanted, rtol=1e-4, atol=1e-4)


def test_a_prior_counts_as_so_many_frames():
    prior = torch.zeros(64), torch.ones(64)
    norm = RunningNormaliser(prior, weight=100)
    norm.update(torch.full((64, 300), 4.0))
    assert norm.mean_F[0].item() == pytest.approx(3)
    imagined = torch.cat([torch.tensor([-1.0, 1.0]).repeat(50), torch.full((300,), 4.0)])
    norm_std = (norm.squares_F[0] / (norm.count - 1)).sqrt().item()
    assert norm_std == pytest.approx(imagined.std().item())


def test_prior_of_signals_pools_their_frames():
    signals = [noise(3200, 1), noise(8000, 2)]
    mean, deviation = prior_of(signals)
    frames = torch.cat([log_mel(s[None], normalise=False)[0][0] for s in signals], 1)
    torch.testing.assert_close(mean.float(), frames.mean(1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(deviation.float(), frames.std(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("samples", [160, 1601, 16_000, 33_333])
def test_infinite_context_equals_offline(model, samples):
    signal = noise(samples)
    offline = ctc.greedy(recognise(model, [signal])[0])
    assert transcribe(model, [signal], ALL) == [" ".join(offline[0].split())]


def test_context_beyond_the_receptive_field_equals_offline(model):
    signal = noise(40_000)
    reach = -(-model.receptive_field_frames // 4) * 20
    options = StreamOptions(
        left_ms=reach, right_ms=reach, chunk_ms=100, prior_frames=1e12, endpoint_ms=None
    )
    stream = StreamState(options, prior=prior_of([signal]))
    push_in_pieces(stream, signal, [])
    events, probs = drain(stream, model)
    offline = recognise(model, [signal])[0]
    torch.testing.assert_close(probs, offline, rtol=1e-3, atol=1e-3)
    assert events[-1].text == ctc.greedy(offline)[0]


@pytest.fixture(scope="module")
def events_of_one_push(model):
    stream = StreamState(StreamOptions(endpoint_ms=100))
    push_in_pieces(stream, noise(20_000), [])
    return drain(stream, model)[0]


@given(st.lists(st.integers(0, 20_000), max_size=15))
@settings(deadline=None, max_examples=10)
def test_events_do_not_depend_on_how_the_sound_arrives(model, events_of_one_push, cuts):
    stream = StreamState(StreamOptions(endpoint_ms=100))
    push_in_pieces(stream, noise(20_000), cuts)
    assert drain(stream, model)[0] == events_of_one_push
    assert events_of_one_push[-1].kind == "final"


@pytest.mark.parametrize("samples", [1, 159, 160, 161, 15_999, 16_000, 17_761])
@pytest.mark.parametrize("right_ms", [0, 120])
def test_every_step_is_kept_once(samples, right_ms):
    stream, kept = StreamState(StreamOptions(right_ms=right_ms)), 0
    stream.push(noise(samples))
    stream.end()
    while (window := stream.next_window()) is not None:
        kept += window.keep_to - window.keep_from
        stream.skip()
    assert kept == -(-(samples // 160) // 2) and stream.finished


def answer(ids, options):
    """A one-hot answer to the next window of a stream without context."""
    probs = torch.full((options.chunk_ms // 20, 29), -50.0)
    probs[torch.arange(len(ids)), torch.tensor(ids)] = 0.0
    return probs


@pytest.mark.parametrize("decoder", [None, lambda: ctc.PrefixBeam(4)])
@given(st.lists(st.integers(0, 3), min_size=20, max_size=20))
@settings(deadline=None, max_examples=40)
def test_joins_never_double_or_lose_a_letter(decoder, ids):
    ids = [28 if i == 3 else i for i in ids]  # space, a, b, blank
    options = StreamOptions(chunk_ms=80, left_ms=0, right_ms=0, endpoint_ms=None)
    stream = StreamState(options, decoder=decoder)
    stream.push(torch.zeros(5 * 1280))
    events = []
    for at in range(0, 20, 4):
        assert stream.next_window().features_FT.shape == (64, 8)
        events = stream.accept(answer(ids[at : at + 4], options))
    whole = ctc.greedy(answer(ids, StreamOptions(chunk_ms=400)))[0]
    assert events[0].text == whole
    assert [event.text for event in stream.end()] == [whole] * bool(whole.strip())


def speak(stream, ids, options):
    stream.push(torch.zeros(160 * options.chunk_ms // 10))
    stream.next_window()
    return stream.accept(answer(ids, options))


def test_silence_ends_an_utterance_and_the_next_begins_fresh():
    options = StreamOptions(chunk_ms=80, left_ms=0, right_ms=0, endpoint_ms=160)
    stream, quiet = StreamState(options), [28] * 4
    kinds = [[e.kind for e in speak(stream, ids, options)] for ids in ([1, 28, 28, 28], quiet)]
    assert kinds == [["partial"], ["partial"]], "140 ms of silence are too few"
    final = speak(stream, quiet, options)[-1]
    assert final == Event("final", "a", 0, 240, 240)
    assert speak(stream, quiet, options)[-1].kind == "partial", "nothing said, nothing final"
    assert speak(stream, [2, 28, 28, 28], options)[0].text == "b"
    assert stream.end() == [Event("final", "b", 240, 400, 400)]


def test_a_long_utterance_is_cut_on_a_blank():
    options = StreamOptions(chunk_ms=80, left_ms=0, right_ms=0, longest_ms=160)
    stream = StreamState(options)
    speak(stream, [1, 1, 1, 1], options)
    assert [e.kind for e in speak(stream, [1, 1, 1, 1], options)] == ["partial"]
    assert [e.kind for e in speak(stream, [1, 1, 28, 28], options)] == ["partial", "final"]


def test_the_end_waits_for_answers_still_out():
    options = StreamOptions(chunk_ms=80, left_ms=0, right_ms=0)
    stream = StreamState(options)
    stream.push(torch.zeros(1280))
    stream.next_window()
    assert stream.end() == [] and not stream.finished
    events = stream.accept(answer([1, 28, 28, 28], options))
    assert [event.kind for event in events] == ["partial", "final"] and stream.finished


def test_streams_side_by_side_never_mix(model):
    signals = [
        noise(samples, seed) for seed, samples in enumerate((9_000, 21_000, 16_000, 640))
    ]
    together = transcribe(model, signals)
    assert together == [transcribe(model, [signal])[0] for signal in signals]
    assert len(set(together)) == 4


def test_delay_is_chunk_and_right_context():
    stream = StreamState(StreamOptions(chunk_ms=100, right_ms=120))
    stream.push(torch.zeros(3519))
    assert stream.next_window() is None and stream.backlog_ms == 219
    stream.push(torch.zeros(1))
    window = stream.next_window()
    assert (window.to_ms, window.heard_ms, stream.options.delay_ms) == (100, 220, 220)
    assert stream.backlog_ms == 120


def test_memory_of_a_long_stream_stays_bounded():
    stream = StreamState(StreamOptions(right_ms=120))
    for _ in range(50):
        stream.push(torch.zeros(1600))
        while stream.next_window() is not None:
            stream.skip()
    assert stream.ring_FT.shape[1] <= 66 + 22 and len(stream.features.rest_N) < 480


@pytest.mark.parametrize(
    "bad, words",
    [
        (torch.zeros(10, dtype=torch.int16), "float"),
        ([0.0], "float"),
        (torch.zeros(2, 10), "one axis"),
        (torch.zeros(16_000 * 61), "60 s"),
        (torch.tensor([0.0, torch.nan]), "NaN"),
    ],
)
def test_garbage_sound_is_refused_and_changes_nothing(bad, words):
    stream = StreamState()
    with pytest.raises(ValueError, match=words):
        stream.push(bad)
    assert stream.samples == 0 and stream.next_window() is None


def test_answers_of_another_size_or_nobodys_are_refused():
    stream = StreamState(StreamOptions(chunk_ms=100, right_ms=120))
    with pytest.raises(ValueError, match="no window"):
        stream.accept(torch.zeros(11, 29))
    stream.push(torch.zeros(3520))
    stream.next_window()
    with pytest.raises(ValueError, match="in order"):
        stream.accept(torch.zeros(12, 29))
    assert stream.accept(torch.zeros(11, 29)), "and the stream goes on"


def test_sound_after_the_end_is_refused():
    stream = StreamState()
    stream.end()
    with pytest.raises(ValueError, match="after end"):
        stream.push(torch.zeros(10))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"chunk_ms": 0}, "chunk_ms=0"),
        ({"chunk_ms": 50}, "whole steps"),
        ({"right_ms": -20}, "right_ms"),
        ({"normalise": "none"}, "running"),
    ],
)
def test_impossible_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        StreamOptions(**options)
