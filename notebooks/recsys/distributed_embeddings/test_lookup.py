"""Bags and their lookup, against plain loops."""

import pytest
import torch
from hybrid import DistributedEmbedding
from lookup import Bags, MergedLookup, checked, pack, pooled, pooled_reference
from placement import plan

NESTED = [[[1, 1, 4], [], [0]], [[2], [3, 3], []]]


def weight(rows=6, width=3):
    return torch.randn(
        rows, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )


def test_packed_bags_come_apart_again():
    bags = pack(NESTED)
    assert bags.batch == 3 and not bags.fixed
    assert [own.tolist() for own in bags.by_input()] == [[1, 1, 4, 0], [2, 3, 3]]


@pytest.mark.parametrize("fixed", [True, False])
def test_a_part_holds_its_samples(fixed):
    nested = [[[5, 6], [7, 8], [9, 9]], [[1], [2], [3]]]
    bags = pack(nested)
    if fixed:
        bags = Bags(bags.ids, (2, 1))
    part = bags.part(1, 3)
    assert part.ids.tolist() == [7, 8, 9, 9, 2, 3] and part.batch == 2
    assert part.lengths_FB().tolist() == [[2, 2], [1, 1]]


def test_sums_equal_the_reference():
    table, bags = weight(), pack(NESTED)
    got = pooled(table, bags.ids, bags.lengths.reshape(-1))
    want = [pooled_reference(table, bag) for one in NESTED for bag in one]
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64))
    assert pooled_reference(table, [3, 3], "mean") == table[3].tolist()


def test_equal_lengths_may_be_a_number():
    table, ids = weight(), torch.tensor([0, 1, 2, 2, 5, 5])
    got = pooled(table, ids, 2)
    torch.testing.assert_close(got, pooled(table, ids, torch.tensor([2, 2, 2])))


def test_gradients_of_repeated_ids_add_up_and_the_dead_row_gets_none():
    table = weight().requires_grad_()
    pooled(table, torch.tensor([1, 1, 5]), torch.tensor([2, 1]), dead=5).sum().backward()
    assert table.grad.is_sparse
    dense = table.grad.to_dense()
    assert dense[1].tolist() == [2, 2, 2] and dense[5].tolist() == [0, 0, 0]


def test_a_layer_serves_bags_of_other_lengths_in_turn():
    made = plan([(10, 4), (20, 4)], 1)
    layer, ids = DistributedEmbedding(made, dtype=torch.float64), torch.arange(6)
    tables = layer.get_weights()
    for hot in ((1, 2), (2, 1), (1, 2)):
        found = layer(Bags(ids, hot))
        for got, table, own, n in zip(
            found, tables, ids.split([2 * n for n in hot]), hot, strict=True
        ):
            torch.testing.assert_close(got, pooled(table, own, n))


def test_sizes_of_batches_do_not_pile_up():
    layer = DistributedEmbedding(plan([(10, 4)], 1))
    for batch in range(1, 30):
        layer(Bags(torch.zeros(batch, dtype=torch.long), (1,)))
    assert len(layer.shards._kept) <= 4


def test_host_pieces_stay_when_the_rest_is_cast():
    made = plan([(4, 2), (9, 2)], 1, device_limit=8)
    look = MergedLookup(
        made, made.on(0), 1, torch.float32, torch.device("cpu"), torch.int32, True
    )
    before = [rows.clone() for _, rows in look.places()]
    look.double()
    after = [rows for _, rows in look.places()]
    assert all(rows.dtype == torch.float64 for rows in after) and look.dtype == torch.float64
    assert all(torch.equal(a.double(), b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("bags", "words"),
    [
        (Bags(torch.tensor([0.5]), (1,)), "int32 or int64"),
        (Bags(torch.tensor([[1]]), (1,)), "one run"),
        (Bags(torch.tensor([1, 2]), (1, 1)), "2 inputs came, the plan has 1"),
        (Bags(torch.tensor([1, 2, 3]), (2,)), "must agree"),
        (Bags(torch.tensor([1]), (0,)), "must agree"),
        (Bags(torch.tensor([1, 2]), torch.tensor([[1]])), "must agree"),
        (Bags(torch.tensor([1, 2]), torch.tensor([[3, -1]])), "must agree"),
        (Bags(torch.tensor([0, 7]), (1,)), "id 7; allowed are 0 to 6"),
        (Bags(torch.tensor([0, -1]), (1,)), "id -1"),
    ],
)
def test_bags_that_do_not_fit_are_told(bags, words):
    with pytest.raises(ValueError, match=words):
        checked(bags, [7])


def test_bags_that_fit_come_back():
    bags = pack([[[6], [], [0, 0]]])
    assert checked(bags, [7]) is bags
