"""The language of topics, batches of each layout, and the way to a target."""

import packed_training as pt
import pytest
import torch
from packed_bert import IGNORED
from packed_training import MASK, Recipe, batches, draw, judged, rate_of, to_target, train

LENGTHS = [4, 9, 5, 12, 7, 4, 30, 16, 8, 10, 6, 11] * 4


def drawn(lengths=LENGTHS, seed=3):
    return draw(lengths, torch.Generator().manual_seed(seed))


def topics(row, labels):
    words = [
        label if token == MASK else token for token, label in zip(row, labels, strict=True)
    ]
    middle = len(row) // 2
    return [
        {(w - pt.WORDS) // 8 for w in half} for half in (words[1:middle], words[middle + 1 :])
    ]


def test_each_part_of_a_sequence_has_one_topic_and_the_label_compares_them():
    data = drawn()
    for row, labels, same in zip(data.sequences, data.labels, data.following, strict=True):
        first, second = topics(row, labels)
        assert len(first) == len(second) == 1 and (first == second) == bool(same)
    assert set(data.following) == {0, 1}


def test_a_sixth_of_the_words_is_masked_and_one_at_least():
    data = drawn([4, 32, 20])
    assert [sum(one != IGNORED for one in row) for row in data.labels] == [1, 5, 3]
    assert [row.count(MASK) for row in data.sequences] == [1, 5, 3]


@pytest.mark.parametrize("layout", ["padded", "unpadded", "packed"])
def test_an_epoch_of_a_layout_holds_no_sequence_twice(layout):
    data = drawn()
    recipe = Recipe(layout, sequences=12)
    source, seen, count = batches(data, recipe, torch.Generator().manual_seed(0)), [], 0
    while count < 30:
        batch, many = next(source)
        assert many == len(batch.firsts) == len(batch.following)
        owners = range(many)
        seen += [tuple(batch.tokens[batch.owners == one].tolist()) for one in owners]
        count += many
    assert all(seen.count(one) <= sum(one == tuple(s) for s in data.sequences) for one in seen)


def test_batches_of_the_corrections():
    data = drawn()
    factor = pt.packed_rows(data, 32)[1]
    assert factor > 1.5
    sizes = {
        corrects: next(
            batches(data, Recipe("packed", corrects, sequences=10), torch.Generator())
        )[0].tokens.shape[0]
        for corrects in ("rows", "rate", "nothing")
    }
    assert sizes == {"rows": round(10 / factor), "rate": 10, "nothing": 10}
    rates = [rate_of(Recipe("packed", one), data) for one in ("rows", "rate", "nothing")]
    assert rates == [1e-2, pytest.approx(1e-2 * factor), 1e-2]
    assert rate_of(Recipe("padded", "rate"), data) == 1e-2


def test_unpadded_trains_to_the_padded_weights():
    data = drawn()
    held = data.batch([[at] for at in range(8)], 32)
    rows = [
        judged(train(data, Recipe(one, sequences=8), 64, 32), held)
        for one in ("padded", "unpadded")
    ]
    assert [row[:2] for row in rows[0]] == [(32, 4), (64, 8)] == [row[:2] for row in rows[1]]
    for one, other in zip(*rows, strict=True):
        assert one[3] == pytest.approx(other[3], abs=1e-4)  # eight steps of Adam in float32


def test_wrong_mask_and_wrong_loss_change_the_training():
    data = drawn()
    held = data.batch([[at] for at in range(8)], 32)
    ends = [
        judged(train(data, Recipe("packed", sequences=8, **one), 64, 64), held)[-1][3]
        for one in ({}, {"mask": "wrong"}, {"loss": "wrong"})
    ]
    assert abs(ends[1] - ends[0]) > 1e-4 and abs(ends[2] - ends[0]) > 1e-4


def test_the_first_row_at_the_target_counts():
    rows = [(250, 8, 0.1, 3.0), (500, 16, 0.2, 2.4), (750, 24, 0.3, 2.3)]
    assert to_target(rows, 2.4) == (500, 16, 0.2, True)
    assert to_target(rows, 1.0) == (750, 24, 0.3, False)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: drawn([3]), "4 or more"),
        (lambda: Recipe("sparse"), "allowed are padded, unpadded, packed"),
        (lambda: Recipe(mask="none"), "allowed are right, wrong"),
        (lambda: to_target([], 2.4), "at least one evaluation"),
        (lambda: next(batches(drawn([4]), Recipe(), torch.Generator())), "draw more"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_run_takes_the_rate_of_its_recipe_and_the_weights_of_its_seed(monkeypatch):
    data, seen, adam = drawn(), [], torch.optim.Adam

    def watched(parameters, rate):
        seen.append(rate)
        return adam(parameters, rate)

    monkeypatch.setattr(torch.optim, "Adam", watched)
    recipe = Recipe("packed", "rate", sequences=8)
    runs = [train(data, recipe, 32, 32, seed)[0][3] for seed in (1, 1, 2)]
    assert seen == [rate_of(recipe, data)] * 3 and seen[0] > recipe.rate
    same = lambda one, other: all(torch.equal(one[k], other[k]) for k in one)  # noqa: E731
    assert same(runs[0], runs[1]) and not same(runs[0], runs[2])
