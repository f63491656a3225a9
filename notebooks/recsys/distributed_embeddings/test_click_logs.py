"""The reader of the Criteo schema, the world, the ranking measure, the models."""

import math

import pytest
import torch
from click_logs import World, auc, read, shrunk_rows, write
from synthetic_models import DLRM_TERABYTE, MODELS, power_law

ROWS = shrunk_rows(DLRM_TERABYTE, 200_000)
LINE = "1\t" + "\t".join(["5"] * 13) + "\t" + "\t".join(["0000000a"] * 26)


def with_field(at, text):
    fields = LINE.split("\t")
    fields[at] = text
    return "\t".join(fields) + "\n"


def test_written_logs_are_read_again(tmp_path):
    clicks = World(ROWS).draw(200)
    write(tmp_path / "log", clicks)
    again = read(tmp_path / "log", ROWS)
    assert torch.equal(again.ids, clicks.ids) and torch.equal(again.labels, clicks.labels)
    torch.testing.assert_close(again.numbers, clicks.numbers)


def test_missing_fields_have_values_of_their_own(tmp_path):
    (tmp_path / "log").write_text(with_field(3, "") + with_field(20, "") + with_field(1, "-2"))
    clicks = read(tmp_path / "log", [8] * 26)
    assert clicks.numbers[0, 2] == 0 and clicks.numbers[2, 0] == 0
    assert clicks.numbers[1, 0].item() == pytest.approx(math.log(6))
    assert clicks.ids[6, 1] == 0 and clicks.ids[6, 0] == 1 + 10 % 7


def test_only_so_many_lines_are_read(tmp_path):
    (tmp_path / "log").write_text((LINE + "\n") * 5)
    assert len(read(tmp_path / "log", [8] * 26, limit=3).labels) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (with_field(0, "2"), "line 1: label '2'"),
        (with_field(0, ""), "label ''"),
        (with_field(4, "x"), "I4 is 'x'; a whole number"),
        (with_field(30, "xyz"), "C17 is 'xyz'; hexadecimal"),
        ("1\t2\n", "2 fields came, not 40"),
        ("", "holds no line"),
    ],
)
def test_a_broken_line_is_named(tmp_path, text, words):
    (tmp_path / "log").write_text(text)
    with pytest.raises(ValueError, match=words):
        read(tmp_path / "log", [8] * 26)


def test_rows_that_do_not_fit_the_schema_are_told(tmp_path):
    for rows in ([8] * 25, [1] * 26):
        with pytest.raises(ValueError, match="26 numbers from 2 up"):
            read(tmp_path / "log", rows)
        with pytest.raises(ValueError, match="26 numbers from 2 up"):
            World(tuple(rows))


def test_the_world_stays_and_the_samples_change():
    world = World(ROWS)
    first, second, again = world.draw(500, 1), world.draw(500, 2), world.draw(500, 1)
    assert torch.equal(first.ids, again.ids) and torch.equal(first.labels, again.labels)
    assert not torch.equal(first.ids, second.ids)
    both = World(ROWS, seed=4).draw(500, 1)
    assert not torch.equal(first.chances, both.chances)


def test_clicks_have_their_true_chances():
    clicks = World(ROWS).draw(40_000)
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (clicks.chances >= low) & (clicks.chances < low + 0.25)
        rate, chance = clicks.labels[inside].mean(), clicks.chances[inside].mean()
        assert abs(rate - chance) < 4 * (0.25 / inside.sum()) ** 0.5


@pytest.mark.parametrize(("pairs", "added"), [(6, True), (0, False)])
def test_pairs_of_tables_interact_beyond_their_own_effects(pairs, added):
    clicks = World((3,) * 26, pairs=pairs).draw(2_000)  # ids are 1 or 2
    plain = torch.cat([clicks.numbers, clicks.ids.T == 1, torch.ones(2_000, 1)], 1).double()
    logits = clicks.chances.logit()[:, None]
    rest = logits - plain @ torch.linalg.lstsq(plain, logits).solution
    assert bool(rest.std() > 0.05) == added and bool(rest.std() < 1e-4) != added


def test_models_look_up_as_many_ids_as_the_article_s():
    ids = {name: (len(model.hot), sum(model.hot)) for name, model in MODELS.items()}
    assert ids == {
        "Tiny": (58, 85), "Small": (116, 377), "Medium": (337, 1_611),
        "Large": (669, 6_312), "Jumbo": (1_097, 16_022), "Colossal": (2_153, 47_302),
    }  # fmt: skip


def test_auc_of_known_orders():
    labels = torch.tensor([1.0, 0, 1, 0])
    assert auc(torch.tensor([4.0, 1, 3, 2]), labels) == 1
    assert auc(torch.tensor([1.0, 4, 2, 3]), labels) == 0
    assert auc(torch.tensor([1.0, 1, 1, 1]), labels) == 0.5
    assert auc(torch.tensor([3.0, 2, 1, 2]), labels) == 0.5
    assert math.isnan(auc(torch.tensor([1.0, 2]), torch.ones(2)))


def test_the_models_are_the_article_s():
    sizes = {
        name: (len(model.tables), round(model.bytes / 2**30, 1))
        for name, model in MODELS.items()
    }
    assert sizes == {
        "Tiny": (55, 4.2), "Small": (107, 26.3), "Medium": (311, 206.2),
        "Large": (612, 773.8), "Jumbo": (1022, 3109.5), "Colossal": (2002, 22327.4),
    }  # fmt: skip
    assert len(MODELS["Tiny"].inputs) == len(MODELS["Tiny"].hot) == 58
    assert sum(table.elements for table in DLRM_TERABYTE.tables) == 112_995_143_552


def test_ids_follow_the_power_law():
    rows, alpha, count = 50, 1.3, 200_000
    ids = power_law(count, rows, alpha, torch.Generator().manual_seed(2))
    assert ids.min() == 0 and ids.max() == rows - 1
    edge = torch.arange(1, rows + 2, dtype=torch.float64) ** (1 - alpha)
    chance = (edge[:-1] - edge[1:]) / (edge[0] - edge[-1])
    share = torch.bincount(ids, minlength=rows) / count
    torch.testing.assert_close(share.double(), chance, atol=5e-3, rtol=0)


@pytest.mark.parametrize("wrong", [(-1, 5, 1.05), (3, 0, 1.05), (3, 5, 1)])
def test_a_power_law_without_rows_or_with_alpha_one_is_told(wrong):
    with pytest.raises(ValueError, match="alpha not 1"):
        power_law(*wrong)
