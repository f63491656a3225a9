"""What is raced computes the same losses and gradients, and which way the numbers point."""

import json

import bench_packing as race_of
import pytest
import torch
from packed_bert import PackedBert


def small(count=5):
    torch.manual_seed(0)
    parts = race_of.sequences_of(count)
    return PackedBert(race_of.VOCABULARY, 16, 4, 1, race_of.ROW), parts


def test_contestants_agree_and_a_difference_is_found():
    model, parts = small()
    runs, factor = race_of.contestants(model, parts, grid=(512,))
    race_of.agree(runs, model)
    assert 1 < factor <= 3
    other = [*parts[:2], [1 - one for one in parts[2]]]
    runs["padded"] = race_of.step(model, race_of.layouts(other)[0]["padded"])
    with pytest.raises(AssertionError, match="differ"):
        race_of.agree(runs, model)


@pytest.mark.parametrize("rows", [1, 2, 4, 9])
def test_pieces_hold_each_row_and_sequence_once(rows):
    _, parts = small(9)
    for whole in race_of.layouts(parts)[0].values():
        made = race_of.pieces(whole, rows)
        assert torch.equal(torch.cat([one.tokens for one in made]), whole.tokens)
        firsts = [one.tokens[row, at].item() for one in made for row, at in one.firsts]
        assert sorted(firsts) == sorted(row[0] for row in parts[0])
        assert sum(len(one.following) for one in made) == 9


@pytest.mark.parametrize("tokens", [512, 1024])
def test_the_collator_s_model_equals_ours_with_a_mask_and_mixes_sequences_without(tokens):
    pytest.importorskip("transformers")
    model, parts = small()
    ours = race_of.step(model, race_of.layouts(parts)[0]["padded"])().item()
    theirs, made = race_of.encoder_like(model), race_of.flattened(parts, tokens)
    assert race_of.peer_step(theirs, model, made)().item() == pytest.approx(ours, rel=1e-5)
    mixed = race_of.peer_step(theirs, model, made, masked=False)().item()
    assert abs(mixed - ours) > 1e-4


def test_without_a_mask_gradients_are_off_by_what_sequences_of_a_row_see():
    pytest.importorskip("transformers")
    model, parts = small()
    assert race_of.off_without_mask(model, parts, 512) > 1
    alone = race_of.off_without_mask(model, parts, 1)  # a row for each: none to see
    assert alone < 1e-2  # float32, another kernel


def test_the_collator_s_grid_has_rows_shorter_and_longer_than_ours():
    assert min(race_of.GRID) < race_of.ROW < max(race_of.GRID) and race_of.ROW in race_of.GRID


def test_the_collator_s_rows_hold_each_sequence_once_and_no_more_tokens_than_asked():
    pytest.importorskip("transformers")
    _, parts = small(9)
    made = race_of.flattened(parts, 1024)
    assert max(batch["input_ids"].shape[1] for batch, _ in made) <= 1024
    rows = [batch["input_ids"].shape[1] for batch, _ in race_of.flattened(parts, 256)]
    assert sorted(n for n in rows if n > 256) == [n for n in map(len, parts[0]) if n > 256]
    assert sum(len(following) for _, following in made) == 9
    told = [one for batch, _ in made for one in batch["input_ids"][0].tolist()]
    assert told == sum(parts[0], [])
    labels = [one for batch, _ in made for one in batch["labels"][0].tolist()]
    assert labels == sum(parts[1], [])


def test_packed_twice_as_fast_of_a_factor_is_its_share(monkeypatch, tmp_path):
    took = {"padded": 5.0, "padded 1": 8.0, "padded 4": 4.0, "unpadded": 1.0}
    took |= {"packed": 2.0, "packed 1": 3.0, "packed 4": 2.5}

    def raced(ways, repeats, warmup, reference, device):
        made = race_of.bench.Measurement
        times = {name: took.get(name, 5.0) for name in ways}
        results = {
            name: made(one, one, one, (one,) * repeats, None, "cpu")
            for name, one in times.items()
        }
        ratios = {
            name: race_of.bench.ratio(results[reference], one) for name, one in results.items()
        }
        return race_of.bench.Race(results, ratios, reference)

    monkeypatch.setattr(race_of.bench, "race", raced)
    monkeypatch.setattr(race_of, "GRID", ())
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    arguments = ["--rounds", "6", "--sequences", "4", "--width", "16", "--threads", "1"]
    race_of.main(arguments)
    (path,) = tmp_path.glob("*.json")
    found = json.loads(path.read_text())["metrics"]
    factor = found["packed_rows_saved"]["value"]
    assert found["packed_speedup"]["value"] == 2  # of the best of each, not of equal calls
    assert found["padded_fewer_rows_speedup"]["value"] == 1.25
    assert found["unpadded_speedup"]["value"] == 4
    assert found["packed_share_of_gain"]["value"] == pytest.approx(200 / factor)
    tokens = json.loads(path.read_text())["sizes"]["tokens"]
    assert found["tokens_rate_unpadded"]["value"] == tokens


def test_raced_lengths_stand_for_wikipedia_s():
    lengths = sorted(map(len, race_of.sequences_of(64)[0]))
    assert sum(lengths) / 64 == pytest.approx(255.8, abs=4)  # its mean
    assert lengths[0] < 40 and lengths[-1] == 512
