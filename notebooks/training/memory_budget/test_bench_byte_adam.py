"""What is raced makes the same updates, its bytes are counted whole, and which way the numbers
point."""

import json
import re
from pathlib import Path

import bench_byte_adam as race_of
import pytest
import torch
from byte_adam import ByteAdam, state_bytes
from helpers import receipts


def eager():
    """The contestants that need no compiler."""
    return {k: v for k, v in race_of.makers().items() if k in ("32 bits", "ours")}


def test_ours_goes_adams_way_and_another_rate_does_not():
    made = eager() | {"other": lambda p: ByteAdam(p, lr=2 * race_of.RATE)}
    _, apart = race_of.ways(made, 48)
    assert apart["32 bits"] == 0 and 0 < apart["ours"] < race_of.FAR < apart["other"]


def test_all_learn_from_the_same_gradients():
    model = race_of.network(16)
    race_of.gradients(model, 3)
    first = model[0].weight.grad.clone()
    race_of.gradients(model, 3)
    assert torch.equal(model[0].weight.grad, first)
    race_of.gradients(model, 4)
    assert not torch.equal(model[0].weight.grad, first)


def test_states_are_counted_to_the_byte():
    runs, _ = race_of.ways(eager(), 64)
    weights = 4 * 64**2
    assert race_of.state_bytes(runs["32 bits"][1]) == 8 * weights + 2 * 4
    assert race_of.state_bytes(runs["ours"][1]) == state_bytes(runs["ours"][1])


def test_what_lies_inside_a_tensor_of_parts_is_counted():
    class Parts:
        def __init__(self):
            self.codes, self.scale = torch.zeros(100, dtype=torch.uint8), torch.zeros(5)

        def __tensor_flatten__(self):
            return ["codes", "scale"], []

    class Holds:
        state = {"p": {"step": torch.zeros(()), "moment": Parts()}}

    assert race_of.state_bytes(Holds()) == 100 + 20 + 4


@pytest.mark.parametrize("name", ["bitsandbytes", "torchao"])
def test_a_peer_goes_adams_way_in_a_quarter_of_the_bytes(name):
    pytest.importorskip(name)
    made = {k: v for k, v in race_of.makers().items() if k in ("32 bits", name)}
    runs, apart = race_of.ways(made, 48)
    assert apart[name] < race_of.FAR
    states = {k: race_of.state_bytes(o) for k, (_, o) in runs.items()}
    assert states[name] < 0.3 * states["32 bits"]


def test_half_the_bytes_and_twice_the_time_are_told_so(monkeypatch, tmp_path):
    def raced(contestants, repeats, warmup, reference, device):
        made = race_of.bench.Measurement
        took = {"ours": 0.002, "torchao": 0.001}
        for name, step in contestants.items():  # each is timed by its own optimiser
            assert isinstance(step.__self__, ByteAdam) == (name == "ours")
        assert len({id(step.__self__) for step in contestants.values()}) == len(contestants)
        results = {
            name: made(t, t, t, (t,) * repeats, None, "cpu")
            for name, t in ((n, took.get(n, 0.004)) for n in contestants)
        }
        ratios = {n: race_of.bench.ratio(results[reference], r) for n, r in results.items()}
        return race_of.bench.Race(results, ratios, reference)

    plain = eager()
    monkeypatch.setattr(race_of, "makers", lambda: plain | {"torchao": plain["32 bits"]})
    monkeypatch.setattr(race_of.bench, "race", raced)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    race_of.main(["--rounds", "6", "--width", "64", "--threads", "1"])
    (path,) = tmp_path.glob("*.json")
    found = json.loads(path.read_text())["metrics"]
    assert found["speed_over_torchao"]["value"] == 0.5  # half as fast
    assert found["step_ms_ours"]["value"] == 2 and found["apart_32_bits"]["value"] == 0
    part = found["state_over_torchao"]["value"]
    assert part == pytest.approx(
        found["state_mb_ours"]["value"] / found["state_mb_torchao"]["value"]
    )
    assert 0.25 < part < 0.26


def test_who_goes_another_way_is_not_raced(monkeypatch, tmp_path):
    made = eager() | {"other": lambda p: ByteAdam(p, lr=2 * race_of.RATE)}
    monkeypatch.setattr(race_of, "makers", lambda: made)
    monkeypatch.setattr(race_of.bench, "race", lambda *all, **more: pytest.fail("raced"))
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    with pytest.raises(race_of.check.Failed, match="other went"):
        race_of.main(["--rounds", "6", "--width", "48", "--threads", "1"])
    assert not list(tmp_path.iterdir())


def test_page_and_card_find_the_committed_race_by_its_name():
    if not receipts.committed("memory_budget"):
        pytest.skip("nothing is recorded yet")
    card = Path(race_of.__file__).with_name("memory_budget.yml").read_text(encoding="utf-8")
    page = Path(race_of.__file__).with_name("memory_budget.ipynb").read_text(encoding="utf-8")
    (name,) = re.findall(r'\\"state_over_torchao\\", name=\\"([a-z-]+)\\"', page)
    assert f"run: {name}\n" in card
    assert receipts.recorded("memory_budget", "state_over_torchao", name=name)
