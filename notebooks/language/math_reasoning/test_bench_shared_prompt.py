"""What is raced gives the same tokens, and which way the ratios point."""

import json

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
    assert [len(row) for row in drawn] == [5] * 3 and len({tuple(row) for row in drawn}) > 1


@pytest.mark.parametrize("name", race_of.PEERS)
def test_a_peer_gives_the_same_tokens_and_logits(name, model, monkeypatch):
    for one in {"transformers", name}:
        pytest.importorskip(one)
    made = {n: one for n, one in race_of.makers().items() if n in ("ours", name)}
    monkeypatch.setattr(race_of, "makers", lambda: made)
    found = race_of.contestants(model, options())
    assert set(found) == {"ours", name}


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
