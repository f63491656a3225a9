"""What is raced gives the same tokens, and which way the ratios point."""

import json
import sys
from types import SimpleNamespace

import bench_shared_prompt as race_of
import pytest
import torch
from small_solver import Shape, Solver, sample

SMALL = Shape(context=224, width=16, layers=2, heads=2)


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = Solver(SMALL).eval()
    with torch.no_grad():
        for one in made.parameters():
            one.add_(0.2 * torch.randn_like(one))
    return made


def options(*more):
    return race_of._options(["--answers", "3", "--tokens", "5", "--threads", "1", *more])


def test_ours_is_the_chapter_s_sampler_and_may_be_called_again(model):
    prompt = race_of.prompt_tokens()
    made = race_of.Ours(model, prompt, 3, 5)
    wanted = sample(model, prompt, 3, 5, end=-1, temperature=0)
    assert made(temperature=0) == wanted == made(temperature=0)
    torch.manual_seed(1)
    drawn = made()
    assert made() != drawn  # nothing is kept from one call to the next
    assert [len(row) for row in drawn] == [5] * 3 and len({tuple(row) for row in drawn}) > 1


@pytest.mark.parametrize("name", race_of.PEERS)
def test_a_peer_gives_the_same_tokens_and_logits(name, model, monkeypatch):
    for one in {"transformers", name}:
        pytest.importorskip(one)
    made = {n: one for n, one in race_of.makers().items() if n in ("ours", name)}
    monkeypatch.setattr(race_of, "makers", lambda: made)
    found = race_of.contestants(model, options())
    assert set(found) == {"ours", name}
    wanted = found["ours"](temperature=0)[0]
    found[name]()  # what was drawn before leaves no trace in the prompt's cache
    assert found[name](temperature=0)[0] == wanted


def test_transformers_has_its_prompt_cached_and_reads_a_token_an_answer(model):
    pytest.importorskip("transformers")
    peer, seen = race_of.Transformers(model, race_of.prompt_tokens(), 3, 5), []
    whole = peer.model.forward
    peer.model.forward = lambda input_ids=None, **given: (
        seen.append(tuple(input_ids.shape)) or whole(input_ids=input_ids, **given)
    )
    peer()
    assert seen == [(3, 1)] * 5


def test_ctranslate2_has_the_threads_of_torch_its_prompt_cached_and_all_answers_at_once(
    model, monkeypatch
):
    pytest.importorskip("transformers")
    told = []

    class Generator:
        def __init__(self, folder, **given):
            told.append(given)

        def generate_batch(self, prompts, **given):
            told.append({"prompts": prompts} | given)
            return [SimpleNamespace(sequences_ids=[[1] * 5] * 3)]

    made = SimpleNamespace(Generator=Generator)
    converters = SimpleNamespace(TransformersConverter=lambda folder: Converter())
    monkeypatch.setitem(sys.modules, "ctranslate2", made)
    monkeypatch.setitem(sys.modules, "ctranslate2.converters", converters)
    prompt = race_of.prompt_tokens()
    race_of.Ctranslate2(model, prompt, 3, 5)()
    first, asked = told
    assert first["intra_threads"] == torch.get_num_threads() and first["inter_threads"] == 1
    assert asked["prompts"] == [[f"t{prompt[-1]}"]] and asked["cache_static_prompt"] is True
    assert len(asked["static_prompt"]) == len(prompt) - 1 and asked["num_hypotheses"] == 3
    assert (asked["max_length"], asked["min_length"]) == (5, 5)


class Converter:
    def convert(self, folder, force):
        assert force


def test_the_large_model_is_larger_and_the_threads_are_those_of_the_receipt(
    monkeypatch, tmp_path
):
    seen = []

    def stop(models, given):
        seen.append((models.shape, torch.get_num_threads(), given.threads))
        return {"ours": None}

    raced = lambda made, **given: None  # noqa: E731
    monkeypatch.setattr(race_of, "contestants", stop)
    monkeypatch.setattr(race_of.bench, "race", raced)
    monkeypatch.setattr(race_of, "record", lambda *_: None)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)  # so that another number can only come from the options
        race_of.main(["--threads", "2"])
    finally:
        torch.set_num_threads(before)
    (small, *one), (large, *other) = seen
    assert large == race_of.LARGE and large.width > 4 * small.width
    assert one == other == [2, 2]


class Fake(race_of.Ours):
    """As ours, under another name."""


class Other(race_of.Ours):
    def __call__(self, temperature=1.0):
        rows = super().__call__(temperature)
        return [[(one + 1) % 96 for one in row] for row in rows]


class Off(race_of.Ours):
    def logits(self, tokens):
        return self.model(tokens) + 1


class Short(race_of.Ours):
    def __call__(self, temperature=1.0):
        rows = super().__call__(temperature)
        return rows if temperature == 0 else [row[:-1] for row in rows]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [(Other, "other greedy"), (Short, "other lengths"), (Off, "values differ")],
)
def test_who_answers_otherwise_is_not_raced(wrong, told, model, monkeypatch):
    monkeypatch.setattr(race_of, "makers", lambda: {"ours": race_of.Ours, "peer": wrong})
    with pytest.raises(race_of.check.Failed, match=told):
        race_of.contestants(model, options())


def test_half_the_time_is_told_as_twice_as_fast(monkeypatch, tmp_path, model):
    def raced(contestants, repeats, warmup, reference, device):
        made, took = race_of.bench.Measurement, {"ours": 1.0, "transformers": 2.0}
        assert repeats == 6 and set(contestants) == {"ours", "transformers"}
        results = {
            n: made(took[n], took[n], took[n], (took[n],) * repeats, None, "cpu")
            for n in contestants
        }
        ratios = {n: race_of.bench.ratio(results[reference], r) for n, r in results.items()}
        return race_of.bench.Race(results, ratios, reference)

    peer = type("Peer", (Fake,), {})
    monkeypatch.setattr(race_of, "makers", lambda: {"ours": race_of.Ours, "transformers": peer})
    monkeypatch.setattr(race_of, "load", lambda: model)
    monkeypatch.setattr(race_of, "LARGE", SMALL)
    monkeypatch.setattr(race_of.bench, "race", raced)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    race_of.main(["--rounds", "6", "--answers", "3", "--tokens", "5", "--threads", "1"])
    (path,) = tmp_path.glob("*.json")
    found = json.loads(path.read_text())["metrics"]
    for size in ("small", "large"):
        assert found[f"speed_over_transformers_{size}"]["value"] == 2.0
        assert found[f"tokens_ours_{size}"]["value"] == 15.0
        assert found[f"tokens_transformers_{size}"]["value"] == 7.5
